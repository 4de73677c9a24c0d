//! The metrics that are valid in `telemetry_capture.gpu`.

use super::nearest::{listed, suggestion};
use super::node::quoted;
use super::types::GpuVendor;

/// A metric of graphics processors that `telemetry_capture.gpu` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuMetric {
    /// The metric's name, such as `power.average_socket_power`. The part before the dot names the
    /// whole group.
    pub name: &'static str,
    /// The metric's unit. Empty for texts and plain numbers.
    pub unit: &'static str,
}

macro_rules! metrics {
    ($($name:literal $unit:literal,)*) => { &[$(GpuMetric { name: $name, unit: $unit }),*] };
}

const AMD: &[GpuMetric] = metrics! {
    "used" "B",
    "activity.gfx_activity" "%",
    "activity.umc_activity" "%",
    "activity.mm_activity" "%",
    "power.average_socket_power" "W",
    "power.energy_accumulator" "",
    "temperature.edge" "°C",
    "temperature.hotspot" "°C",
    "temperature.mem" "°C",
    "temperature.vrgfx" "°C",
    "temperature.vrmem" "°C",
    "temperature.hbm" "°C",
    "temperature.fan_speed" "rpm",
    "others.current_gfxclk" "MHz",
    "others.current_socclk" "MHz",
    "others.current_uclk" "MHz",
    "others.current_vclk0" "MHz",
    "others.current_dclk0" "MHz",
    "id" "",
    "gpu_ix" "",
};

const NVIDIA: &[GpuMetric] = metrics! {
    "used" "B",
    "temperature" "°C",
    "power" "mW",
    "name" "",
    "id" "",
    "utilization.gpu" "%",
    "utilization.memory" "%",
    "memory.total" "B",
    "memory.free" "B",
    "memory.reserved" "B",
    "clocks.graphics" "MHz",
    "clocks.sm" "MHz",
    "clocks.memory" "MHz",
    "clocks.video" "MHz",
    "fan" "%",
    "energy" "mJ",
    "pcie.tx" "KB/s",
    "pcie.rx" "KB/s",
    "throttle" "",
    "ecc.corrected" "",
    "ecc.uncorrected" "",
    "mig.enabled" "",
    "mig.devices" "",
    "process_memory" "B",
};

impl GpuVendor {
    /// Returns the metrics of this vendor. For `auto`, those of both vendors.
    ///
    /// ```
    /// use runlore::settings::GpuVendor;
    ///
    /// assert!(GpuVendor::Nvidia.metrics().any(|metric| metric.name == "power" && metric.unit == "mW"));
    /// ```
    pub fn metrics(self) -> impl Iterator<Item = GpuMetric> {
        let (amd, nvidia): (&[_], &[_]) = match self {
            Self::Auto => (AMD, NVIDIA),
            Self::Amd => (AMD, &[]),
            Self::Nvidia => (&[], NVIDIA),
        };
        amd.iter().chain(nvidia).copied()
    }

    /// Returns the metrics that a name stands for: one metric, or a whole group. Empty if the
    /// vendor does not have it.
    ///
    /// ```
    /// use runlore::settings::GpuVendor;
    ///
    /// let power: Vec<_> = GpuVendor::Amd.named("power").map(|metric| metric.name).collect();
    /// assert_eq!(power, ["power.average_socket_power", "power.energy_accumulator"]);
    /// assert_eq!(GpuVendor::Nvidia.named("activity").count(), 0);
    /// ```
    pub fn named(self, name: &str) -> impl Iterator<Item = GpuMetric> {
        self.metrics().filter(move |metric| is_named(metric, name))
    }

    /// Returns an error message for a name that none of the vendor's metrics has. `None` if the
    /// name is valid.
    pub fn complaint(self, name: &str) -> Option<String> {
        if self.named(name).next().is_some() {
            return None;
        }
        let whose = match self {
            Self::Auto => "graphics processors have",
            Self::Amd => "AMD's graphics processors have",
            Self::Nvidia => "NVIDIA's graphics processors have",
        };
        let mut valid: Vec<&str> = Vec::new();
        for metric in self.metrics() {
            let group = metric.name.split('.').next().unwrap_or_default();
            if !valid.contains(&group) {
                valid.push(group);
            }
        }
        // A name with a dot is compared with full names, any other with the names of groups.
        let near = match name.contains('.') {
            true => suggestion(name, &self.metrics().map(|metric| metric.name).collect::<Vec<_>>()),
            false => suggestion(name, &valid),
        };
        let more = match near {
            near if near.starts_with("did") => format!("{near} Valid are {}", listed(&valid)),
            _ => format!("valid are {}", listed(&valid)),
        };
        Some(format!("{whose} no metric {}: {more}", quoted(name, "of this name")))
    }
}

fn is_named(metric: &GpuMetric, name: &str) -> bool {
    let rest = metric.name.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
