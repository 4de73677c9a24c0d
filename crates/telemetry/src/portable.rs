//! A backend that uses the crate `sysinfo`, for systems without a backend of their own.
//!
//! It has fewer fields than the Linux backend and is slower. Each field that it lacks gets that as
//! its reason.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sysinfo::{
    CpuRefreshKind, DiskRefreshKind, Disks, MINIMUM_CPU_UPDATE_INTERVAL, Networks,
    ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind,
};

use super::capture::Options;
use super::gpu::{Answer, Gpus, Wanted};
use super::parts::{
    Cpu, Disk, DiskIo, DiskUsage, Energy, IoCounters, Memory, NetIo, Network, Process,
    ProcessMemory, Swap, Telemetry, VirtualMemory, percent,
};
use super::reasons::{Missing, NOT_TOLD, told};
use super::rolling::Rolling;
use super::snapshot::{self, Named, Tenths};
use super::source::Source;
use super::types::Types;
use super::{TelemetryType, command, system_calls};
use runlore_core::clock;
use runlore_core::fork::PerProcess;

/// The time after the first capture from which on percentages are available.
const WATCHING_TIME: Duration =
    MINIMUM_CPU_UPDATE_INTERVAL.saturating_add(Duration::from_millis(1));
const TOO_SOON: &str = "the portable source has not been watching long enough";

/// The state that each process keeps between captures. It is locked during a capture, because
/// `sysinfo` updates its data in place.
#[derive(Debug)]
pub(super) struct Host(PerProcess<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    process_samples: Rolling<u64>,
    system: Option<System>,
    networks: Option<Networks>,
    disks: Option<Disks>,
    /// When the CPU load was last read, and the interval it covers.
    load_read: Option<Instant>,
    load_interval: Option<Duration>,
    last: Option<(Instant, Types, Telemetry)>,
}

impl Host {
    pub(super) fn new() -> Self {
        Self(PerProcess::new())
    }

    fn capture(&self, types: Types, max_age: Duration) -> Telemetry {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, of, last)) = &state.last
            && *of == types
            && at.elapsed() < max_age
        {
            return last.clone();
        }
        let mut missing = Missing::default();
        let mut telemetry = Telemetry::default();
        let has = |one| types.contains(one);
        if has(TelemetryType::Cpu) || has(TelemetryType::PerCpu) {
            telemetry.cpu = Some(state.cpu(types, &mut missing));
        }
        if has(TelemetryType::Mem) {
            telemetry.memory = Some(state.memory(&mut missing));
        }
        if has(TelemetryType::Disk) {
            telemetry.disk = Some(state.disk(&mut missing));
        }
        if has(TelemetryType::Network) {
            telemetry.network = Some(state.network(&mut missing));
        }
        if has(TelemetryType::ProcessInfo) {
            telemetry.process = state.process(&mut missing);
        }
        telemetry.unavailable = missing.named();
        if !max_age.is_zero() {
            state.last = Some((Instant::now(), types, telemetry.clone()));
        }
        telemetry
    }
}

impl Source for Host {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn capture_into(&self, types: Types, options: Options, gpus: &Gpus, out: &mut Vec<u8>) {
        let max_age = Duration::from_nanos(options.max_age_ns);
        let wanted = Wanted::of(types);
        let ticket = gpus.ask(wanted, max_age);
        let mut telemetry = self.capture(types, max_age);
        if !wanted.is_nothing() {
            add_gpus(types, &mut telemetry, &gpus.take(&ticket));
        }
        snapshot::put(types, &telemetry, out);
    }

    fn take_base_line(&self, types: Types) {
        self.capture(types, Duration::ZERO);
    }

    fn watching_time(&self) -> Duration {
        WATCHING_TIME
    }

    fn source_of(&self, _: &str) -> (String, Option<Duration>) {
        ("sysinfo".to_owned(), None)
    }
}

/// Adds the values of the GPUs. Their energy counters are the only ones that this backend has.
fn add_gpus(types: Types, telemetry: &mut Telemetry, answer: &Answer) {
    let missing = &mut telemetry.unavailable;
    match answer {
        Ok(reading) => {
            telemetry.gpu = serde_json::from_slice(&reading.metrics).ok();
            let joules = reading.energy.iter();
            let joules = joules.map(|(meter, used)| (meter.as_str(), *used as f64 / 1e6));
            let joules: Named<f64> = joules.collect();
            telemetry.energy = (!joules.is_empty()).then_some(Energy { joules });
            for (field, reason) in &reading.missing {
                missing.push(field.clone(), reason.clone());
            }
        }
        Err(absent) if types.contains(TelemetryType::Gpu) => {
            missing.push("gpu", absent.reason().to_owned());
        }
        Err(_) => {}
    }
    if types.contains(TelemetryType::Energy) {
        let reason = "sysinfo, the portable source, knows no meters of the machine itself";
        missing.push("energy", reason.to_owned());
    }
}

impl State {
    fn system(&mut self) -> Option<&mut System> {
        if self.system.is_none() {
            self.system = System::new().ok();
        }
        self.system.as_mut()
    }

    fn cpu(&mut self, types: Types, missing: &mut Missing) -> Cpu {
        let is_due = self.load_read.is_none_or(|at| at.elapsed() >= MINIMUM_CPU_UPDATE_INTERVAL);
        if is_due {
            self.load_interval = self.load_read.map(|at| at.elapsed());
            self.load_read = Some(Instant::now());
        }
        let interval = self.load_interval;
        let Some(system) = self.system() else {
            missing.add("cpu", "sysinfo does not work on this system");
            return Cpu::default();
        };
        let kind = CpuRefreshKind::nothing().with_frequency();
        system.refresh_cpu_specifics(if is_due { kind.with_usage() } else { kind });
        let (wants_all, wants_each) =
            (types.contains(TelemetryType::Cpu), types.contains(TelemetryType::PerCpu));
        let mhz: Vec<_> = system.cpus().iter().map(sysinfo::Cpu::frequency).collect();
        let is_known = wants_all && mhz.iter().any(|mhz| *mhz > 0);
        let frequency = is_known.then(|| mhz.iter().sum::<u64>() as f64 / mhz.len() as f64);
        let rounded = |percent: f32| Tenths::whole(f64::from(percent)) as f64 / 10.0;
        let each = || system.cpus().iter().map(|cpu| Some(rounded(cpu.usage()))).collect();
        for (wanted, field) in [
            (wants_all, "cpu.times_avg"),
            (wants_all, "cpu.times_mean"),
            (wants_each, "cpu.times_per_cpu"),
            (wants_all && !is_known, "cpu.frequency"),
        ] {
            if wanted {
                missing.add(field, NOT_TOLD);
            }
        }
        if interval.is_none() {
            for (wanted, field) in [
                (wants_all, "cpu.percent_all"),
                (wants_each, "cpu.percent_per_cpu"),
                (true, "cpu.interval_s"),
            ] {
                if wanted {
                    missing.add(field, TOO_SOON);
                }
            }
        }
        Cpu {
            percent_all: interval.filter(|_| wants_all).map(|_| rounded(system.global_cpu_usage())),
            interval_s: interval.map(|interval| interval.as_micros() as f64 / 1e6),
            frequency,
            percent_per_cpu: interval.filter(|_| wants_each).map(|_| each()),
            ..Cpu::default()
        }
    }

    fn memory(&mut self, missing: &mut Missing) -> Memory {
        let Some(system) = self.system() else {
            missing.add("memory", "sysinfo does not work on this system");
            return Memory::default();
        };
        system.refresh_memory();
        let (total, available) = (system.total_memory(), system.available_memory());
        let used = total.saturating_sub(available);
        for field in [
            "memory.virtual.active",
            "memory.virtual.inactive",
            "memory.virtual.buffers",
            "memory.virtual.cached",
            "memory.virtual.shared",
            "memory.virtual.slab",
            "memory.swap.sin",
            "memory.swap.sout",
        ] {
            missing.add(field, NOT_TOLD);
        }
        let (swap, swap_used) = (system.total_swap(), system.used_swap());
        Memory {
            r#virtual: Some(VirtualMemory {
                total,
                available,
                percent: percent(used, total),
                used,
                free: system.free_memory(),
                ..VirtualMemory::default()
            }),
            swap: Some(Swap {
                total: swap,
                used: swap_used,
                free: system.free_swap(),
                percent: percent(swap_used, swap),
                ..Swap::default()
            }),
        }
    }

    fn disk(&mut self, missing: &mut Missing) -> Disk {
        if self.disks.is_none() {
            self.disks = Disks::new().ok();
        }
        let Some(disks) = &mut self.disks else {
            missing.add("disk", "sysinfo does not work on this system");
            return Disk::default();
        };
        disks.refresh_specifics(true, DiskRefreshKind::nothing().with_io_usage().with_storage());
        let mut each: Named<DiskIo> = Named::default();
        let mut sum = DiskIo::default();
        for disk in disks.iter() {
            // A disk may be mounted several times.
            let name = disk.name().to_string_lossy();
            let name = name.strip_prefix("/dev/").unwrap_or(&name);
            if each.get(name).is_none() {
                let usage = disk.usage();
                let (read_bytes, write_bytes) = (usage.total_read_bytes, usage.total_written_bytes);
                sum.read_bytes = sum.read_bytes.saturating_add(read_bytes);
                sum.write_bytes = sum.write_bytes.saturating_add(write_bytes);
                each.push(name, DiskIo { read_bytes, write_bytes, ..DiskIo::default() });
            }
        }
        for field in [
            "disk.io_sum.read_count",
            "disk.io_sum.write_count",
            "disk.io_sum.read_time",
            "disk.io_sum.write_time",
            "disk.io_sum.read_merged_count",
            "disk.io_sum.write_merged_count",
            "disk.io_sum.busy_time",
        ] {
            missing.add(field, NOT_TOLD);
        }
        Disk { disk_usage: usage(disks, missing), io_per_disk: Some(each), io_sum: Some(sum) }
    }

    fn network(&mut self, missing: &mut Missing) -> Network {
        if self.networks.is_none() {
            self.networks = Networks::new().ok();
        }
        let Some(networks) = &mut self.networks else {
            missing.add("network", "sysinfo does not work on this system");
            return Network::default();
        };
        networks.refresh(true);
        let mut each: Named<NetIo> = Named::default();
        let mut sum = NetIo::default();
        for (name, data) in networks.iter() {
            let io = NetIo {
                bytes_sent: data.total_transmitted(),
                bytes_recv: data.total_received(),
                packets_sent: data.total_packets_transmitted(),
                packets_recv: data.total_packets_received(),
                errin: data.total_errors_on_received(),
                errout: data.total_errors_on_transmitted(),
                ..NetIo::default()
            };
            sum.bytes_sent = sum.bytes_sent.saturating_add(io.bytes_sent);
            sum.bytes_recv = sum.bytes_recv.saturating_add(io.bytes_recv);
            sum.packets_sent = sum.packets_sent.saturating_add(io.packets_sent);
            sum.packets_recv = sum.packets_recv.saturating_add(io.packets_recv);
            sum.errin = sum.errin.saturating_add(io.errin);
            sum.errout = sum.errout.saturating_add(io.errout);
            if io.packets_sent > 0 || io.packets_recv > 0 {
                each.push(name.to_string_lossy(), io);
            }
        }
        missing.add("network.netio_sum.dropin", NOT_TOLD);
        missing.add("network.netio_sum.dropout", NOT_TOLD);
        Network { netio_per_interface: Some(each), netio_sum: Some(sum) }
    }

    fn process(&mut self, missing: &mut Missing) -> Option<Process> {
        let kind = ProcessRefreshKind::nothing()
            .with_memory()
            .with_cpu()
            .with_disk_usage()
            .with_exe(UpdateKind::OnlyIfNotSet)
            .with_cmd(UpdateKind::OnlyIfNotSet);
        let pid = sysinfo::get_current_pid().ok();
        self.system();
        let Self { system, process_samples: samples, .. } = self;
        let found = system.as_mut().zip(pid).and_then(|(system, pid)| {
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
            if system.total_memory() == 0 {
                system.refresh_memory();
            }
            system.process(pid).map(|process| (process, system.total_memory()))
        });
        let Some((process, total)) = found else {
            missing.add("process", "sysinfo does not find this process");
            return None;
        };
        let used_ms = process.accumulated_cpu_time();
        let now = clock::monotonic_ns();
        let cpu_percent = samples.base(|| now).map(|base| {
            let ns = used_ms.saturating_sub(base.value) as f64 * 1e6;
            Tenths::whole(ns / (now - base.at_ns) as f64 * 100.0) as f64 / 10.0
        });
        samples.offer(now, || used_ms);
        if cpu_percent.is_none() {
            missing.add("process.cpu_percent", TOO_SOON);
        }
        let descriptors = process.open_files().map(|count| count as u64);
        if descriptors.is_none() {
            missing.add("process.num_open_file_descriptors", NOT_TOLD);
        }
        for field in [
            "process.cpu_number",
            "process.memory.shared",
            "process.memory.text",
            "process.memory.lib",
            "process.memory.data",
            "process.memory.dirty",
            "process.cpu_times",
            "process.io_counters.read_count",
            "process.io_counters.write_count",
            "process.io_counters.read_chars",
            "process.io_counters.write_chars",
            "process.num_open_files",
            "process.num_connections",
            "process.num_threads",
            "process.num_ctx_switches",
        ] {
            missing.add(field, NOT_TOLD);
        }
        let transfers = process.disk_usage();
        let rss = process.memory();
        let executable = process.exe().map(|path| path.to_string_lossy().into_owned());
        if executable.is_none() {
            missing.add("process.executable", NOT_TOLD);
        }
        let cmd = process.cmd().iter().map(|argument| argument.as_encoded_bytes());
        Some(Process {
            pid: u64::from(std::process::id()),
            memory: Some(ProcessMemory {
                rss,
                vms: process.virtual_memory(),
                ..ProcessMemory::default()
            }),
            memory_percent: (total > 0).then(|| rss as f64 / total as f64 * 100.0),
            cpu_percent,
            io_counters: Some(IoCounters {
                read_bytes: Some(transfers.total_read_bytes),
                write_bytes: Some(transfers.total_written_bytes),
                ..IoCounters::default()
            }),
            num_open_file_descriptors: descriptors,
            executable,
            cmd_line: Some(command::arguments(cmd)),
            ..Process::default()
        })
    }
}

/// Returns the space of the root file system, or that of the first disk if there is no root.
fn usage(disks: &Disks, missing: &mut Missing) -> Option<DiskUsage> {
    let root = Path::new("/");
    let error = match system_calls::disk_usage(root) {
        Ok(usage) => return Some(usage),
        Err(error) => error,
    };
    let Some(disk) = disks.first() else {
        missing.add("disk.disk_usage", told("/", &error));
        return None;
    };
    let (total, free) = (disk.total_space(), disk.available_space());
    let used = total.saturating_sub(free);
    Some(DiskUsage { total, used, free, percent: percent(used, total) })
}

#[cfg(all(test, unix))]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_waits_for_no_capture_of_its_parent() {
        let (host, types) = (Host::new(), Types::from([TelemetryType::Mem]));
        let _capture = host.0.lock().unwrap();
        // SAFETY: the child captures and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls. The alarm ends a child that hangs.
            unsafe { libc::alarm(60) };
            let captured = host.capture(types, Duration::ZERO).memory.is_some();
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(captured)) };
        }
        let mut status = 0;
        // SAFETY: `status` is valid for the write, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "it waits for a lock");
        assert_eq!(libc::WEXITSTATUS(status), 1);
    }
}
