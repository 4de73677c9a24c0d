//! How the machine affected a run: swapping, waiting for disks, throttled processors and GPUs.
//!
//! The counters of a machine only grow, so the first and the last reading are enough.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::rows::Rows;
use crate::analyze::finding::{Finding, Place, Severity, Window};
use crate::analyze::kind::Kind;
use crate::analyze::text::{bytes, duration, percent};
use crate::analyze::thresholds::Thresholds;
use crate::engine::path::value_at;

/// Reasons for lower clocks that are no problem.
const HARMLESS: [&str; 5] =
    ["none", "gpu_idle", "applications_clocks_setting", "sync_boost", "display_clock_setting"];

/// The readings of each host on which tasks ran.
#[derive(Debug, Default)]
pub(super) struct Readings {
    hosts: BTreeMap<String, Host>,
}

#[derive(Debug, Default)]
struct Host {
    swap_in: Counter,
    swap_out: Counter,
    iowait: Counter,
    processors: Counter,
    throttled_us: Counter,
    devices: BTreeMap<String, Device>,
}

/// The first and the last reading of a counter, with their times.
#[derive(Debug, Default)]
struct Counter {
    first: Option<(u64, f64)>,
    last: Option<(u64, f64)>,
}

impl Counter {
    fn add(&mut self, at_ns: u64, value: Option<f64>) {
        let Some(value) = value else { return };
        if self.first.is_none_or(|(first, _)| at_ns < first) {
            self.first = Some((at_ns, value));
        }
        if self.last.is_none_or(|(last, _)| at_ns >= last) {
            self.last = Some((at_ns, value));
        }
    }

    /// Returns the increase. 0 if the counter fell because the machine was restarted.
    fn growth(&self) -> Option<f64> {
        Some((self.last?.1 - self.first?.1).max(0.0))
    }
}

/// The readings of a GPU.
#[derive(Debug, Default)]
struct Device {
    readings: u64,
    throttled: u64,
    reasons: BTreeSet<String>,
}

impl Readings {
    /// Adds a telemetry capture of a task on a host, and when it was taken.
    pub(super) fn add(
        &mut self,
        host: &str,
        telemetry: Option<&Map<String, Value>>,
        at_ns: Option<u64>,
    ) {
        let (Some(telemetry), Some(at_ns)) = (telemetry, at_ns) else { return };
        if !self.hosts.contains_key(host) {
            self.hosts.insert(host.to_owned(), Host::default());
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.add(telemetry, at_ns);
        }
    }
}

impl Host {
    fn add(&mut self, telemetry: &Map<String, Value>, at_ns: u64) {
        let number = |path: &str| value_at(telemetry, path)?.as_f64();
        self.swap_in.add(at_ns, number("memory.swap.sin"));
        self.swap_out.add(at_ns, number("memory.swap.sout"));
        self.throttled_us.add(at_ns, number("container.cpu.throttled_us"));
        let times = value_at(telemetry, "cpu.times_avg").and_then(Value::as_object);
        if let Some(times) = times.filter(|times| times.contains_key("iowait")) {
            // Guest time is already included in user time.
            let own = times.iter().filter(|(name, _)| !name.starts_with("guest"));
            let all = own.filter_map(|(_, seconds)| seconds.as_f64()).sum();
            self.processors.add(at_ns, Some(all));
            self.iowait.add(at_ns, times.get("iowait").and_then(Value::as_f64));
        }
        let devices = telemetry.get("gpu").and_then(Value::as_object);
        for (name, device) in devices.into_iter().flatten() {
            let Some(reasons) = device.get("throttle").and_then(Value::as_array) else { continue };
            let known = self.devices.entry(name.clone()).or_default();
            known.readings += 1;
            let before = known.reasons.len();
            let bad = reasons.iter().filter_map(Value::as_str).filter(|it| !HARMLESS.contains(it));
            let bad: Vec<String> = bad.map(str::to_owned).collect();
            known.throttled += u64::from(!bad.is_empty());
            // Drivers report about ten reasons, but a file may contain any text, so limit the set.
            if before < 32 {
                known.reasons.extend(bad);
            }
        }
    }
}

pub(super) fn find(rows: &Rows, window: Window, thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, host) in &rows.readings.hosts {
        let place =
            Place { host: Some(name.clone()).filter(|name| !name.is_empty()), ..Place::default() };
        let findings = [
            swapping(host, thresholds),
            waiting_for_disks(host, thresholds),
            throttled(host, window, thresholds),
        ];
        let devices = host.devices.iter().map(|(name, device)| slowed(name, device, thresholds));
        let findings = findings.into_iter().chain(devices).flatten();
        found.extend(findings.map(|finding| finding.at(&place, Some(window))));
    }
    found
}

fn swapping(host: &Host, thresholds: &Thresholds) -> Option<Finding> {
    let (read, written) =
        (host.swap_in.growth().unwrap_or(0.0), host.swap_out.growth().unwrap_or(0.0));
    if read + written < thresholds.min_bytes as f64 {
        return None;
    }
    // Memory that is only swapped out may be memory that nobody needs.
    let severity =
        if read >= thresholds.min_bytes as f64 { Severity::Warning } else { Severity::Info };
    let what = format!("{} went to swap and {} came back meanwhile", bytes(written), bytes(read));
    Some(
        Finding::new(Kind::Swapping, severity, 0.9, what)
            .with("swapped_in_bytes", read)
            .with("swapped_out_bytes", written),
    )
}

fn waiting_for_disks(host: &Host, thresholds: &Thresholds) -> Option<Finding> {
    let (waited, all) = (host.iowait.growth()?, host.processors.growth()?);
    let ratio = waited / all;
    if all < 0.5 || !ratio.is_finite() || ratio < thresholds.iowait_ratio {
        return None;
    }
    let what = format!(
        "for {} of their time the processors had nothing to do but wait for disks",
        percent(ratio)
    );
    Some(
        Finding::new(Kind::IoPressure, Severity::Warning, 0.8, what)
            .with("iowait_ratio", ratio)
            .with("iowait_ns", (waited * 1e9) as u64),
    )
}

fn throttled(host: &Host, window: Window, thresholds: &Thresholds) -> Option<Finding> {
    let nanoseconds = (host.throttled_us.growth()? * 1e3) as u64;
    let ratio = nanoseconds as f64 / window.length_ns().max(1) as f64;
    if ratio < thresholds.quota_ratio {
        return None;
    }
    let what = format!(
        "the container's threads stood still for {} in all, because its processor quota was used up",
        duration(nanoseconds)
    );
    Some(
        Finding::new(Kind::ThrottledCpu, Severity::Warning, 0.9, what)
            .with("throttled_ns", nanoseconds)
            .with("throttled_ratio", ratio),
    )
}

fn slowed(name: &str, device: &Device, thresholds: &Thresholds) -> Option<Finding> {
    let ratio = device.throttled as f64 / device.readings.max(1) as f64;
    if device.throttled == 0 || ratio < thresholds.throttled_ratio {
        return None;
    }
    let reasons: Vec<&str> = device.reasons.iter().map(String::as_str).collect();
    let what = format!(
        "{name} ran slower than it could in {} of {} readings: {}",
        device.throttled,
        device.readings,
        reasons.join(", ")
    );
    // A single reading shows only a moment, so confidence grows with the number of readings.
    let confidence = 1.0 - 1.0 / (device.readings + 1) as f64;
    Some(
        Finding::new(Kind::ThrottledGpu, Severity::Warning, confidence, what)
            .with("throttled_ratio", ratio)
            .with("readings_count", device.readings),
    )
}
