//! The Linux backend. It reads each value from the cheapest source that is correct.
//!
//! A [`Host`] keeps the kernel's files open. It belongs to the process that created it; after a
//! fork the child creates a new one.

mod cpu;
mod descriptors;
mod disk;
mod energy;
mod frequency;
mod kernel;
mod memory;
mod network;
mod now;
mod parse_cache;
mod proc_file;
mod process;
mod process_facts;
mod shared;
mod sources;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub(super) use kernel::Kernel;
pub(super) use proc_file::ProcFile;
pub(super) use shared::of_this_process;

use self::cpu::CpuLines;
use self::descriptors::Numbers;
use self::parse_cache::ParseCache;
use super::TelemetryType;
use super::capture::Options;
use super::container::{ContainerNumbers, ContainerReader, Limits};
use super::gpu::{self, Answer, Gpus, Wanted};
use super::reasons::Missing;
use super::rolling::Rolling;
use super::snapshot::{self, Description, OpenList, put_bytes, put_integer};
use super::types::Types;
use runlore_core::clock;

/// Why the first captures have no percentages.
const TOO_SOON: &str =
    "less than 10 ms have passed since the first capture, and there is no earlier one";

/// The open files, and the state that is kept between captures.
#[derive(Debug)]
pub(super) struct Host {
    root: PathBuf,
    /// Whether `root` is the running machine, and not a test fixture.
    is_live: bool,
    /// The process that it belongs to.
    pid: u32,
    stat: ProcFile,
    meminfo: ProcFile,
    vmstat: ProcFile,
    pressure: ProcFile,
    diskstats: ProcFile,
    net_dev: ProcFile,
    statm: ProcFile,
    io: ProcFile,
    self_stat: ProcFile,
    tasks: ProcFile,
    descriptors: ProcFile,
    frequency: OnceLock<frequency::Frequency>,
    /// The machine's memory in bytes, as last read. 0 if it was not read yet.
    memory_total: AtomicU64,
    /// The numbers of pages swapped in and out, if they were read while there was no swap.
    swapped: Mutex<Option<(u64, u64)>>,
    devices: disk::Devices,
    /// Without idle devices, and with them.
    disks: [ParseCache; 2],
    interfaces: ParseCache,
    meters: OnceLock<energy::Meters>,
    facts: OnceLock<process_facts::ProcessFacts>,
    cpu_samples: Rolling<cpu::CpuSample>,
    process_samples: Rolling<u64>,
    described: Mutex<Arc<ContainerFacts>>,
    /// The program's file descriptors at the last count.
    seen: Mutex<Numbers>,
    /// The last capture, for tasks that may share it.
    last: Mutex<Last>,
}

/// Description and limits of the container, refreshed every second.
#[derive(Debug, Default)]
struct ContainerFacts {
    at_ns: u64,
    limits: Limits,
    text: Description,
}

/// A capture that tasks may share.
#[derive(Debug, Default)]
struct Last {
    at_ns: u64,
    types: Types,
    /// The number of the [`Gpus`] whose metrics are in it.
    gpus: u64,
    bytes: Vec<u8>,
}

/// Buffers that a thread reuses for all its captures.
#[derive(Debug)]
struct Scratch {
    buffer: Vec<u8>,
    cpus: CpuLines,
    own_numbers: Numbers,
    missing: Missing,
}

impl Scratch {
    fn new() -> Self {
        Self {
            buffer: vec![0; 8192],
            cpus: CpuLines::default(),
            own_numbers: Numbers::new(),
            missing: Missing::default(),
        }
    }

    /// Calls `work` with the buffers of this thread, or with new ones if the thread's are in use or
    /// already destroyed.
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
    /// Creates a host that reads below `root`, which is `/` for the running machine.
    pub(super) fn new(root: &Path) -> Self {
        let file = |path: &str| ProcFile::new(root.join(path));
        let lines = |path: &str| ProcFile::of_lines(root.join(path));
        Self {
            root: root.to_owned(),
            is_live: root == Path::new("/"),
            pid: std::process::id(),
            stat: file("proc/stat"),
            meminfo: file("proc/meminfo"),
            vmstat: file("proc/vmstat"),
            pressure: file("proc/pressure/memory"),
            diskstats: lines("proc/diskstats"),
            net_dev: lines("proc/net/dev"),
            statm: file("proc/self/statm"),
            io: file("proc/self/io"),
            self_stat: file("proc/self/stat"),
            tasks: file("proc/self/task"),
            descriptors: file("proc/self/fd"),
            frequency: OnceLock::new(),
            memory_total: AtomicU64::new(0),
            swapped: Mutex::default(),
            devices: disk::Devices::default(),
            disks: Default::default(),
            interfaces: ParseCache::default(),
            meters: OnceLock::new(),
            facts: OnceLock::new(),
            cpu_samples: Rolling::default(),
            process_samples: Rolling::default(),
            described: Mutex::default(),
            seen: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Takes the first sample for percentages.
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

    /// Appends a snapshot. Another thread's snapshot is reused if it is recent enough.
    pub(super) fn capture_into(
        &self,
        types: Types,
        options: Options,
        gpus: &Gpus,
        out: &mut Vec<u8>,
    ) {
        let Options { max_age_ns, .. } = options;
        if max_age_ns == 0 {
            self.capture(types, options, gpus, out);
            return;
        }
        let now = clock::monotonic_ns();
        if let Ok(last) = self.last.try_lock()
            && last.types == types
            && last.gpus == gpus.number()
            && !last.bytes.is_empty()
            && now.saturating_sub(last.at_ns) <= max_age_ns
        {
            out.extend_from_slice(&last.bytes);
            return;
        }
        let start = out.len();
        let is_whole = self.capture(types, options, gpus, out);
        // If a driver was late, its values may be available for the next capture.
        if is_whole && let Ok(mut last) = self.last.try_lock() {
            last.at_ns = now;
            last.types = types;
            last.gpus = gpus.number();
            last.bytes.clear();
            last.bytes.extend_from_slice(&out[start..]);
        }
    }

    /// Appends a new snapshot. Returns `false` if a GPU driver was late.
    fn capture(&self, types: Types, options: Options, gpus: &Gpus, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        // The drivers are slow, so they start first and everything else is read meanwhile.
        let ticket = gpus.ask(Wanted::of(types), Duration::from_nanos(options.max_age_ns));
        Scratch::with(|scratch| {
            out.truncate(start);
            scratch.missing.clear();
            let begun = snapshot::begin(types, out);
            // In the order of the fields of `Telemetry`.
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
            begun.process_follows(out);
            part(types.contains(TelemetryType::ProcessInfo), out, |out| {
                process::capture(self, scratch, out);
            });
            let answer = (!Wanted::of(types).is_nothing()).then(|| gpus.take(&ticket));
            put_gpus(types, answer.as_ref(), &mut scratch.missing, out);
            self.put_energy(types, answer.as_ref(), scratch, out);
            scratch.missing.put(out);
            !matches!(answer, Some(Err(gpu::Absent::Late(_))))
        })
    }

    /// Appends the readings of the machine's energy meters and of those of the GPUs.
    fn put_energy(
        &self,
        types: Types,
        answer: Option<&Answer>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        if !types.contains(TelemetryType::Energy) {
            return out.push(0);
        }
        let devices = match answer {
            Some(Ok(reading)) => reading.energy.as_slice(),
            // A machine without GPUs is fine. But if there are GPUs, their energy must not be
            // omitted silently.
            Some(Err(gpu::Absent::Late(reason))) => {
                scratch.missing.add("energy.gpu", reason.as_str());
                &[]
            }
            _ => &[],
        };
        let meters = self.meters();
        if let Some(reason) = meters.nothing() {
            scratch.missing.add("energy", reason);
            if devices.is_empty() {
                return out.push(0);
            }
        }
        out.push(1);
        let mut list = OpenList::begin(out);
        let Scratch { buffer, missing, .. } = scratch;
        let mut put = |meter: &str, microjoules: u64| {
            put_bytes(meter.as_bytes(), out);
            put_integer(microjoules, out);
            list.item();
        };
        meters.read(buffer, |meter, read| match read {
            Ok(microjoules) => put(meter, microjoules),
            Err(reason) => missing.add(format!("energy.{meter}"), reason),
        });
        for (meter, microjoules) in devices {
            put(meter, *microjoules);
        }
        list.end(out);
    }

    /// Returns every file that stays open.
    fn files(&self) -> impl Iterator<Item = &ProcFile> {
        let own = [
            &self.stat,
            &self.meminfo,
            &self.vmstat,
            &self.pressure,
            &self.diskstats,
            &self.net_dev,
            &self.statm,
            &self.io,
            &self.self_stat,
            &self.tasks,
            &self.descriptors,
        ];
        let frequency = self.frequency.get().into_iter().flat_map(frequency::Frequency::files);
        let meters = self.meters.get().into_iter().flat_map(energy::Meters::files);
        own.into_iter().chain(frequency).chain(meters)
    }

    /// Returns the container of this process. `None` for a test fixture.
    fn container(&self) -> Option<&'static ContainerReader> {
        if self.is_live { shared::container() } else { None }
    }

    fn put_container(&self, container: &ContainerReader, buffer: &mut Vec<u8>, out: &mut Vec<u8>) {
        let known = self.described(container, buffer);
        let numbers = container.numbers_within(&known.limits, buffer);
        snapshot::put_container(&numbers, &known.text, out);
    }

    /// Returns the description and the limits of the container, at most a second old.
    fn described(&self, container: &ContainerReader, buffer: &mut Vec<u8>) -> Arc<ContainerFacts> {
        const MOST_NS: u64 = 1_000_000_000;
        let now = clock::monotonic_ns();
        let lock = || self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = Arc::clone(&lock());
        if known.text.is_empty() || now.saturating_sub(known.at_ns) >= MOST_NS {
            let limits = container.limits(buffer);
            let text = Description::of(&container.describe(ContainerNumbers::default(), buffer));
            known = Arc::new(ContainerFacts { at_ns: now, limits, text });
            *lock() = Arc::clone(&known);
        }
        known
    }

    /// Closes the files that the parent opened, in a forked child. It waits for no lock.
    fn close_all(&self) {
        self.files().for_each(ProcFile::close_after_fork);
    }

    /// Returns the machine's memory in bytes, as last read.
    fn memory_total(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        match self.memory_total.load(Ordering::Relaxed) {
            0 => {
                let read = self.meminfo.read(buffer, memory::parse).ok()?;
                // Captures with the type `mem` open it again; no other capture needs it.
                self.meminfo.release();
                self.memory_total.store(read.total?, Ordering::Relaxed);
                read.total
            }
            known => Some(known),
        }
    }
}

/// Appends the metrics of the GPUs.
fn put_gpus(types: Types, answer: Option<&Answer>, missing: &mut Missing, out: &mut Vec<u8>) {
    let is_wanted = types.contains(TelemetryType::Gpu);
    let metrics = match answer {
        Some(Ok(reading)) => {
            for (field, reason) in &reading.missing {
                missing.add(field.clone(), reason.as_str());
            }
            Some(&reading.metrics)
        }
        Some(Err(absent)) if is_wanted => {
            missing.add("gpu", absent.reason());
            None
        }
        _ => None,
    };
    let metrics = metrics.filter(|metrics| is_wanted && !metrics.is_empty());
    maybe(metrics, out, |metrics, out| put_bytes(metrics, out));
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

/// Appends an optional value.
#[inline]
fn maybe<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(value, out);
    }
}

#[cfg(test)]
mod tests;
