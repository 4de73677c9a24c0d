//! Two devices that answer as NVML does. Files in the folder `RUNLORE_STUB` change what they say:
//!
//! | file | then |
//! |---|---|
//! | `no-driver` | the driver is not loaded |
//! | `hang` | a reading of memory does not return while the file is there |
//! | `slow` | a reading of memory takes 2 s |
//! | `lost` | the second device is gone |
//! | `broken` | its power cannot be read |
//! | `driver` | the driver is of the version in it |
//! | `unlike` | the devices are of two models |
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]
#![allow(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, missing_docs)]

use std::ffi::{CStr, c_char, c_uint, c_ulonglong};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

type Return = c_uint;
/// The number of a device plus one; above 100 it is a part of the second one.
type Device = usize;

const SUCCESS: Return = 0;
const INVALID: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NOT_FOUND: Return = 6;
const DRIVER_NOT_LOADED: Return = 9;
const GPU_IS_LOST: Return = 15;
const UNKNOWN: Return = 999;

const UUIDS: [&str; 2] =
    ["GPU-11111111-aaaa-0000-0000-000000000001", "GPU-22222222-bbbb-0000-0000-000000000002"];
const PARTS: [&str; 2] =
    ["MIG-33333333-cccc-0000-0000-000000000003", "MIG-44444444-dddd-0000-0000-000000000004"];

fn file(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("RUNLORE_STUB").unwrap_or_default()).join(name)
}

fn is_set(name: &str) -> bool {
    file(name).exists()
}

/// What a call on this device returns, before it does anything.
fn state(device: Device) -> Return {
    if device == 2 && is_set("lost") { GPU_IS_LOST } else { SUCCESS }
}

unsafe fn give<T>(device: Device, to: *mut T, value: T) -> Return {
    match state(device) {
        SUCCESS => {
            to.write(value);
            SUCCESS
        }
        other => other,
    }
}

unsafe fn give_text(text: &str, to: *mut c_char, room: c_uint) -> Return {
    let length = text.len().min(room as usize - 1);
    ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
    to.add(length).write(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    if is_set("no-driver") { DRIVER_NOT_LOADED } else { SUCCESS }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> Return {
    let text = std::fs::read_to_string(file("driver")).unwrap_or_default();
    give_text(if text.is_empty() { "570.86.15" } else { text.trim() }, to, room)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(to: *mut c_char, room: c_uint) -> Return {
    give_text("12.570.86.15", to, room)
}

#[repr(C)]
#[derive(Debug)]
pub struct PciInfo {
    old_bus_id: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, to: *mut PciInfo) -> Return {
    let bus = 0x40 + device as c_uint;
    let mut info = PciInfo {
        old_bus_id: [0; 16],
        domain: 0,
        bus,
        device: 0,
        device_id: 0x2330_10de,
        subsystem_id: 0,
        bus_id: [0; 32],
    };
    give_text(&format!("00000000:{bus:02X}:00.0"), info.bus_id.as_mut_ptr(), 32);
    give(device, to, info)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Return {
    to.write(2);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Device) -> Return {
    if index > 1 {
        return INVALID;
    }
    give(index as Device + 1, to, index as Device + 1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut Device) -> Return {
    let uuid = CStr::from_ptr(uuid).to_string_lossy();
    let device = UUIDS.iter().position(|known| *known == uuid).map(|index| index + 1);
    let part = PARTS.iter().position(|known| *known == uuid).map(|index| index + 101);
    match device.or(part) {
        Some(device) => give(device, to, device),
        None => NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: Device,
    to: *mut c_char,
    room: c_uint,
) -> Return {
    match device {
        1 | 2 => give_text(UUIDS[device - 1], to, room),
        101 | 102 => give_text(PARTS[device - 101], to, room),
        _ => INVALID,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    to: *mut c_char,
    room: c_uint,
) -> Return {
    match device {
        1 if is_set("unlike") => give_text("Stub S10", to, room),
        1 | 2 => give_text("Stub H100", to, room),
        _ => give_text("Stub H100 MIG 1g.10gb", to, room),
    }
}

/// Memory in bytes: all, reserved, free.
fn memory(device: Device) -> (c_ulonglong, c_ulonglong, c_ulonglong) {
    if is_set("slow") {
        std::thread::sleep(Duration::from_secs(2));
    }
    while is_set("hang") {
        std::thread::sleep(Duration::from_millis(1));
    }
    match device {
        1 => (80_000_000_000, 600_000_000, 70_000_000_000),
        2 => (80_000_000_000, 600_000_000, 20_000_000_000),
        _ => (10_000_000_000, 10_000_000, 7_000_000_000),
    }
}

#[repr(C)]
#[derive(Debug)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut MemoryV2) -> Return {
    let version = (*to).version;
    if version != (size_of::<MemoryV2>() as c_uint | 2 << 24) {
        return INVALID;
    }
    let (total, reserved, free) = memory(device);
    // Without what is reserved, as the newest driver's own page says.
    give(device, to, MemoryV2 { version, total, reserved, free, used: total - free - reserved })
}

#[repr(C)]
#[derive(Debug)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, to: *mut Memory) -> Return {
    let (total, _, free) = memory(device);
    give(device, to, Memory { total, free, used: total - free })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    sensor: c_uint,
    to: *mut c_uint,
) -> Return {
    if sensor != 0 {
        return INVALID;
    }
    give(device, to, 40 + device as c_uint)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Device, to: *mut c_uint) -> Return {
    if device == 2 && is_set("broken") {
        return UNKNOWN;
    }
    give(device, to, 250_000 + device as c_uint)
}

#[repr(C)]
#[derive(Debug)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Device,
    to: *mut Utilization,
) -> Return {
    give(device, to, Utilization { gpu: 90 + device as c_uint, memory: 30 + device as c_uint })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(
    device: Device,
    clock: c_uint,
    to: *mut c_uint,
) -> Return {
    match clock {
        0..4 => give(device, to, [1980, 1981, 2619, 1545][clock as usize]),
        _ => INVALID,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetNumFans(_: Device, _: *mut c_uint) -> Return {
    NOT_SUPPORTED
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    device: Device,
    to: *mut c_ulonglong,
) -> Return {
    let text = std::fs::read_to_string(file("millijoules")).unwrap_or_default();
    let more = text.trim().parse::<c_ulonglong>().unwrap_or(0);
    give(device, to, 1_000_000 * device as c_ulonglong + more)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieThroughput(
    device: Device,
    counter: c_uint,
    to: *mut c_uint,
) -> Return {
    give(device, to, 1000 + counter)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Device,
    to: *mut c_ulonglong,
) -> Return {
    give(device, to, 0x4 | 0x20)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    kind: c_uint,
    _counter: c_uint,
    to: *mut c_ulonglong,
) -> Return {
    give(device, to, c_ulonglong::from(7 - kind))
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    pending.write(0);
    give(device, current, c_uint::from(device == 2))
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Device, to: *mut c_uint) -> Return {
    give(device, to, if device == 2 { 7 } else { 0 })
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Device,
    index: c_uint,
    to: *mut Device,
) -> Return {
    if device != 2 || index > 1 {
        return NOT_FOUND;
    }
    give(device, to, 101 + index as Device)
}

/// Parts are numbered from 1 and 0.
#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(part: Device, to: *mut c_uint) -> Return {
    match part {
        101.. => give(part, to, (part - 100) as c_uint),
        _ => NOT_SUPPORTED,
    }
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(part: Device, to: *mut c_uint) -> Return {
    match part {
        101.. => give(part, to, 0),
        _ => NOT_SUPPORTED,
    }
}

#[repr(C)]
#[derive(Debug)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    to: *mut Process,
) -> Return {
    // On the second device there is none.
    let own = c_uint::from(device == 1);
    if *count < own {
        *count = own;
        return 7;
    }
    *count = own;
    if own == 1 {
        let (gpu_instance, compute_instance) = (c_uint::MAX, c_uint::MAX);
        to.write(Process {
            pid: std::process::id(),
            used: 123_456_789,
            gpu_instance,
            compute_instance,
        });
    }
    SUCCESS
}
