//! One reading of the GPUs.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::info::GpuInfo;
use crate::{Named, TelemetryType, Types};
use runlore_core::settings::{GpuMetric, GpuVendor};

/// The values that a reading must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    /// The metrics that the settings select.
    pub(crate) metrics: bool,
    /// The energy that each device has used.
    pub(crate) energy: bool,
}

impl Wanted {
    pub(crate) fn of(types: Types) -> Self {
        Self {
            metrics: types.contains(TelemetryType::Gpu),
            energy: types.contains(TelemetryType::Energy),
        }
    }

    pub(crate) fn is_nothing(self) -> bool {
        !self.metrics && !self.energy
    }

    pub(super) fn covers(self, other: Self) -> bool {
        (self.metrics || !other.metrics) && (self.energy || !other.energy)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { metrics: self.metrics || other.metrics, energy: self.energy || other.energy }
    }
}

/// One reading of all devices.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The values that were requested.
    pub(super) of: Wanted,
    /// The metrics of each device: the JSON of a [`Named<Value>`]. Empty if the program may use no
    /// device.
    pub(crate) metrics: Vec<u8>,
    /// The energy that each device has used in microjoules, by the name of its meter: `nvml:gpu_0`.
    pub(crate) energy: Vec<(String, u64)>,
    /// The missing fields, each with the reason.
    pub(crate) missing: Vec<(String, String)>,
}

/// A reading in progress.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    asked: &'a [GpuMetric],
    pub(super) wanted: Wanted,
    devices: Named<Value>,
    reading: Reading,
}

impl<'a> Draft<'a> {
    pub(super) fn new(asked: &'a [GpuMetric], wanted: Wanted) -> Self {
        let reading = Reading { of: wanted, ..Reading::default() };
        Self { asked, wanted, devices: Named::default(), reading }
    }

    /// Reads all requested metrics of a device, each with `read`.
    pub(super) fn device(
        &mut self,
        name: &str,
        mut read: impl FnMut(&'static str) -> Result<Value, String>,
    ) {
        if !self.wanted.metrics {
            return;
        }
        let mut values = Map::new();
        for metric in self.asked {
            match read(metric.name) {
                Ok(value) => insert(&mut values, metric.name, value),
                Err(reason) => self.missing(format!("gpu.{name}.{}", metric.name), reason),
            }
        }
        self.devices.push(name, Value::Object(values));
    }

    /// Adds the energy counter of a device, in microjoules.
    pub(super) fn energy(&mut self, meter: String, microjoules: Result<u64, String>) {
        match microjoules {
            Ok(microjoules) => self.reading.energy.push((meter, microjoules)),
            Err(reason) => self.missing(format!("energy.{meter}"), reason),
        }
    }

    pub(super) fn missing(&mut self, field: String, reason: String) {
        self.reading.missing.push((field, reason));
    }

    /// Finishes a reading for a program that may use no device.
    pub(super) fn without_devices(mut self, reason: &str) -> Reading {
        if self.wanted.metrics {
            self.missing("gpu".to_owned(), reason.to_owned());
        }
        self.reading
    }

    pub(super) fn done(mut self) -> Reading {
        if self.wanted.metrics {
            self.reading.metrics = serde_json::to_vec(&self.devices).unwrap_or_default();
        }
        self.reading
    }
}

fn insert(values: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => _ = values.insert(name.to_owned(), value),
        Some((group, name)) => {
            let group = values.entry(group).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(group) = group {
                group.insert(name.to_owned(), value);
            }
        }
    }
}

/// The devices of one vendor. They are used on the reader thread only.
pub(super) trait Devices {
    fn vendor(&self) -> GpuVendor;

    /// Returns the number of devices, visible or not.
    fn count(&self) -> usize;

    /// Returns why the program may use no device. `None` if it may use some.
    fn nothing(&self) -> Option<&str>;

    fn read(&mut self, draft: &mut Draft<'_>);

    /// Returns a description of the devices.
    fn info(&self) -> GpuInfo;
}

/// Formats an error with its library: `NVML: the driver is not loaded`.
pub(super) fn told(library: &str, error: impl Display) -> String {
    format!("{library}: {error}")
}
