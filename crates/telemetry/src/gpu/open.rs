//! Chooses the vendor and the metrics to read.

use std::io::Write as _;

use super::info::GpuInfo;
use super::reading::{Devices, Draft, Reading, Wanted};
use runlore_core::settings::{GpuMetric, GpuVendor, TelemetrySettings};

/// The metrics that are read if a task requests GPUs and the settings name no metrics.
const USUAL: [&str; 4] = ["used", "temperature", "power", "id"];

/// The vendor and the metrics that the settings select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) vendor: GpuVendor,
    /// Names of metrics or of groups of metrics.
    pub(crate) metrics: Vec<String>,
}

impl Asked {
    pub(crate) fn from_settings(settings: &TelemetrySettings) -> Self {
        Self { vendor: settings.gpu_vendor, metrics: settings.gpu.clone() }
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self { vendor: GpuVendor::Auto, metrics: Vec::new() }
    }
}

/// The opened devices of one vendor.
pub(super) struct OpenGpus {
    devices: Box<dyn Devices>,
    metrics: Vec<GpuMetric>,
    /// Fields that are missing from every reading, each with the reason.
    missing: Vec<(String, String)>,
}

impl OpenGpus {
    /// Loads a vendor's library, or returns why none works.
    pub(super) fn new(asked: &Asked) -> Result<Self, String> {
        let mut missing = Vec::new();
        let devices = match asked.vendor {
            GpuVendor::Amd => amd()?,
            GpuVendor::Nvidia => nvidia()?,
            GpuVendor::Auto => match (amd(), nvidia()) {
                (Ok(amd), Ok(nvidia)) if amd.count() > 0 && nvidia.count() > 0 => {
                    let reason = format!(
                        "AMD's devices are read, and NVIDIA's {} are not: set telemetry_capture.gpu_vendor to `nvidia` \
                         to read those instead",
                        nvidia.count()
                    );
                    missing.push(("gpu.nvidia".to_owned(), reason));
                    amd
                }
                (Ok(amd), Ok(nvidia)) => {
                    if nvidia.count() > 0 {
                        nvidia
                    } else {
                        amd
                    }
                }
                (Ok(one), Err(_)) | (Err(_), Ok(one)) => one,
                (Err(amd), Err(nvidia)) => return Err(format!("{amd}; {nvidia}")),
            },
        };
        let vendor = devices.vendor();
        let mut metrics: Vec<GpuMetric> = Vec::new();
        let names: Vec<&str> = match &*asked.metrics {
            [] => USUAL.to_vec(),
            names => names.iter().map(String::as_str).collect(),
        };
        for name in names {
            match vendor.complaint(name) {
                Some(complaint) => {
                    // Writing fails if standard error is closed, and that does not matter.
                    _ = writeln!(std::io::stderr(), "runlore: telemetry_capture.gpu: {complaint}");
                    missing.push((format!("gpu.{name}"), complaint));
                }
                None => metrics.extend(vendor.named(name)),
            }
        }
        let mut seen = Vec::new();
        metrics.retain(|metric| {
            let is_new = !seen.contains(&metric.name);
            seen.push(metric.name);
            is_new
        });
        Ok(Self { devices, metrics, missing })
    }

    pub(super) fn vendor(&self) -> GpuVendor {
        self.devices.vendor()
    }

    pub(super) fn info(&self) -> GpuInfo {
        let mut info = self.devices.info();
        if let Some(reason) = self.devices.nothing() {
            info.unavailable.insert("devices".to_owned(), reason.to_owned());
        }
        info
    }

    pub(super) fn read(&mut self, wanted: Wanted) -> Reading {
        let mut draft = Draft::new(&self.metrics, wanted);
        if wanted.metrics {
            for (field, reason) in &self.missing {
                draft.missing(field.clone(), reason.clone());
            }
        }
        if let Some(reason) = self.devices.nothing() {
            return draft.without_devices(reason);
        }
        self.devices.read(&mut draft);
        draft.done()
    }
}

#[cfg(all(feature = "amd", target_os = "linux"))]
fn amd() -> Result<Box<dyn Devices>, String> {
    super::amd::Amd::open().map(|amd| Box::new(amd) as _)
}

#[cfg(not(all(feature = "amd", target_os = "linux")))]
fn amd() -> Result<Box<dyn Devices>, String> {
    let reason = if cfg!(feature = "amd") {
        "AMD: its library is known on Linux only"
    } else {
        "AMD: this program is built without the feature `amd` of the crate `runlore`"
    };
    Err(reason.to_owned())
}

#[cfg(feature = "nvidia")]
fn nvidia() -> Result<Box<dyn Devices>, String> {
    super::nvidia::Nvidia::open().map(|nvidia| Box::new(nvidia) as _)
}

#[cfg(not(feature = "nvidia"))]
fn nvidia() -> Result<Box<dyn Devices>, String> {
    Err("NVIDIA: this program is built without the feature `nvidia` of the crate `runlore`"
        .to_owned())
}
