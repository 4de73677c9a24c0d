//! GPUs as devices, read through the vendors' libraries.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::activity::{self, Activity, INTERVAL};
use super::collector::{About, Collector, Reading, Supported};
use runlore_core::settings::Settings;
use runlore_telemetry::{Telemetry, TelemetryCapture, TelemetryType, Types};

/// How long a driver may take to list its devices.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns a collector for each GPU that the program may use. If there are none, returns the
/// reason.
pub(super) fn all() -> Result<Vec<Gpu>, String> {
    let info = capture_of(&["used"]).gpu_info(PATIENCE)?;
    let is_nvidia = info.vendor == "nvidia";
    // Only NVIDIA's drivers report the memory of this process.
    let (metrics, more): (&[&str], [&str; 3]) = match is_nvidia {
        true => (&["used", "process_memory"], ["utilization", "power", "temperature"]),
        false => (&["used"], ["activity", "power", "temperature"]),
    };
    let shared = Arc::new(Mutex::new(Shared {
        capture: capture_of(metrics),
        with_activity: capture_of(&[metrics, &more].concat()),
        activity_at: None,
        last: None,
        seen: Vec::new(),
    }));
    let mut found = Vec::new();
    for (name, device) in &info.devices {
        let Some(number) = device_id(name) else { continue };
        let about = About {
            device_id: number,
            backend: if is_nvidia { "cuda" } else { "rocm" }.to_owned(),
            source: if is_nvidia { "nvml" } else { "amdsmi" }.to_owned(),
            supported: Supported {
                allocated: is_nvidia,
                used: true,
                free: device.memory_total.is_some(),
                total: device.memory_total.is_some(),
                ..Supported::default()
            },
        };
        let (name, total) = (name.clone(), device.memory_total);
        found.push(Gpu { about, name, total, shared: Arc::clone(&shared) });
    }
    if found.is_empty() {
        let reason = info.unavailable.get("devices").map(String::as_str);
        Err(reason
            .unwrap_or("there are no graphics processors that this program may use")
            .to_owned())
    } else {
        Ok(found)
    }
}

/// Returns 2 for `gpu_2`, and 201 for its partition `gpu_2_mig_1`. A program never sees whole
/// devices beside partitions, so the numbers are unique.
fn device_id(name: &str) -> Option<i64> {
    let name = name.strip_prefix("gpu_")?;
    match name.split_once("_mig_") {
        Some((device, part)) => Some(device.parse::<i64>().ok()? * 100 + part.parse::<i64>().ok()?),
        None => name.parse().ok(),
    }
}

fn capture_of(metrics: &[&str]) -> TelemetryCapture {
    let mut settings = Settings::default().telemetry_capture;
    settings.gpu = metrics.iter().map(|name| (*name).to_owned()).collect();
    TelemetryCapture::configured(&settings).with_types(Types::from([TelemetryType::Gpu]))
}

/// One GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    about: About,
    name: String,
    total: Option<u64>,
    shared: Arc<Mutex<Shared>>,
}

/// The state that all GPUs share, because one reading covers all devices.
#[derive(Debug)]
struct Shared {
    capture: TelemetryCapture,
    /// Also reads the activity of the devices. Used once a second, because it takes more work of
    /// the driver.
    with_activity: TelemetryCapture,
    activity_at: Option<Instant>,
    last: Option<Telemetry>,
    /// The devices that have already used the last reading.
    seen: Vec<String>,
}

impl Collector for Gpu {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn collect(&mut self) -> Result<Reading, String> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.last.is_none() || shared.seen.contains(&self.name) {
            let now = Instant::now();
            let is_due = shared.activity_at.is_none_or(|then| now - then >= INTERVAL);
            shared.last = Some(match is_due {
                true => {
                    shared.activity_at = Some(now);
                    shared.with_activity.capture()
                }
                false => shared.capture.capture(),
            });
            shared.seen.clear();
        }
        shared.seen.push(self.name.clone());
        let Some(last) = &shared.last else { return Err("nothing was read".to_owned()) };
        let values = last.gpu.as_ref().and_then(|devices| devices.get(&self.name));
        let Some(values) = values else {
            let reason = last.reason(&format!("gpu.{}", self.name));
            return Err(reason
                .unwrap_or("the driver does not tell of the device any more")
                .to_owned());
        };
        let used = values.get("used").and_then(Value::as_u64);
        let activity = activity::of_gpu(values);
        Ok(Reading {
            activity: (activity != Activity::default()).then_some(activity),
            allocated: values.get("process_memory").and_then(Value::as_u64),
            used,
            free: self.total.zip(used).map(|(total, used)| total.saturating_sub(used)),
            total: self.total,
            ..Reading::default()
        })
    }
}
