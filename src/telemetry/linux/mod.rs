//! Telemetry from the kernel's files, each from its cheapest right source.
//!
//! A [`Host`] holds the files of one process open. It belongs to the process that made it: after a fork there is a new one.

mod cpu;
mod descriptors;
mod disk;
mod frequency;
mod held;
mod memory;
mod network;
mod own;
mod process;
mod scan;
mod shared;
mod sources;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(super) use held::{Held, Shape};
pub(super) use scan::Scan;
pub(super) use shared::{forget_after_fork, of_process};

use self::cpu::CpuLine;
use super::TelemetryType;
use super::capture::Options;
use super::container::{ContainerNumbers, ContainerReader, Limits};
use super::reasons::Missing;
use super::rolling::Rolling;
use super::snapshot::{self, Description};
use super::types::Types;
use crate::clock;

/// Why a first capture has no percentages.
const TOO_SOON: &str =
    "less than 10 ms have passed since the first capture, and there is no earlier one";

/// What is kept open and remembered between captures.
#[derive(Debug)]
pub(super) struct Host {
    root: PathBuf,
    /// Whether that is the machine's own, and not a tree of files.
    is_live: bool,
    /// The process it belongs to.
    pid: u32,
    stat: Held,
    meminfo: Held,
    vmstat: Held,
    diskstats: Held,
    net_dev: Held,
    statm: Held,
    io: Held,
    self_stat: Held,
    tasks: Held,
    descriptors: Held,
    frequency: OnceLock<frequency::Frequency>,
    swapped: memory::Swapped,
    devices: disk::Devices,
    own: OnceLock<own::Own>,
    cpu_samples: Rolling<cpu::CpuSample>,
    process_samples: Rolling<u64>,
    listing: Mutex<()>,
    described: Mutex<Arc<Described>>,
    /// The descriptors of the program, as last seen.
    seen: Mutex<Vec<i32>>,
    /// The last capture, for those who may share it.
    last: Mutex<Last>,
}

/// What a container is and may use; looked at again each second.
#[derive(Debug, Default)]
struct Described {
    at_ns: u64,
    limits: Limits,
    text: Description,
}

/// A capture that others may share.
#[derive(Debug, Default)]
struct Last {
    at_ns: u64,
    types: Types,
    bytes: Vec<u8>,
}

/// What a thread uses again from capture to capture.
#[derive(Debug)]
struct Scratch {
    buffer: Vec<u8>,
    cpus: Vec<CpuLine>,
    missing: Missing,
}

impl Scratch {
    fn new() -> Self {
        Self { buffer: vec![0; 8192], cpus: Vec::new(), missing: Missing::default() }
    }

    /// The thread's own, or a new one where the thread has given it up already or is using it.
    fn with<T>(mut work: impl FnMut(&mut Self) -> T) -> T {
        thread_local!(static SCRATCH: RefCell<Option<Box<Scratch>>> = const { RefCell::new(None) });
        let with_own = SCRATCH.try_with(|own| {
            let mut own = own.try_borrow_mut().ok()?;
            Some(work(own.get_or_insert_with(|| Box::new(Self::new()))))
        });
        match with_own {
            Ok(Some(result)) => result,
            _ => work(&mut Self::new()),
        }
    }
}

impl Host {
    /// Reads below this folder instead of `/`.
    pub(super) fn new(root: &Path) -> Self {
        let file = |path: &str| Held::file(root.join(path));
        let folder = |path: &str| Held::folder(root.join(path));
        Self {
            root: root.to_owned(),
            is_live: root == Path::new("/"),
            pid: std::process::id(),
            stat: file("proc/stat"),
            meminfo: file("proc/meminfo"),
            vmstat: file("proc/vmstat"),
            diskstats: file("proc/diskstats"),
            net_dev: file("proc/net/dev"),
            statm: file("proc/self/statm"),
            io: file("proc/self/io"),
            self_stat: file("proc/self/stat"),
            tasks: folder("proc/self/task"),
            descriptors: folder("proc/self/fd"),
            frequency: OnceLock::new(),
            swapped: memory::Swapped::default(),
            devices: disk::Devices::default(),
            own: OnceLock::new(),
            cpu_samples: Rolling::default(),
            process_samples: Rolling::default(),
            listing: Mutex::new(()),
            described: Mutex::default(),
            seen: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Takes what percentages will be measured against.
    pub(super) fn take_base_line(&self, types: Types) {
        Scratch::with(|scratch| {
            if wants_cpu(types) {
                _ = cpu::sample(self, scratch);
            }
            if types.contains(TelemetryType::ProcessInfo) {
                process::sample(self);
            }
        });
    }

    /// Appends a snapshot. One of another thread that is not too old will do.
    pub(super) fn capture_into(&self, types: Types, options: Options, out: &mut Vec<u8>) {
        let Options { max_age_ns, .. } = options;
        if max_age_ns == 0 {
            return self.capture(types, options, out);
        }
        let now = clock::monotonic_ns();
        if let Ok(last) = self.last.try_lock()
            && last.types == types
            && !last.bytes.is_empty()
            && now.saturating_sub(last.at_ns) <= max_age_ns
        {
            out.extend_from_slice(&last.bytes);
            return;
        }
        let start = out.len();
        self.capture(types, options, out);
        if let Ok(mut last) = self.last.try_lock() {
            last.at_ns = now;
            last.types = types;
            last.bytes.clear();
            last.bytes.extend_from_slice(&out[start..]);
        }
    }

    fn capture(&self, types: Types, options: Options, out: &mut Vec<u8>) {
        let start = out.len();
        Scratch::with(|scratch| {
            out.truncate(start);
            scratch.missing.clear();
            snapshot::begin(types, out);
            // In the order of `Telemetry`.
            part(wants_cpu(types), out, |out| cpu::capture(self, types, scratch, out));
            part(types.contains(TelemetryType::Mem), out, |out| {
                memory::capture(self, scratch, out);
            });
            part(types.contains(TelemetryType::Disk), out, |out| {
                disk::capture(self, options.idle_devices, scratch, out);
            });
            part(types.contains(TelemetryType::Network), out, |out| {
                network::capture(self, scratch, out);
            });
            let container = self.container().filter(|_| wants_container(types));
            maybe(container, out, |container, out| {
                self.put_container(container, &mut scratch.buffer, out);
            });
            part(types.contains(TelemetryType::ProcessInfo), out, |out| {
                process::capture(self, types, scratch, out);
            });
            // Graphics processors.
            out.push(0);
            scratch.missing.put(out);
        });
    }

    /// Every file that is held open, with the type that reads it at each capture.
    fn held(&self) -> impl Iterator<Item = (TelemetryType, &Held)> {
        let own = [
            (TelemetryType::Cpu, &self.stat),
            (TelemetryType::Mem, &self.meminfo),
            (TelemetryType::Mem, &self.vmstat),
            (TelemetryType::Disk, &self.diskstats),
            (TelemetryType::Network, &self.net_dev),
            (TelemetryType::ProcessInfo, &self.statm),
            (TelemetryType::ProcessInfo, &self.io),
            (TelemetryType::ProcessInfo, &self.self_stat),
            (TelemetryType::ProcessInfo, &self.tasks),
            (TelemetryType::ProcessInfo, &self.descriptors),
        ];
        let frequency = self.frequency.get().into_iter().flat_map(frequency::Frequency::held);
        own.into_iter().chain(frequency.map(|held| (TelemetryType::Cpu, held)))
    }

    /// The container of this process, which a tree of files is not.
    fn container(&self) -> Option<&'static ContainerReader> {
        if self.is_live { shared::container() } else { None }
    }

    fn put_container(&self, container: &ContainerReader, buffer: &mut Vec<u8>, out: &mut Vec<u8>) {
        const MOST_NS: u64 = 1_000_000_000;
        let now = clock::monotonic_ns();
        let lock = || self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = Arc::clone(&lock());
        if known.text.is_empty() || now.saturating_sub(known.at_ns) >= MOST_NS {
            let limits = container.limits(buffer);
            let text = Description::of(&container.describe(ContainerNumbers::default(), buffer));
            known = Arc::new(Described { at_ns: now, limits, text });
            *lock() = Arc::clone(&known);
        }
        let numbers = container.numbers_within(&known.limits, buffer);
        snapshot::put_container(&numbers, &known.text, out);
    }

    /// In a forked child: closes what the parent opened. It waits for no lock.
    fn close_all(&self) {
        for (_, held) in self.held() {
            held.close_alone();
        }
    }

    fn lock_listing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine's memory in bytes, as last read.
    fn memory_total(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        match self.swapped.memory_total() {
            0 => {
                let read = self.meminfo.read(Shape::Whole, buffer, memory::parse).ok()?;
                // Only whoever captures memory needs it again.
                self.meminfo.release();
                self.swapped.set_memory_total(read.total());
                Some(read.total())
            }
            known => Some(known),
        }
    }
}

fn wants_container(types: Types) -> bool {
    [TelemetryType::Cpu, TelemetryType::Mem, TelemetryType::ProcessInfo]
        .into_iter()
        .any(|one| types.contains(one))
}

fn wants_cpu(types: Types) -> bool {
    types.contains(TelemetryType::Cpu) || types.contains(TelemetryType::PerCpu)
}

fn part(wanted: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(u8::from(wanted));
    if wanted {
        write(out);
    }
}

/// A value that is there, or not.
#[inline]
fn maybe<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(value, out);
    }
}

#[cfg(test)]
mod tests;
