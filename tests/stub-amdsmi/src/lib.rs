//! Two devices that answer as AMD SMI does. Files in the folder `RUNLORE_STUB` change what they say:
//!
//! | file | then |
//! |---|---|
//! | `no-driver` | the driver is not loaded |
//! | `version` | the library is of the version in it, and lays out its structures so |
//! | `hang` | a reading of memory does not return while the file is there |
//! | `slow` | a reading of memory takes 2 s |
//! | `lost` | the second device is gone |
//! | `broken` | its memory cannot be read |
#![allow(unsafe_code, clippy::missing_safety_doc)]
#![allow(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, missing_docs)]

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

type Status = u32;
/// The number of a device or socket plus one.
type Handle = usize;

const SUCCESS: Status = 0;
const INVALID: Status = 1;
const NOT_SUPPORTED: Status = 2;
const FILE_ERROR: Status = 14;
const NOT_FOUND: Status = 31;
const DRIVER_NOT_LOADED: Status = 34;

fn file(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("RUNLORE_STUB").unwrap_or_default()).join(name)
}

fn is_set(name: &str) -> bool {
    file(name).exists()
}

fn version() -> u32 {
    let text = std::fs::read_to_string(file("version")).unwrap_or_default();
    text.trim().parse().unwrap_or(26)
}

fn state(device: Handle) -> Status {
    if device == 2 && is_set("lost") { NOT_FOUND } else { SUCCESS }
}

unsafe fn give<T>(device: Handle, to: *mut T, value: T) -> Status {
    match state(device) {
        SUCCESS => {
            to.write_unaligned(value);
            SUCCESS
        }
        other => other,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn amdsmi_init(flags: u64) -> Status {
    match flags {
        2 if is_set("no-driver") => DRIVER_NOT_LOADED,
        2 => SUCCESS,
        _ => INVALID,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn amdsmi_shut_down() -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_lib_version(to: *mut u32) -> Status {
    // Year, major, minor and release up to 24; then the year went.
    let numbers: [u32; 4] = [version(), 5, 0, 0];
    ptr::copy_nonoverlapping(numbers.as_ptr(), to, 4);
    to.add(4).cast::<*const c_char>().write_unaligned(c"stub".as_ptr());
    SUCCESS
}

/// Each device is in a socket of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_socket_handles(count: *mut u32, to: *mut Handle) -> Status {
    if !to.is_null() {
        for socket in 0..(*count).min(2) as usize {
            to.add(socket).write(socket + 1);
        }
    }
    *count = 2;
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_processor_handles(
    socket: Handle,
    count: *mut u32,
    to: *mut Handle,
) -> Status {
    if !to.is_null() && *count > 0 {
        to.write(socket);
    }
    *count = 1;
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_device_uuid(
    device: Handle,
    length: *mut u32,
    to: *mut c_char,
) -> Status {
    let uuid = format!("{device}1ff74a0-0000-1000-80de-ad000000000{device}\0");
    if (*length as usize) < uuid.len() {
        return INVALID;
    }
    ptr::copy_nonoverlapping(uuid.as_ptr().cast(), to, uuid.len());
    state(device)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_device_bdf(device: Handle, to: *mut u64) -> Status {
    give(device, to, (device as u64) << 8)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_memory_total(
    device: Handle,
    kind: u32,
    to: *mut u64,
) -> Status {
    match kind {
        0 => give(device, to, 192_000_000_000),
        _ => NOT_SUPPORTED,
    }
}

/// The product's name is 768 bytes from the beginning, in versions after 24 256 long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_board_info(device: Handle, to: *mut u8) -> Status {
    let name = b"Stub MI300X\0";
    match state(device) {
        SUCCESS if version() > 24 => {
            ptr::copy_nonoverlapping(name.as_ptr(), to.add(768), name.len());
            SUCCESS
        }
        SUCCESS => INVALID,
        other => other,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_memory_usage(
    device: Handle,
    kind: u32,
    to: *mut u64,
) -> Status {
    if is_set("slow") {
        std::thread::sleep(Duration::from_secs(2));
    }
    while is_set("hang") {
        std::thread::sleep(Duration::from_millis(1));
    }
    match (kind, device) {
        (0, 2) if is_set("broken") => FILE_ERROR,
        (0, _) => give(device, to, 1_000_000_000 * device as u64),
        _ => NOT_SUPPORTED,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_activity(device: Handle, to: *mut u32) -> Status {
    let mut usage = [0_u32; 16];
    usage[..3].copy_from_slice(&[80 + device as u32, 20 + device as u32, u32::MAX]);
    give(device, to.cast(), usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_power_info(device: Handle, to: *mut c_void) -> Status {
    if version() <= 24 {
        // 68 bytes: current, average, three voltages in mV, the limit, and room.
        let mut old = [0_u32; 17];
        old[..6].copy_from_slice(&[301, 300, 850, 850, 850, 560]);
        return give(device, to.cast(), old);
    }
    // 192 bytes: the socket's power, current and average, three voltages, the limit, and room.
    let mut new = [0_u32; 48];
    new[..8].copy_from_slice(&[302, 0, 301, 300 + device as u32, 850, 0, 850, 0]);
    give(device, to.cast(), new)
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_energy_count(
    device: Handle,
    count: *mut u64,
    resolution: *mut f32,
    time: *mut u64,
) -> Status {
    let text = std::fs::read_to_string(file("steps")).unwrap_or_default();
    resolution.write(15.5);
    time.write(1);
    give(device, count, 2_000_000 * device as u64 + text.trim().parse::<u64>().unwrap_or(0))
}

/// Sensors 0 to 6 are edge, hotspot, memory and four stacks of memory.
#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_temp_metric(
    device: Handle,
    sensor: u32,
    metric: u32,
    to: *mut i64,
) -> Status {
    match (sensor, metric) {
        (0..=4, 0) => give(device, to, 50 + i64::from(sensor)),
        (5..=6, 0) => give(device, to, 0),
        _ => NOT_SUPPORTED,
    }
}

/// The table, of which the first 78 bytes have never changed: 1832 bytes in 24, 4736 in 27.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdsmi_get_gpu_metrics_info(device: Handle, to: *mut u8) -> Status {
    let length = if version() <= 24 { 1832 } else { 4736 };
    let mut table = vec![0xff_u8; length];
    for (offset, value) in [
        (4, 41),
        (6, 52),
        (8, 63),
        (10, 74),
        (12, 85),
        (14, 96),
        (16, 81),
        (18, 21),
        (20, 11),
        (22, 300),
        (54, 2100),
        (56, 1200),
        (58, 1300),
        (60, 1400),
        (72, 3000),
    ] {
        table[offset..offset + 2].copy_from_slice(&u16::to_ne_bytes(value + device as u16));
    }
    match state(device) {
        SUCCESS => {
            ptr::copy_nonoverlapping(table.as_ptr(), to, length);
            SUCCESS
        }
        other => other,
    }
}
