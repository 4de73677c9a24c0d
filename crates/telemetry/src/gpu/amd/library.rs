//! What the crate `amdsmi` does not read, from the same library: opened a second time it is the same one, in the same
//! state.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr;

/// Numbers and not an enum: a status that is not known must stay a number.
type Status = u32;
/// A device or a socket, as the library calls it.
type Pointer = *mut c_void;

type Handles = unsafe extern "C" fn(*mut u32, *mut Pointer) -> Status;
type HandlesOf = unsafe extern "C" fn(Pointer, *mut u32, *mut Pointer) -> Status;
type Uuid = unsafe extern "C" fn(Pointer, *mut u32, *mut c_char) -> Status;
type Address = unsafe extern "C" fn(Pointer, *mut u64) -> Status;
type Memory = unsafe extern "C" fn(Pointer, u32, *mut u64) -> Status;
type Temperature = unsafe extern "C" fn(Pointer, u32, u32, *mut i64) -> Status;
type Fill = unsafe extern "C" fn(Pointer, *mut u8) -> Status;
type Version = unsafe extern "C" fn(*mut u32) -> Status;

/// What the sensors of stacked memory are called.
const MEMORY_STACKS: std::ops::RangeInclusive<u32> = 3..=6;
/// Larger than any version's table of metrics, which is 1832 bytes in one and 4736 in another.
const TABLE: usize = 64 << 10;
/// What is alike in all of them.
const ALIKE: usize = 78;

#[derive(Debug)]
pub(super) struct Library(libloading::Library);

/// A device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle(Pointer);

/// The beginning of a device's table of metrics.
#[derive(Debug)]
pub(super) struct Metrics([u8; ALIKE]);

impl Metrics {
    /// The number at this place.
    pub(super) fn at(&self, offset: usize) -> u16 {
        u16::from_ne_bytes([self.0[offset], self.0[offset + 1]])
    }
}

impl Library {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: it is AMD's library, whose initialisers are made to be run by whoever loads it.
        let library = unsafe { libloading::Library::new(path) };
        library.map(Self).map_err(|error| format!("{} cannot be loaded: {error}", path.display()))
    }

    /// Says so where there is no such function.
    pub(super) fn need(&self, function: &str) -> Result<(), String> {
        // SAFETY: it is not called.
        unsafe { self.function::<unsafe extern "C" fn()>(function) }.map(drop)
    }

    /// # Safety
    ///
    /// The function must be of the type `F`.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: as the caller promises.
        let found = unsafe { self.0.get::<F>(name.as_bytes()) };
        found.map(|function| *function).map_err(|_| format!("AMD SMI: it has no `{name}`"))
    }

    /// The numbers of its version, of which the first was once called its year. It can be asked before the library is
    /// initialised.
    pub(super) fn version(&self) -> Result<[u32; 3], String> {
        let mut version = [0_u32; 64];
        // SAFETY: every version of the library has had this function, and writes no more than 24 bytes.
        unsafe {
            let ask: Version = self.function("amdsmi_get_lib_version")?;
            done(ask(version.as_mut_ptr()))?;
        }
        Ok([version[0], version[1], version[2]])
    }

    /// All devices. The library must be initialised.
    pub(super) fn handles(&self) -> Result<Vec<Handle>, String> {
        let mut all = Vec::new();
        // SAFETY: the functions are AMD's. Asked without room they tell the count, and then fill at most as many.
        unsafe {
            let sockets: Handles = self.function("amdsmi_get_socket_handles")?;
            let devices: HandlesOf = self.function("amdsmi_get_processor_handles")?;
            for socket in listed(|count, room| sockets(count, room))? {
                all.extend(
                    listed(|count, room| devices(socket, count, room))?.into_iter().map(Handle),
                );
            }
        }
        Ok(all)
    }

    pub(super) fn uuid(&self, device: Handle) -> Result<String, String> {
        let mut text = [0 as c_char; 256];
        let mut length = text.len() as u32 - 1;
        // SAFETY: the function is AMD's, the handle is the library's own, and there is more room than it says there is.
        unsafe {
            let ask: Uuid = self.function("amdsmi_get_gpu_device_uuid")?;
            done(ask(device.0, &raw mut length, text.as_mut_ptr()))?;
            Ok(CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// Domain, bus, device and function in one number.
    pub(super) fn address(&self, device: Handle) -> Result<u64, String> {
        let mut address = 0;
        // SAFETY: the function is AMD's, the handle is the library's own, and it writes one such number.
        unsafe {
            let ask: Address = self.function("amdsmi_get_gpu_device_bdf")?;
            done(ask(device.0, &raw mut address))?;
        }
        Ok(address)
    }

    /// Bytes of the device's own memory.
    pub(super) fn memory_total(&self, device: Handle) -> Result<u64, String> {
        const OWN: u32 = 0;
        let mut bytes = 0;
        // SAFETY: the function is AMD's, the handle is the library's own, and it writes one such number.
        unsafe {
            let ask: Memory = self.function("amdsmi_get_gpu_memory_total")?;
            done(ask(device.0, OWN, &raw mut bytes))?;
        }
        Ok(bytes)
    }

    /// The temperatures of the stacks of memory that there are, in °C.
    pub(super) fn memory_temperatures(&self, device: Handle) -> Result<Vec<i64>, String> {
        let mut all = Vec::new();
        let mut last = Ok(());
        for stack in MEMORY_STACKS {
            let mut degrees = 0;
            // SAFETY: the function is AMD's, the handle is the library's own, and it writes one such number.
            last = unsafe {
                let ask: Temperature = self.function("amdsmi_get_temp_metric")?;
                done(ask(device.0, stack, 0, &raw mut degrees))
            };
            // Some versions say 0 of a sensor that is not there.
            if last.is_ok() && degrees > 0 {
                all.push(degrees);
            }
        }
        if !all.is_empty() {
            return Ok(all);
        }
        last?;
        Err("AMD SMI: the device has no stacked memory that tells".to_owned())
    }

    pub(super) fn metrics(&self, device: Handle) -> Result<Metrics, String> {
        // Eight bytes each, because the table begins where such numbers may begin.
        let mut table = vec![0_u64; TABLE / 8];
        // SAFETY: the function is AMD's, the handle is the library's own, and there is more room than any version fills.
        unsafe {
            let ask: Fill = self.function("amdsmi_get_gpu_metrics_info")?;
            done(ask(device.0, table.as_mut_ptr().cast()))?;
        }
        let mut alike = [0; ALIKE];
        for (to, from) in alike.chunks_mut(8).zip(&table) {
            to.copy_from_slice(&from.to_ne_bytes()[..to.len()]);
        }
        Ok(Metrics(alike))
    }
}

/// Asks twice: how many there are, and which.
fn listed(ask: impl Fn(*mut u32, *mut Pointer) -> Status) -> Result<Vec<Pointer>, String> {
    let mut count = 0;
    done(ask(&raw mut count, ptr::null_mut()))?;
    let mut all = vec![ptr::null_mut(); count as usize];
    done(ask(&raw mut count, all.as_mut_ptr()))?;
    all.truncate(count as usize);
    all.retain(|handle| !handle.is_null());
    Ok(all)
}

fn done(status: Status) -> Result<(), String> {
    Err(match status {
        0 => return Ok(()),
        2 => "AMD SMI: Operation not supported".to_owned(),
        10 => "AMD SMI: Permission denied".to_owned(),
        31 => "AMD SMI: it is not there".to_owned(),
        34 => "AMD SMI: Driver not loaded".to_owned(),
        other => format!("AMD SMI: status {other}"),
    })
}
