//! A description of the machine, read once per workflow. It takes about a millisecond and starts no
//! other program.
//!
//! ```
//! use runlore::settings::Settings;
//! use runlore::telemetry::MachineInfo;
//!
//! let settings = Settings::default();
//! let machine = MachineInfo::capture(&settings.telemetry_capture);
//! println!("{:?} processors of {:?}", machine.cpu.count, machine.cpu.brand_raw);
//! for (what, why) in &machine.unavailable {
//!     println!("{what} is not known: {why}");
//! }
//! ```

mod build;
mod caches;
mod cpu;
mod cpuid;
mod cpuinfo;
mod disk;
mod environment;
mod facts;
mod kernel;
mod memory;
mod network;
mod numa;
mod platform;
mod process;
mod secrets;
mod system;
#[cfg(test)]
mod tests;
mod user;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::system_calls::ticks_per_second;
pub use build::{AnnotatedCrate, Build};
pub use caches::Cache;
pub use cpu::Cpu;
pub use disk::Disk;
pub use kernel::Kernel;
pub use memory::{Memory, Swap, Virtual};
pub use network::Address;
pub use numa::NumaNode;
pub use platform::Platform;
pub use process::Process;

use self::facts::Reasons;
use super::container::{Container, ContainerReader};
use super::gpu::GpuInfo;
use super::root::Root;
use runlore_core::settings::TelemetrySettings;

const GPU: &str = "gpu";

/// A description of the machine.
///
/// The names are Flowcept's where it has one. Runlore adds what Flowcept lacks or gets wrong.
///
/// Every absent value has its reason in [`unavailable`](Self::unavailable), under its own path or
/// that of the part it belongs to: `cpu.hz_actual`, `container`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MachineInfo {
    /// The operating system, as `uname` describes it.
    pub platform: Platform,
    /// The CPUs.
    pub cpu: Cpu,
    /// Memory and swap.
    pub memory: Memory,
    /// Space of the file system that contains `/`.
    pub disk: Disk,
    /// The addresses of each network interface.
    pub network: BTreeMap<String, Vec<Address>>,
    /// The environment variables that the settings select, with secrets redacted.
    pub environment: BTreeMap<String, String>,
    /// The host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The user who runs the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login_name: Option<String>,
    /// The process.
    pub process: Process,
    /// The container of the process, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The kernel.
    pub kernel: Kernel,
    /// The GPUs, if they are captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuInfo>,
    /// The NUMA nodes: groups of CPUs, each with its local memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<NumaNode>,
    /// The CPU caches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// How the program was built.
    pub build: Build,
    /// The values that are not known, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

impl MachineInfo {
    /// Reads the description of this machine.
    ///
    /// Of the settings, `environment` selects the environment variables, by names or by patterns
    /// such as `SLURM_*`. The others determine how the process is captured and whether a missing
    /// GPU gets a reason.
    ///
    /// ```
    /// use runlore::settings::Search;
    /// use runlore::telemetry::MachineInfo;
    ///
    /// let text = "telemetry_capture:\n  environment: [CARGO_PKG_*]";
    /// let settings = Search::nowhere().text("settings.yaml", text).load().settings;
    /// let machine = MachineInfo::capture(&settings.telemetry_capture);
    /// assert!(machine.environment.keys().all(|name| name.starts_with("CARGO_PKG_")));
    /// ```
    pub fn capture(settings: &TelemetrySettings) -> Self {
        Self::below(&Root::live(), settings)
    }

    /// Adds the crates of the program that have annotated functions.
    ///
    /// ```
    /// use runlore::settings::Settings;
    /// use runlore::telemetry::MachineInfo;
    /// use runlore::telemetry::machine::AnnotatedCrate;
    ///
    /// let solver = AnnotatedCrate { name: "solver".into(), version: "1.2.0".into(), commit: None };
    /// let machine = MachineInfo::capture(&Settings::default().telemetry_capture);
    /// let machine = machine.with_crates(vec![solver]);
    /// assert_eq!(machine.build.crates.unwrap()[0].name, "solver");
    /// ```
    #[must_use]
    pub fn with_crates(mut self, crates: Vec<AnnotatedCrate>) -> Self {
        self.build.crates = Some(crates);
        self.unavailable.remove(build::CRATES);
        self
    }

    /// Adds the GPUs, or the reason why they are not known.
    ///
    /// Their driver may take longer to answer than [`capture`](Self::capture) does, so
    /// [`TelemetryCapture::gpu_info`] queries it separately.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use runlore::settings::Settings;
    /// use runlore::telemetry::{MachineInfo, TelemetryCapture};
    ///
    /// let settings = Settings::default().telemetry_capture;
    /// let gpus = TelemetryCapture::from_settings().gpu_info(Duration::from_secs(1));
    /// let machine = MachineInfo::capture(&settings).with_gpu(gpus);
    /// assert!(machine.gpu.is_some() || machine.unavailable.contains_key("gpu"));
    /// ```
    ///
    /// [`TelemetryCapture::gpu_info`]: crate::TelemetryCapture::gpu_info
    #[must_use]
    pub fn with_gpu(mut self, gpu: Result<GpuInfo, String>) -> Self {
        match gpu {
            Ok(mut info) => {
                self.unavailable.remove(GPU);
                let missing = std::mem::take(&mut info.unavailable).into_iter();
                self.unavailable.extend(missing.map(|(what, why)| (format!("{GPU}.{what}"), why)));
                self.gpu = Some(info);
            }
            Err(why) => _ = self.unavailable.insert(GPU.to_owned(), why),
        }
        self
    }

    fn below(root: &Root, settings: &TelemetrySettings) -> Self {
        let mut reasons = Reasons::default();
        let caches = caches::read(root);
        let cpu = cpu::read(root, &caches, &mut reasons);
        let mut info = Self {
            platform: platform::read(root, &cpu, &mut reasons),
            memory: memory::read(root, &mut reasons),
            disk: disk::read(root, &mut reasons),
            network: network::read(root, &mut reasons),
            environment: environment::read(root, &settings.environment, &mut reasons),
            hostname: platform::host_name(root, &mut reasons),
            login_name: user::name(root, &mut reasons),
            process: process::read(root, settings, &mut reasons),
            container: container(root, &mut reasons),
            kernel: kernel::read(root, &mut reasons),
            numa: numa::read(root, &mut reasons),
            build: build::facts(&mut reasons),
            cpu,
            caches,
            gpu: None,
            unavailable: BTreeMap::new(),
        };
        if info.caches.is_empty() {
            reasons.note("caches", "/sys/devices/system/cpu/cpu0/cache is not there");
        }
        if !settings.gpu.is_empty() {
            reasons.note(GPU, "it was not asked for");
        }
        info.unavailable = reasons.into_map();
        info
    }
}

/// Reads the container. The reasons for its missing values go to `reasons`.
fn container(root: &Root, reasons: &mut Reasons) -> Option<Container> {
    let reader = match ContainerReader::below(root.clone()) {
        Ok(reader) => reader,
        Err(why) => {
            reasons.note("container", why);
            return None;
        }
    };
    let mut container = reader.read(&mut Vec::new());
    for (what, why) in std::mem::take(&mut container.unavailable) {
        reasons.note(format!("container.{what}"), why);
    }
    Some(container)
}
