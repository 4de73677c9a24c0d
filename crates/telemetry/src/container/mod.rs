//! The limits that a container sets, beside what the machine has.
//!
//! On Linux a container is a control group: the kernel counts what its processes use together and holds
//! them to limits. A [`ContainerReader`] finds the group of this process and reads it.
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

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod find;
#[cfg(target_os = "linux")]
mod held;
#[cfg(target_os = "linux")]
mod kind;
mod reader;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub(super) use files::Limits;
pub use reader::ContainerReader;

/// The container that this process is in. A limit that is not set is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Container {
    /// The version of the control groups that limit memory and processors: 1 or 2.
    pub version: u8,
    /// The path of the group, as the process sees it.
    pub path: String,
    /// What made it.
    pub kind: ContainerKind,
    /// Memory.
    #[serde(default)]
    pub memory: ContainerMemory,
    /// Processor time.
    #[serde(default)]
    pub cpu: ContainerCpu,
    /// Processes and threads.
    #[serde(default)]
    pub pids: ContainerPids,
    /// The processors that may be used, as the kernel lists them: `0-3,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<String>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// The numbers of a [`Container`], to be kept where there is no room for text.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ContainerNumbers {
    /// Memory.
    pub memory: ContainerMemory,
    /// Processor time.
    pub cpu: ContainerCpu,
    /// Processes and threads.
    pub pids: ContainerPids,
}

/// Memory of a container, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerMemory {
    /// What the group uses now, its file cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// What it may use: the smallest limit of the group and the groups around it that are visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Above this it is slowed down; again the smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// The most it has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// How many of its processes were killed for want of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Whether the machine's own memory is what limits it: there is no limit, or one that is not smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_is_host: Option<bool>,
}

/// Processor time of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerCpu {
    /// Microseconds of processor time in each period, where that is limited: the tightest quota of the group and the
    /// groups around it that are visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_us: Option<u64>,
    /// How long a period of that quota is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_us: Option<u64>,
    /// The quota in processors: quota over period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// How many periods ended with the quota spent, in the group that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// How many periods there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// How long the group was held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_us: Option<u64>,
    /// The processor time that the group has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_us: Option<u64>,
}

/// Processes and threads of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerPids {
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// How many there may be; the smallest limit, as for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// What made a container, where its path or its file system tells.
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
    /// A job of Slurm.
    Slurm,
    /// A control group of another origin.
    #[serde(other)]
    Unknown,
}
