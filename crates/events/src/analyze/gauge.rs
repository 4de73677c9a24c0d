//! What events tell of a machine beside memory: what trackers keep in the metadata of samples.

use serde::Serialize;

use crate::events::TelemetryEvent;

macro_rules! gauges {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)*) => {
        /// Something that trackers tell of a machine or a device beside its memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Gauge {
            $($(#[$doc])+ #[serde(rename = $text)] $name,)*
        }

        impl Gauge {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in the metadata of events: `cpu_percent`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

gauges! {
    /// How busy the processors of the machine were.
    CpuPercent = "cpu_percent";
    /// How busy processors were with the processes that are tracked; 100 is one processor.
    ProcessCpuPercent = "process_cpu_percent";
    /// What these processes read from disks.
    ReadRate = "read_bytes_per_sec";
    /// What they wrote to disks.
    WriteRate = "write_bytes_per_sec";
    /// What the machine sent.
    SendRate = "sent_bytes_per_sec";
    /// What the machine received.
    ReceiveRate = "received_bytes_per_sec";
    /// How busy a graphics processor was.
    GpuPercent = "gpu_percent";
    /// What a graphics processor drew, in watts.
    PowerWatts = "power_watts";
    /// How warm a graphics processor was.
    TemperatureCelsius = "temperature_celsius";
    /// How much of the last ten seconds something waited for memory.
    MemoryPressure = "memory_pressure_percent";
    /// What is in use of swap.
    SwapUsed = "swap_used_bytes";
    /// What is in use of what the container may have.
    ContainerUsed = "container_used_bytes";
}

/// One of them over time, in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GaugeSeries {
    /// What it is.
    pub gauge: Gauge,
    /// When it was read, in Unix nanoseconds, and what it was then.
    pub points: Vec<(u64, f64)>,
}

/// Adds what a sample tells.
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
