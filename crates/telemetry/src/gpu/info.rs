//! A description of the GPUs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The GPUs that the program may use, and their driver: part of
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
    /// Version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Version of the library that reads the GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_version: Option<String>,
    /// Number of GPUs in the machine, whether the program may use them or not.
    pub count: u64,
    /// The GPUs that the program may use, by the names that captures use: `gpu_0`.
    pub devices: BTreeMap<String, GpuDevice>,
    /// The values that are not known, each with the reason. In a workflow's record these reasons
    /// are among those of the machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// A GPU, or the MIG instance of one that the program may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GpuDevice {
    /// Product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unique ID. Captures have it as the metric `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
    /// PCI address: domain, bus, device and function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
}

impl GpuInfo {
    /// Returns the value. If it is an error, records that as the reason for `what` and returns
    /// `None`.
    #[cfg_attr(
        not(any(feature = "nvidia", feature = "amd")),
        allow(dead_code, reason = "nobody tells anything then")
    )]
    pub(super) fn known<T>(&mut self, what: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|why| self.unavailable.insert(what.to_owned(), why)).ok()
    }
}
