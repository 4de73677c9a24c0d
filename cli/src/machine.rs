//! Describes a machine in a few lines.

use runlore::telemetry::{Container, GpuInfo, MachineInfo};

use crate::units::{bytes, counted};

/// Describes the processors: `AMD EPYC, 8 processors (4 cores), 2 usable`.
pub(crate) fn processors(machine: &MachineInfo) -> String {
    let cpu = &machine.cpu;
    let mut parts = Vec::new();
    parts.extend(cpu.brand_raw.clone().or_else(|| cpu.arch_string_raw.clone()));
    parts.extend(cpu.count.map(|count| {
        let cores = cpu.cores.filter(|cores| *cores != count);
        let cores = cores.map(|cores| format!(" ({})", counted(cores, "core", "cores")));
        counted(count, "processor", "processors") + &cores.unwrap_or_default()
    }));
    let usable = cpu.usable.filter(|usable| Some(*usable) != cpu.count);
    parts.extend(usable.map(|usable| format!("{usable} usable")));
    parts.extend(cpu.hypervisor.as_ref().map(|hypervisor| format!("under {hypervisor}")));
    joined(&parts)
}

/// Describes memory and swap.
pub(crate) fn memory(machine: &MachineInfo) -> String {
    let Some(total) = machine.memory.virtual_memory.total else { return joined(&[]) };
    let swap = match machine.memory.swap.total {
        None => String::new(),
        Some(0) => ", no swap".to_owned(),
        Some(swap) => format!(", {} of swap", bytes(swap)),
    };
    bytes(total) + &swap
}

/// Describes the operating system: `Linux 6.18.4 x86_64`.
pub(crate) fn system(machine: &MachineInfo) -> String {
    let platform = &machine.platform;
    let parts = [&platform.system, &platform.release, &platform.machine];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    if parts.is_empty() { joined(&[]) } else { parts.join(" ") }
}

/// Describes the container and its limits.
pub(crate) fn container(container: &Container) -> String {
    let kind = serde_json::to_value(container.kind).unwrap_or_default();
    let mut limits = Vec::new();
    if let Some(cpus) = container.cpu.quota_cpus {
        limits.push(format!("{cpus} processors"));
    }
    let is_own = container.memory.limit_is_host != Some(true);
    if let Some(most) = container.memory.max.filter(|_| is_own) {
        limits.push(format!("{} of memory", bytes(most)));
    }
    if let Some(most) = container.pids.max {
        limits.push(counted(most, "process", "processes"));
    }
    let limits = match &limits[..] {
        [] => "without limits of its own".to_owned(),
        limits => format!("at most {}", limits.join(", ")),
    };
    format!("{}, {limits}", kind.as_str().unwrap_or("unknown"))
}

/// Describes the graphics processors: `2 × NVIDIA H100 (79.6 GiB), of 8 of the machine, driver
/// 570.86.15`.
pub(crate) fn gpus(info: &GpuInfo) -> String {
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for device in info.devices.values() {
        let memory = device.memory_total.map(|memory| format!(" ({})", bytes(memory)));
        let name = device.name.as_deref().unwrap_or("unknown").to_owned();
        let kind = name + &memory.unwrap_or_default();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let mut parts: Vec<String> =
        kinds.into_iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    if parts.is_empty() {
        parts.push("none".to_owned());
    }
    let visible = info.devices.len() as u64;
    if visible < info.count {
        parts.push(format!("of {} of the machine", info.count));
    }
    parts.extend(info.driver_version.as_ref().map(|version| format!("driver {version}")));
    joined(&parts)
}

/// Describes how the program was built.
pub(crate) fn build(machine: &MachineInfo) -> String {
    let build = &machine.build;
    let rustc = build.rustc.as_deref().map(|rustc| rustc.split(" (").next().unwrap_or(rustc));
    let parts = [rustc, build.profile.as_deref(), build.target.as_deref()];
    joined(&parts.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>())
}

fn joined(parts: &[String]) -> String {
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}
