//! What a capture holds, part by part.
//!
//! Names and units are those of Flowcept's records, which are mostly psutil's. Whatever may be missing is an `Option`: where
//! it is missing, [`Telemetry::unavailable`] says why.

use serde_json::Value;

use super::container::Container;
use super::snapshot::{
    ByName, Code, Float, Hundredths, Integer, Json, List, Maybe, Millionths, Named, Reasons,
    Tenths, Text, part,
};

part! {
    /// What the machine and the process were doing at one moment.
    ///
    /// The order of the fields is that of the bytes; the process comes last, because by then all files of ours that
    /// must not be counted among its own are known.
    pub struct Telemetry {
        /// Processors: with the types `cpu` and `per_cpu`.
        pub cpu: Option<Cpu> as Maybe<Cpu>,
        /// Memory of the machine: with the type `mem`.
        pub memory: Option<Memory> as Maybe<Memory>,
        /// Disks: with the type `disk`.
        pub disk: Option<Disk> as Maybe<Disk>,
        /// Network: with the type `network`.
        pub network: Option<Network> as Maybe<Network>,
        /// The container that the process is in, if it is in one: with the types `cpu`, `mem` and `process_info`.
        pub container: Option<Container> as Maybe<Container>,
        /// This process: with the type `process_info`.
        pub process: Option<Process> as Maybe<Process>,
        /// Graphics processors, by name (`gpu_0`): with the type `gpu`. Which metrics there are depends on the vendor and
        /// the settings; the guide is `docs/gpu.md`.
        pub gpu: Option<Named<Value>> as Maybe<Json<Named<Value>>>,
        /// Energy: with the type `energy`.
        pub energy: Option<Energy> as Maybe<Energy>,
        /// Why what was asked for is missing: a field (`process.io_counters`) or a part (`disk`), and the reason.
        pub unavailable: Named<String> as Reasons,
    }
}

impl Telemetry {
    /// Takes out the part that has the most bytes, and gives its name; those that `resources` are told from last.
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
        // A part that is missing has one byte.
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
        /// What each meter has counted, in joules; from where it began, so that only differences mean something. A meter's name
        /// says what it is read through: `rapl:package-0`, `rapl:dram-0`, `nvml:gpu_0`, `amdsmi:gpu_0`, `battery:BAT0`.
        pub joules: Named<f64> as ByName<Millionths>,
    }
}

part! {
    /// Time and load of the processors.
    pub struct Cpu {
        /// Seconds since the machine started, summed over all processors. The name is Flowcept's; the mean is
        /// `times_mean`.
        pub times_avg: Option<CpuTimes> as Maybe<CpuTimes>,
        /// Seconds since the machine started, mean of all processors.
        pub times_mean: Option<CpuTimes> as Maybe<CpuTimes>,
        /// How busy all processors together were over the last `interval_s`, in percent.
        pub percent_all: Option<f64> as Maybe<Tenths>,
        /// What the percentages are over, in seconds: the time since an earlier capture of this process.
        pub interval_s: Option<f64> as Maybe<Millionths>,
        /// In MHz, mean of all processors.
        pub frequency: Option<f64> as Maybe<Float>,
        /// Seconds since the machine started, for each processor.
        pub times_per_cpu: Option<Vec<CpuTimes>> as Maybe<List<CpuTimes>>,
        /// How busy each processor was over the last `interval_s`, in percent; none for one that has just appeared.
        pub percent_per_cpu: Option<Vec<Option<f64>>> as Maybe<List<Maybe<Tenths>>>,
    }
}

part! {
    /// What processors spent their time on, in seconds.
    pub struct CpuTimes {
        /// Programs.
        pub user: f64 as Hundredths,
        /// Programs of low priority.
        pub nice: f64 as Hundredths,
        /// The kernel.
        pub system: f64 as Hundredths,
        /// Nothing.
        pub idle: f64 as Hundredths,
        /// Nothing, while a disk was busy.
        pub iowait: f64 as Hundredths,
        /// Interrupts.
        pub irq: f64 as Hundredths,
        /// Interrupts, the part that may wait.
        pub softirq: f64 as Hundredths,
        /// Taken by other virtual machines.
        pub steal: f64 as Hundredths,
        /// Running guests; also part of `user`.
        pub guest: f64 as Hundredths,
        /// Running guests of low priority; also part of `nice`.
        pub guest_nice: f64 as Hundredths,
    }
}

part! {
    /// This process.
    pub struct Process {
        /// Its number.
        pub pid: u64 as Integer,
        /// The processor that the capturing thread ran on.
        pub cpu_number: Option<u64> as Maybe<Integer>,
        /// Its memory.
        pub memory: Option<ProcessMemory> as Maybe<ProcessMemory>,
        /// Resident memory in percent of the machine's.
        pub memory_percent: Option<f64> as Maybe<Float>,
        /// Its time on processors.
        pub cpu_times: Option<ProcessTimes> as Maybe<ProcessTimes>,
        /// Time on processors since an earlier capture of this process; 100 is one processor.
        pub cpu_percent: Option<f64> as Maybe<Tenths>,
        /// What it read and wrote.
        pub io_counters: Option<IoCounters> as Maybe<IoCounters>,
        /// Open descriptors, without those that are held for captures.
        pub num_open_file_descriptors: Option<u64> as Maybe<Integer>,
        /// Open regular files.
        pub num_open_files: Option<u64> as Maybe<Integer>,
        /// TCP and UDP sockets that have an address.
        pub num_connections: Option<u64> as Maybe<Integer>,
        /// Threads.
        pub num_threads: Option<u64> as Maybe<Integer>,
        /// How often its threads gave up a processor, and how often they were made to.
        pub num_ctx_switches: Option<Switches> as Maybe<Switches>,
        /// The program's file.
        pub executable: Option<String> as Maybe<Text>,
        /// How it was called; secrets are hidden.
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
        /// Resident and shared with a file.
        pub shared: Option<u64> as Maybe<Integer>,
        /// Code.
        pub text: Option<u64> as Maybe<Integer>,
        /// Libraries; always 0 on Linux.
        pub lib: Option<u64> as Maybe<Integer>,
        /// Data and stack.
        pub data: Option<u64> as Maybe<Integer>,
        /// Changed pages; always 0 on Linux.
        pub dirty: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Time of a process, in seconds.
    pub struct ProcessTimes {
        /// In the program.
        pub user: f64 as Millionths,
        /// In the kernel.
        pub system: f64 as Millionths,
        /// In programs of children that have ended.
        pub children_user: Option<f64> as Maybe<Millionths>,
        /// In the kernel for children that have ended.
        pub children_system: Option<f64> as Maybe<Millionths>,
        /// Waiting for disks.
        pub iowait: Option<f64> as Maybe<Hundredths>,
    }
}

part! {
    /// What a process read and wrote.
    pub struct IoCounters {
        /// Calls that read.
        pub read_count: Option<u64> as Maybe<Integer>,
        /// Calls that wrote.
        pub write_count: Option<u64> as Maybe<Integer>,
        /// Bytes that came from disks.
        pub read_bytes: Option<u64> as Maybe<Integer>,
        /// Bytes that went to disks.
        pub write_bytes: Option<u64> as Maybe<Integer>,
        /// Bytes that were read, wherever they came from.
        pub read_chars: Option<u64> as Maybe<Integer>,
        /// Bytes that were written, wherever they went.
        pub write_chars: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Switches of the threads of a process.
    pub struct Switches {
        /// A thread had to wait for something.
        pub voluntary: u64 as Integer,
        /// Another thread was to run.
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
        /// All there is.
        pub total: u64 as Integer,
        /// What programs could get without swapping.
        pub available: u64 as Integer,
        /// `used` in percent of `total`.
        pub percent: f64 as Tenths,
        /// `total` without `available`.
        pub used: u64 as Integer,
        /// Used for nothing at all.
        pub free: u64 as Integer,
        /// Used lately.
        pub active: Option<u64> as Maybe<Integer>,
        /// Not used lately.
        pub inactive: Option<u64> as Maybe<Integer>,
        /// Blocks of devices.
        pub buffers: Option<u64> as Maybe<Integer>,
        /// Pages of files, and what of the kernel's own memory can be had back.
        pub cached: Option<u64> as Maybe<Integer>,
        /// Shared memory.
        pub shared: Option<u64> as Maybe<Integer>,
        /// The kernel's own.
        pub slab: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Swap, in bytes.
    pub struct Swap {
        /// All there is.
        pub total: u64 as Integer,
        /// In use.
        pub used: u64 as Integer,
        /// Not in use.
        pub free: u64 as Integer,
        /// `used` in percent of `total`.
        pub percent: f64 as Tenths,
        /// Bytes that came back from swap since the machine started.
        pub sin: Option<u64> as Maybe<Integer>,
        /// Bytes that went to swap since the machine started.
        pub sout: Option<u64> as Maybe<Integer>,
    }
}

part! {
    /// Disks.
    pub struct Disk {
        /// Space of the file system at `/`.
        pub disk_usage: Option<DiskUsage> as Maybe<DiskUsage>,
        /// Transfers of each disk and partition; `loop` and `ram` devices only when they had any.
        pub io_per_disk: Option<Named<DiskIo>> as Maybe<ByName<DiskIo>>,
        /// Transfers of all disks; partitions do not count twice.
        pub io_sum: Option<DiskIo> as Maybe<DiskIo>,
    }
}

part! {
    /// Space of a file system, in bytes.
    pub struct DiskUsage {
        /// All there is.
        pub total: u64 as Integer,
        /// In use.
        pub used: u64 as Integer,
        /// What users can still get.
        pub free: u64 as Integer,
        /// `used` in percent of `used` and `free`.
        pub percent: f64 as Tenths,
    }
}

part! {
    /// Transfers of a disk since the machine started.
    pub struct DiskIo {
        /// Reads.
        pub read_count: Option<u64> as Maybe<Integer>,
        /// Writes.
        pub write_count: Option<u64> as Maybe<Integer>,
        /// Bytes read.
        pub read_bytes: u64 as Integer,
        /// Bytes written.
        pub write_bytes: u64 as Integer,
        /// Milliseconds of all reads.
        pub read_time: Option<u64> as Maybe<Integer>,
        /// Milliseconds of all writes.
        pub write_time: Option<u64> as Maybe<Integer>,
        /// Reads that were joined with another.
        pub read_merged_count: Option<u64> as Maybe<Integer>,
        /// Writes that were joined with another.
        pub write_merged_count: Option<u64> as Maybe<Integer>,
        /// Milliseconds in which it was busy.
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
        /// Packets that came and were dropped.
        pub dropin: Option<u64> as Maybe<Integer>,
        /// Packets that were to be sent and were dropped.
        pub dropout: Option<u64> as Maybe<Integer>,
    }
}

impl Telemetry {
    /// Why a field or the part it is in is missing.
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

/// To a tenth, as it is stored.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    Tenths::whole(part as f64 / whole as f64 * 100.0) as f64 / 10.0
}
