//! Limits and usage of the container that the process runs in.
//!
//! On Linux a container is a control group (cgroup): the kernel accounts for its processes together
//! and enforces limits on them. A [`ContainerReader`] finds the cgroup of this process and reads
//! it.
//!
//! ```
//! use runlore::telemetry::ContainerReader;
//!
//! match ContainerReader::open() {
//!     Ok(reader) => {
//!         let container = reader.read(&mut Vec::new());
//!         println!("{}: at most {:?} bytes", container.path, container.memory.max);
//!     }
//!     Err(reason) => println!("{reason}"),
//! }
//! ```

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod find;
#[cfg(target_os = "linux")]
mod kind;
#[cfg(target_os = "linux")]
mod reader;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::ContainerReader;
#[cfg(target_os = "linux")]
pub(super) use files::Limits;
#[cfg(target_os = "linux")]
pub use reader::ContainerReader;

/// The container of this process. A limit that is not set is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Container {
    /// Version of the cgroups that limit memory and CPU time: 1 or 2.
    pub version: u8,
    /// Path of the cgroup, as the process sees it.
    pub path: String,
    /// The container manager.
    pub kind: ContainerKind,
    /// Memory.
    #[serde(default)]
    pub memory: ContainerMemory,
    /// CPU time.
    #[serde(default)]
    pub cpu: ContainerCpu,
    /// Processes and threads.
    #[serde(default)]
    pub pids: ContainerPids,
    /// CPUs that the container may use, in the kernel's list format: `0-3,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<String>,
    /// Values that could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// The numbers of a [`Container`], without its strings. It is `Copy` and needs no allocation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ContainerNumbers {
    /// Memory.
    pub memory: ContainerMemory,
    /// CPU time.
    pub cpu: ContainerCpu,
    /// Processes and threads.
    pub pids: ContainerPids,
}

/// Memory of a container, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerMemory {
    /// Memory in use, including the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// Hard limit: the smallest one of the cgroup and its visible ancestors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Limit above which the kernel throttles the container: again the smallest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// Peak memory usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Processes that the OOM killer has killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Whether the machine's memory is the effective limit: there is no hard limit, or it is not
    /// below the machine's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_is_host: Option<bool>,
}

/// CPU time of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerCpu {
    /// CPU time allowed per period, in microseconds: the tightest quota of the cgroup and its
    /// visible ancestors. `None` if there is no quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_us: Option<u64>,
    /// Length of a period of that quota, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_us: Option<u64>,
    /// The quota as a number of CPUs: quota divided by period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// Periods in which the cgroup that has the quota used it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Periods that have passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Time during which the cgroup was throttled, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_us: Option<u64>,
    /// CPU time that the cgroup has used, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_us: Option<u64>,
}

/// Processes and threads of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerPids {
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// Limit on that number: the smallest one, as for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// The manager that created a container, as its path or its file system indicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ContainerKind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes, whichever runtime it uses.
    Kubernetes,
    /// LXC, LXD or Incus.
    Lxc,
    /// `systemd-nspawn`.
    SystemdNspawn,
    /// A Slurm job.
    Slurm,
    /// A cgroup of another origin.
    #[serde(other)]
    Unknown,
}
