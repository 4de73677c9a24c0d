//! Values besides memory that trackers record in the metadata of samples.

use serde::Serialize;

use crate::events::TelemetryEvent;

macro_rules! gauges {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)*) => {
        /// A value besides memory that trackers record for a machine or a device.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Gauge {
            $($(#[$doc])+ #[serde(rename = $text)] $name,)*
        }

        impl Gauge {
            /// All gauges.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name in the metadata of events, such as `cpu_percent`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

gauges! {
    /// The utilisation of all CPUs of the machine.
    CpuPercent = "cpu_percent";
    /// CPU time of the tracked processes. 100 is one CPU.
    ProcessCpuPercent = "process_cpu_percent";
    /// Bytes that these processes read from disk per second.
    ReadRate = "read_bytes_per_sec";
    /// Bytes that they wrote to disk per second.
    WriteRate = "write_bytes_per_sec";
    /// Bytes that the machine sent per second.
    SendRate = "sent_bytes_per_sec";
    /// Bytes that the machine received per second.
    ReceiveRate = "received_bytes_per_sec";
    /// The utilisation of a GPU.
    GpuPercent = "gpu_percent";
    /// The power draw of a GPU, in watts.
    PowerWatts = "power_watts";
    /// The temperature of a GPU.
    TemperatureCelsius = "temperature_celsius";
    /// The percentage of the last ten seconds in which something waited for memory.
    MemoryPressure = "memory_pressure_percent";
    /// Swap in use.
    SwapUsed = "swap_used_bytes";
    /// Memory that the container uses.
    ContainerUsed = "container_used_bytes";
}

/// The readings of one gauge, ordered by time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GaugeSeries {
    /// The gauge.
    pub gauge: Gauge,
    /// Times in Unix nanoseconds, each with the value at that time.
    pub points: Vec<(u64, f64)>,
}

/// Adds the gauges of a sample.
pub(super) fn add(to: &mut Vec<GaugeSeries>, event: &TelemetryEvent) {
    for &gauge in Gauge::ALL {
        let told = event.metadata.get(gauge.as_str()).and_then(serde_json::Value::as_f64);
        let Some(value) = told.filter(|value| value.is_finite()) else { continue };
        let point = (event.timestamp_ns, value);
        match to.iter_mut().find(|known| known.gauge == gauge) {
            Some(known) => known.points.push(point),
            None => to.push(GaugeSeries { gauge, points: vec![point] }),
        }
    }
}
