//! Captures of what the machine and this process are doing: CPUs, memory, disks, network, GPUs and
//! energy.

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
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
mod reasons;
mod rolling;
mod root;
mod scan;
mod sensors;
mod snapshot;
mod source;
mod stored;
mod system_calls;
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
pub use stored::{Amount, Resources, TaskTelemetry};
pub use types::Types;

/// Reads the energy counters again if the last reading is too old, so that no wrap-around is
/// missed.
///
/// Call it from time to time. Most calls do nothing, and none reads a counter that no capture has
/// read before.
#[cfg(target_os = "linux")]
pub fn keep_up(now_ns: u64) {
    linux::of_this_process().keep_up(now_ns);
}

/// Does nothing: on this system no counter wraps around.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep_up(_now_ns: u64) {}

/// A type of telemetry that can be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TelemetryType {
    /// CPU time and load, all CPUs together.
    Cpu,
    /// CPU time and load of each CPU.
    PerCpu,
    /// This process: memory, CPU time, files, threads.
    ProcessInfo,
    /// Memory and swap of the machine.
    Mem,
    /// Disk space and transfers.
    Disk,
    /// Network transfers.
    Network,
    /// GPUs.
    Gpu,
    /// Energy counters.
    Energy,
}

impl TelemetryType {
    /// Returns the name that the settings use for this type.
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

/// The telemetry that an annotated function captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TelemetryChoice {
    /// The types that the settings select.
    Default,
    /// No telemetry.
    None,
    /// Only the thread's own usage (`usage::thread`), which costs almost nothing to read.
    Light,
    /// Exactly these types.
    Types(&'static [TelemetryType]),
    /// Exactly these types, as a set.
    Set(Types),
}

impl From<Types> for TelemetryChoice {
    fn from(types: Types) -> Self {
        Self::Set(types)
    }
}

impl<const N: usize> From<[TelemetryType; N]> for TelemetryChoice {
    fn from(types: [TelemetryType; N]) -> Self {
        Self::Set(types.into())
    }
}
