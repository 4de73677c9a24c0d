//! The parts of a capture and their fields.
//!
//! Names and units are those of Flowcept's records, and most of those are psutil's. A value that
//! may be missing is an `Option`. If it is missing, [`Telemetry::unavailable`] has the reason.

use serde_json::Value;

use super::container::Container;
use super::snapshot::{
    ByName, Code, Float, Hundredths, Integer, Json, List, Maybe, Millionths, Named, Reasons,
    Tenths, Text, part,
};

part! {
    /// What the machine and the process were doing at one moment.
    ///
    /// The fields are encoded in this order. The process comes after the parts whose files captures
    /// keep open: these files must be open by then, so that the process's descriptor count can
    /// exclude them.
    pub struct Telemetry {
        /// CPUs: filled by the types `cpu` and `per_cpu`.
        pub cpu: Option<Cpu> as Maybe<Cpu>,
        /// Memory of the machine: filled by the type `mem`.
        pub memory: Option<Memory> as Maybe<Memory>,
        /// Disks: filled by the type `disk`.
        pub disk: Option<Disk> as Maybe<Disk>,
        /// Network: filled by the type `network`.
        pub network: Option<Network> as Maybe<Network>,
        /// The container of this process, if it is in one: filled by the types `cpu`, `mem` and
        /// `process_info`.
        pub container: Option<Container> as Maybe<Container>,
        /// This process: filled by the type `process_info`.
        pub process: Option<Process> as Maybe<Process>,
        /// Metrics of each GPU, by device name (`gpu_0`): filled by the type `gpu`. The vendor and
        /// the settings determine which metrics there are; see the guide `docs/gpu.md`.
        pub gpu: Option<Named<Value>> as Maybe<Json<Named<Value>>>,
        /// Energy: filled by the type `energy`.
        pub energy: Option<Energy> as Maybe<Energy>,
        /// The reason for each missing field (`process.io_counters`) or part (`disk`) that was to
        /// be captured.
        pub unavailable: Named<String> as Reasons,
    }
}

impl Telemetry {
    /// Removes the part with the most encoded bytes and returns its name. The process and the
    /// energy go last, because the `resources` of a task are computed from them.
    pub(super) fn take_largest(&mut self) -> Option<&'static str> {
        fn length<C: Code>(part: &C::Value) -> usize {
            let mut bytes = Vec::new();
            C::put(part, &mut bytes);
            bytes.len()
        }
        let lengths = [
            ("cpu", false, length::<Maybe<Cpu>>(&self.cpu)),
            ("memory", false, length::<Maybe<Memory>>(&self.memory)),
            ("disk", false, length::<Maybe<Disk>>(&self.disk)),
            ("network", false, length::<Maybe<Network>>(&self.network)),
            ("container", false, length::<Maybe<Container>>(&self.container)),
            ("gpu", false, length::<Maybe<Json<Named<Value>>>>(&self.gpu)),
            ("process", true, length::<Maybe<Process>>(&self.process)),
            ("energy", true, length::<Maybe<Energy>>(&self.energy)),
        ];
        // A missing part is encoded as one byte.
        let present = lengths.into_iter().filter(|(.., length)| *length > 1);
        let (name, ..) = present.max_by_key(|(_, is_last, length)| (!is_last, *length))?;
        match name {
            "cpu" => self.cpu = None,
            "memory" => self.memory = None,
            "disk" => self.disk = None,
            "network" => self.network = None,
            "container" => self.container = None,
            "gpu" => self.gpu = None,
            "process" => self.process = None,
            _ => self.energy = None,
        }
        Some(name)
    }
}

part! {
    /// Energy that the machine and its devices have used.
    pub struct Energy {
        /// The reading of each meter, in joules. Meters start at arbitrary values, so only
        /// differences are meaningful. The prefix of a meter's name is the interface it is read
        /// through: `rapl:package-0`, `rapl:dram-0`, `nvml:gpu_0`, `amdsmi:gpu_0`, `battery:BAT0`.
        pub joules: Named<f64> as ByName<Millionths>,
    }
}

part! {
    /// Time and load of the CPUs.
    pub struct Cpu {
        /// Seconds since boot, summed over all CPUs. The name is Flowcept's; the mean is
        /// `times_mean`.
        pub times_avg: Option<CpuTimes> as Maybe<CpuTimes>,
        /// Seconds since boot, mean of all CPUs.
        pub times_mean: Option<CpuTimes> as Maybe<CpuTimes>,
        /// How busy all CPUs together were during the last `interval_s`, in percent.
        pub percent_all: Option<f64> as Maybe<Tenths>,
        /// The length of the interval that the percentages cover, in seconds: the time since an
        /// earlier capture of this process.
        pub interval_s: Option<f64> as Maybe<Millionths>,
        /// Mean clock frequency of all CPUs, in MHz.
        pub frequency: Option<f64> as Maybe<Float>,
        /// Seconds since boot, for each CPU.
        pub times_per_cpu: Option<Vec<CpuTimes>> as Maybe<List<CpuTimes>>,
        /// How busy each CPU was during the last `interval_s`, in percent. `None` for a CPU that
        /// came online since.
        pub percent_per_cpu: Option<Vec<Option<f64>>> as Maybe<List<Maybe<Tenths>>>,
    }
}

part! {
    /// What the CPUs spent their time on, in seconds.
    pub struct CpuTimes {
        /// User programs.
        pub user: f64 as Hundredths,
        /// User programs of low priority.
        pub nice: f64 as Hundredths,
        /// The kernel.
        pub system: f64 as Hundredths,
        /// Idle.
        pub idle: f64 as Hundredths,
        /// Idle while a disk request was pending.
        pub iowait: f64 as Hundredths,
        /// Hardware interrupts.
        pub irq: f64 as Hundredths,
        /// Soft interrupts, the deferred part of interrupt handling.
        pub softirq: f64 as Hundredths,
        /// Time that the hypervisor gave to other virtual machines.
        pub steal: f64 as Hundredths,
        /// Running guests. `user` includes this time.
        pub guest: f64 as Hundredths,
        /// Running guests of low priority. `nice` includes this time.
        pub guest_nice: f64 as Hundredths,
    }
}

part! {
    /// This process.
    pub struct Process {
        /// Process ID.
        pub pid: u64 as Integer,
        /// The CPU that the capturing thread ran on.
        pub cpu_number: Option<u64> as Maybe<Integer>,
        /// Its memory.
        pub memory: Option<ProcessMemory> as Maybe<ProcessMemory>,
        /// Resident memory, in percent of the machine's memory.
        pub memory_percent: Option<f64> as Maybe<Float>,
        /// CPU time of the process.
        pub cpu_times: Option<ProcessTimes> as Maybe<ProcessTimes>,
        /// CPU usage since an earlier capture of this process, in percent of one CPU.
        pub cpu_percent: Option<f64> as Maybe<Tenths>,
        /// Reads and writes of the process.
        pub io_counters: Option<IoCounters> as Maybe<IoCounters>,
        /// Open file descriptors, without those that captures keep open.
        pub num_open_file_descriptors: Option<u64> as Maybe<Integer>,
        /// Open regular files.
        pub num_open_files: Option<u64> as Maybe<Integer>,
        /// TCP and UDP sockets that have an address.
        pub num_connections: Option<u64> as Maybe<Integer>,
        /// Threads.
        pub num_threads: Option<u64> as Maybe<Integer>,
        /// Context switches of its threads.
        pub num_ctx_switches: Option<Switches> as Maybe<Switches>,
        /// Path of the executable.
        pub executable: Option<String> as Maybe<Text>,
        /// The command line, with secrets redacted.
        pub cmd_line: Option<Vec<String>> as Maybe<List<Text>>,
    }
}

part! {
    /// Memory of a process, in bytes.
    pub struct ProcessMemory {
        /// Resident.
        pub rss: u64 as Integer,
        /// Virtual.
        pub vms: u64 as Integer,
        /// Resident pages that are backed by a file or shared memory.
        pub shared: Option<u64> as Maybe<Integer>,
        /// Code.
        pub text: Option<u64> as Maybe<Integer>,
        /// Libraries; always 0 on Linux.
        pub lib: Option<u64> as Maybe<Integer>,
        /// Data and stack.
        pub data: Option<u64> as Maybe<Integer>,
        /// Dirty pages; always 0 on Linux.
        pub dirty: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// CPU time of a process, in seconds.
    pub struct ProcessTimes {
        /// In user mode.
        pub user: f64 as Millionths,
        /// In the kernel.
        pub system: f64 as Millionths,
        /// In user mode, by child processes that have ended.
        pub children_user: Option<f64> as Maybe<Millionths>,
        /// In the kernel, by child processes that have ended.
        pub children_system: Option<f64> as Maybe<Millionths>,
        /// Waiting for disks.
        pub iowait: Option<f64> as Maybe<Hundredths>,
    }
}

part! {
    /// Reads and writes of a process.
    pub struct IoCounters {
        /// Read system calls.
        pub read_count: Option<u64> as Maybe<Integer>,
        /// Write system calls.
        pub write_count: Option<u64> as Maybe<Integer>,
        /// Bytes read from disks.
        pub read_bytes: Option<u64> as Maybe<Integer>,
        /// Bytes written to disks.
        pub write_bytes: Option<u64> as Maybe<Integer>,
        /// Bytes read from any source: files, pipes, sockets, the page cache.
        pub read_chars: Option<u64> as Maybe<Integer>,
        /// Bytes written to any destination.
        pub write_chars: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Context switches of the threads of a process.
    pub struct Switches {
        /// Switches because a thread had to wait.
        pub voluntary: u64 as Integer,
        /// Switches because the scheduler ran another thread.
        pub involuntary: u64 as Integer,
    }
}

part! {
    /// Memory of the machine.
    pub struct Memory {
        /// Main memory.
        pub r#virtual: Option<VirtualMemory> as Maybe<VirtualMemory>,
        /// Swap.
        pub swap: Option<Swap> as Maybe<Swap>,
    }
}

part! {
    /// Main memory, in bytes.
    pub struct VirtualMemory {
        /// Total memory.
        pub total: u64 as Integer,
        /// Memory that programs could allocate without swapping.
        pub available: u64 as Integer,
        /// `used` in percent of `total`.
        pub percent: f64 as Tenths,
        /// `total` minus `available`.
        pub used: u64 as Integer,
        /// Memory that is not used for anything.
        pub free: u64 as Integer,
        /// Recently used.
        pub active: Option<u64> as Maybe<Integer>,
        /// Not recently used.
        pub inactive: Option<u64> as Maybe<Integer>,
        /// Buffers of block devices.
        pub buffers: Option<u64> as Maybe<Integer>,
        /// The page cache and reclaimable memory of the kernel.
        pub cached: Option<u64> as Maybe<Integer>,
        /// Shared memory.
        pub shared: Option<u64> as Maybe<Integer>,
        /// Data structures of the kernel.
        pub slab: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Swap, in bytes.
    pub struct Swap {
        /// Total swap space.
        pub total: u64 as Integer,
        /// In use.
        pub used: u64 as Integer,
        /// Not in use.
        pub free: u64 as Integer,
        /// `used` in percent of `total`.
        pub percent: f64 as Tenths,
        /// Bytes swapped in since boot.
        pub sin: Option<u64> as Maybe<Integer>,
        /// Bytes swapped out since boot.
        pub sout: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Disks.
    pub struct Disk {
        /// Space of the file system at `/`.
        pub disk_usage: Option<DiskUsage> as Maybe<DiskUsage>,
        /// Transfers of each disk and partition. `loop` and `ram` devices are listed only if they
        /// had any.
        pub io_per_disk: Option<Named<DiskIo>> as Maybe<ByName<DiskIo>>,
        /// Transfers of all disks. Partitions are not counted twice.
        pub io_sum: Option<DiskIo> as Maybe<DiskIo>,
    }
}

part! {
    /// Space of a file system, in bytes.
    pub struct DiskUsage {
        /// Size of the file system.
        pub total: u64 as Integer,
        /// In use.
        pub used: u64 as Integer,
        /// Space that unprivileged users can still use.
        pub free: u64 as Integer,
        /// `used` in percent of `used` plus `free`.
        pub percent: f64 as Tenths,
    }
}

part! {
    /// Transfers of a disk since boot.
    pub struct DiskIo {
        /// Reads.
        pub read_count: Option<u64> as Maybe<Integer>,
        /// Writes.
        pub write_count: Option<u64> as Maybe<Integer>,
        /// Bytes read.
        pub read_bytes: u64 as Integer,
        /// Bytes written.
        pub write_bytes: u64 as Integer,
        /// Milliseconds spent reading.
        pub read_time: Option<u64> as Maybe<Integer>,
        /// Milliseconds spent writing.
        pub write_time: Option<u64> as Maybe<Integer>,
        /// Reads that were merged with another.
        pub read_merged_count: Option<u64> as Maybe<Integer>,
        /// Writes that were merged with another.
        pub write_merged_count: Option<u64> as Maybe<Integer>,
        /// Milliseconds during which the disk was busy.
        pub busy_time: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Network.
    pub struct Network {
        /// Transfers of each interface that had any.
        pub netio_per_interface: Option<Named<NetIo>> as Maybe<ByName<NetIo>>,
        /// Transfers of all interfaces.
        pub netio_sum: Option<NetIo> as Maybe<NetIo>,
    }
}

part! {
    /// Transfers of a network interface since it came up.
    pub struct NetIo {
        /// Bytes sent.
        pub bytes_sent: u64 as Integer,
        /// Bytes received.
        pub bytes_recv: u64 as Integer,
        /// Packets sent.
        pub packets_sent: u64 as Integer,
        /// Packets received.
        pub packets_recv: u64 as Integer,
        /// Errors while receiving.
        pub errin: u64 as Integer,
        /// Errors while sending.
        pub errout: u64 as Integer,
        /// Received packets that were dropped.
        pub dropin: Option<u64> as Maybe<Integer>,
        /// Outgoing packets that were dropped.
        pub dropout: Option<u64> as Maybe<Integer>,
    }
}

impl Telemetry {
    /// Returns why a field is missing: its own reason or that of the part around it.
    ///
    /// `None` if there is no reason, for example because the field is present.
    ///
    /// ```
    /// let telemetry = runlore::telemetry::Telemetry::default();
    /// assert_eq!(telemetry.reason("disk.io_sum"), None);
    /// ```
    pub fn reason(&self, field: &str) -> Option<&str> {
        let mut field = field;
        loop {
            if let Some(reason) = self.unavailable.get(field) {
                return Some(reason);
            }
            field = field.rsplit_once('.')?.0;
        }
    }
}

/// Returns `part` in percent of `whole`, rounded to a tenth as in the stored form; 0 if `whole` is
/// 0.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    Tenths::whole(part as f64 / whole as f64 * 100.0) as f64 / 10.0
}
