//! Bindings for what the crate `amdsmi` does not read. Opening the library again gives the same
//! instance, with the same state.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr;

/// A plain number instead of an enum, because the library may return unknown values.
type Status = u32;
/// The library's handle of a device or a socket.
type Pointer = *mut c_void;

type Handles = unsafe extern "C" fn(*mut u32, *mut Pointer) -> Status;
type HandlesOf = unsafe extern "C" fn(Pointer, *mut u32, *mut Pointer) -> Status;
type Uuid = unsafe extern "C" fn(Pointer, *mut u32, *mut c_char) -> Status;
type Address = unsafe extern "C" fn(Pointer, *mut u64) -> Status;
type Memory = unsafe extern "C" fn(Pointer, u32, *mut u64) -> Status;
type Temperature = unsafe extern "C" fn(Pointer, u32, u32, *mut i64) -> Status;
type Fill = unsafe extern "C" fn(Pointer, *mut u8) -> Status;
type Version = unsafe extern "C" fn(*mut u32) -> Status;

/// Numbers of the temperature sensors of stacked memory (HBM).
const MEMORY_STACKS: std::ops::RangeInclusive<u32> = 3..=6;
/// Size of the buffer for the table of metrics. It is larger than the table of any version: that
/// has 1832 bytes in one and 4736 in another.
const TABLE: usize = 64 << 10;
/// Length of the beginning of the table that is the same in all versions.
const ALIKE: usize = 78;

#[derive(Debug)]
pub(super) struct Library(libloading::Library);

/// The library's handle of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle(Pointer);

/// The beginning of a device's table of metrics.
#[derive(Debug)]
pub(super) struct Metrics([u8; ALIKE]);

impl Metrics {
    /// Returns the number at this offset.
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

    /// Returns an error if the library lacks this function.
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

    /// Returns the three numbers of the library's version. The first one was once called the year.
    /// This works before the library is initialised.
    pub(super) fn version(&self) -> Result<[u32; 3], String> {
        let mut version = [0_u32; 64];
        // SAFETY: every version of the library has had this function, and writes no more than 24 bytes.
        unsafe {
            let ask: Version = self.function("amdsmi_get_lib_version")?;
            done(ask(version.as_mut_ptr()))?;
        }
        Ok([version[0], version[1], version[2]])
    }

    /// Returns all devices. The library must be initialised.
    pub(super) fn handles(&self) -> Result<Vec<Handle>, String> {
        let mut all = Vec::new();
        // SAFETY: the functions are AMD's. Without a buffer they return the count; then they fill
        // at most as many.
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
        // SAFETY: the function is AMD's, the handle is the library's own, and there is more room
        // than it is told.
        unsafe {
            let ask: Uuid = self.function("amdsmi_get_gpu_device_uuid")?;
            done(ask(device.0, &raw mut length, text.as_mut_ptr()))?;
            Ok(CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// Returns the PCI address: domain, bus, device and function in one number.
    pub(super) fn address(&self, device: Handle) -> Result<u64, String> {
        let mut address = 0;
        // SAFETY: the function is AMD's, the handle is the library's own, and it writes one such
        // number.
        unsafe {
            let ask: Address = self.function("amdsmi_get_gpu_device_bdf")?;
            done(ask(device.0, &raw mut address))?;
        }
        Ok(address)
    }

    /// Returns the size of the device's own memory, in bytes.
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

    /// Returns the temperatures of the device's memory stacks, in °C.
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
            // Some versions report 0 for a missing sensor.
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
        // `u64`s, because the table needs the alignment of its 8-byte numbers.
        let mut table = vec![0_u64; TABLE / 8];
        // SAFETY: the function is AMD's, the handle is the library's own, and there is more room
        // than any version fills.
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

/// Calls `ask` twice: for the count, and for the handles.
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
