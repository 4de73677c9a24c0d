//! Captures of processors, memory, disks, network and this process.
//!
//! Every task carries one capture from its start and one from its end. To take one by hand, see
//! [`TelemetryCapture`]; [`usage`] returns what a thread has used. The guide `docs/telemetry.md`
//! lists every field with its unit and source.

pub use runlore_telemetry::{
    Amount, Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers,
    ContainerPids, ContainerReader, Cpu, CpuTimes, Disk, DiskIo, DiskUsage, Energy, EnergyUsed,
    GpuDevice, GpuInfo, IoCounters, MachineInfo, Memory, Named, NetIo, Network, Process,
    ProcessMemory, ProcessTimes, Resources, Sensor, SensorState, Snapshot, Swap, Switches,
    TaskTelemetry, Telemetry, TelemetryCapture, TelemetryChoice, TelemetryType, Types,
    VirtualMemory, machine, usage,
};
