//! What the machine was doing: captures of processors, memory, disks, network and this process.

mod capture;
mod command;
mod container;
mod cost;
mod energy;
mod gpu;
#[cfg(target_os = "linux")]
mod linux;
pub mod machine;
mod meminfo;
#[doc(hidden)]
pub mod memory_now;
mod parts;
mod per_process;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
mod reasons;
mod rolling;
mod root;
mod scan;
mod sensors;
mod snapshot;
mod source;
mod space;
mod types;
pub mod usage;

pub use capture::TelemetryCapture;
pub use capture::part_of;
pub use container::{
    Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, ContainerPids,
    ContainerReader,
};
pub use energy::EnergyUsed;
pub use gpu::{GpuDevice, GpuInfo};
pub use machine::MachineInfo;
pub use memory_now::{MemoryNow, memory_now, resident_now};
pub use parts::{
    Cpu, CpuTimes, Disk, DiskIo, DiskUsage, Energy, IoCounters, Memory, NetIo, Network, Process,
    ProcessMemory, ProcessTimes, Swap, Switches, Telemetry, VirtualMemory,
};
pub use sensors::{Sensor, SensorState};
pub use snapshot::{Named, Snapshot};
pub use types::Types;

/// Says that this process is a forked child, whose captures must open their files anew. Only marks: it may be called from
/// a handler of `pthread_atfork`.
pub fn forget_after_fork() {
    gpu::forget_after_fork();
    #[cfg(target_os = "linux")]
    linux::forget_after_fork();
}

/// Reads energy counters that were read before, but not for a while, so that none goes round unseen. To be called now and
/// then; it mostly does nothing.
#[cfg(target_os = "linux")]
pub fn keep_up(now_ns: u64) {
    linux::of_this_process().keep_up(now_ns);
}

/// There are no counters on this system that go round.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep_up(_now_ns: u64) {}

/// A type of telemetry that can be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TelemetryType {
    /// Time and load of all processors together.
    Cpu,
    /// The same for each processor.
    PerCpu,
    /// This process: memory, time, files, threads.
    ProcessInfo,
    /// Memory and swap of the machine.
    Mem,
    /// Disk space and transfers.
    Disk,
    /// Network transfers.
    Network,
    /// Graphics processors.
    Gpu,
    /// Energy counters.
    Energy,
}

impl TelemetryType {
    /// Its name, as in the settings.
    ///
    /// ```
    /// assert_eq!(runlore::telemetry::TelemetryType::PerCpu.name(), "per_cpu");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::PerCpu => "per_cpu",
            Self::ProcessInfo => "process_info",
            Self::Mem => "mem",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Gpu => "gpu",
            Self::Energy => "energy",
        }
    }
}

/// What telemetry an annotated function asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TelemetryChoice {
    /// What the settings say.
    Default,
    /// Nothing.
    None,
    /// Only what costs next to nothing.
    Light,
    /// These types.
    Types(&'static [TelemetryType]),
}
