//! What the graphics processors are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The graphics processors that the program may use, and what drives them: part of
/// [`MachineInfo`](crate::MachineInfo).
///
/// ```
/// use std::time::Duration;
///
/// use runlore::telemetry::{TelemetryCapture, TelemetryType, Types};
///
/// let capture = TelemetryCapture::new(Types::from([TelemetryType::Gpu]));
/// match capture.gpu_info(Duration::from_secs(1)) {
///     Ok(info) => println!("{} of {}", info.devices.len(), info.vendor),
///     Err(reason) => println!("{reason}"),
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GpuInfo {
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// The driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// The version of the library through which they are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_version: Option<String>,
    /// How many the machine has, whichever of them the program may use.
    pub count: u64,
    /// Those that the program may use, by the names that captures give them: `gpu_0`.
    pub devices: BTreeMap<String, GpuDevice>,
    /// What is not known, and why; in a workflow's record it stands with what else is not known of the machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// A graphics processor, or the MIG part of one that the program may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GpuDevice {
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own number in all the world; captures have it as the metric `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
    /// Where it is plugged in: domain, bus, device and function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
}

impl GpuInfo {
    /// The value; where there is none, the reason is noted under this name.
    #[cfg_attr(
        not(any(feature = "nvidia", feature = "amd")),
        allow(dead_code, reason = "nobody tells anything then")
    )]
    pub(super) fn known<T>(&mut self, what: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|why| self.unavailable.insert(what.to_owned(), why)).ok()
    }
}
