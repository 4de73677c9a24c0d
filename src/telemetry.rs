//! What the machine was doing: captures of processors, memory, disks, network and this process.
//!
//! Every task carries one from when it began and one from when it ended. To take one by hand, see [`TelemetryCapture`];
//! for what a thread has used, [`usage`]. The guide with every field, its unit and its source is `docs/telemetry.md`.

pub use runlore_telemetry::{
    Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, ContainerPids,
    ContainerReader, Cpu, CpuTimes, Disk, DiskIo, DiskUsage, Energy, EnergyUsed, GpuDevice,
    GpuInfo, IoCounters, MachineInfo, Memory, Named, NetIo, Network, Process, ProcessMemory,
    ProcessTimes, Sensor, SensorState, Snapshot, Swap, Switches, Telemetry, TelemetryCapture,
    TelemetryChoice, TelemetryType, Types, VirtualMemory, machine, usage,
};
