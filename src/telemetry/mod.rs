//! What the machine was doing: the types of telemetry, and which of them a task asks for.

mod container;
pub mod machine;
mod root;

pub use container::{
    Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, ContainerPids,
    ContainerReader,
};
pub use machine::MachineInfo;

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
