//! The summary of a diagnosis, as stored in a bundle.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::finding::{Finding, Place, Severity};
use super::kind::Kind;
use super::text::{bytes, percent};

/// The maximum size of a summary file.
const LONGEST: u64 = 1 << 20;

/// The content of `diagnostic_summary.json` in a bundle. The fields up to `suggestions` are
/// Stormlog's, `host` is an extension.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiagnosticSummary {
    /// `cuda`, `rocm`, `cpu` and the like.
    pub backend: String,
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
    /// The peak of allocated bytes.
    pub peak_bytes: u64,
    /// The size of the memory in bytes.
    pub total_bytes: u64,
    /// Bytes that are reserved but not allocated.
    pub allocator_gap_bytes: i64,
    /// Allocated bytes as a fraction of the total.
    pub utilization_ratio: f64,
    /// The fragmented fraction of the reserved bytes.
    pub fragmentation_ratio: f64,
    /// How often memory ran out.
    pub num_ooms: u64,
    /// The risks.
    pub risk_flags: RiskFlags,
    /// Suggestions for what to try.
    pub suggestions: Vec<String>,
    /// The memory of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostMemory>,
}

/// Flags for the risks. The first three are Stormlog's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RiskFlags {
    pub oom_occurred: bool,
    pub high_utilization: bool,
    pub fragmentation_warning: bool,
    pub memory_pressure: bool,
    pub swapping: bool,
    pub container_limit: bool,
}

impl RiskFlags {
    /// Whether any flag is set.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The memory of a machine, and of the container around the process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HostMemory {
    /// The size of the machine's memory.
    pub total_bytes: u64,
    /// The lowest amount of available memory during the diagnosis.
    pub available_bytes: u64,
    /// The size of swap.
    pub swap_total_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
    /// Bytes read back from swap during the diagnosis.
    pub swapped_in_bytes: u64,
    /// Bytes written to swap during the diagnosis.
    pub swapped_out_bytes: u64,
    /// The percentage of the last ten seconds in which something waited for memory. `None` if the
    /// system does not report it.
    pub pressure_percent: Option<f64>,
    /// The memory limit of the container. `None` if there is no limit.
    pub container_limit_bytes: Option<u64>,
    /// The memory that the container uses.
    pub container_used_bytes: Option<u64>,
    /// The threshold `available_ratio` that was applied. `None` in older bundles.
    pub available_ratio_threshold: Option<f64>,
    /// The threshold `pressure_ratio` that was applied. `None` in older bundles.
    pub pressure_ratio_threshold: Option<f64>,
}

impl HostMemory {
    /// Returns the available fraction of the memory.
    pub fn available_ratio(&self) -> f64 {
        self.available_bytes as f64 / self.total_bytes.max(1) as f64
    }

    pub(super) fn is_low(&self) -> bool {
        self.available_ratio_threshold.is_some_and(|least| self.available_ratio() < least)
    }

    pub(super) fn is_waiting(&self) -> bool {
        let waited = self.pressure_percent.map(|percent| percent / 100.0);
        waited.zip(self.pressure_ratio_threshold).is_some_and(|(waited, most)| waited >= most)
    }

    /// Describes why memory is short, in a sentence.
    fn shortage(&self) -> String {
        let waited = self.pressure_percent.map(|percent| percent / 100.0);
        let mut low = format!(
            "{} of the machine's {} could be had",
            bytes(self.available_bytes as f64),
            bytes(self.total_bytes as f64)
        );
        if let Some(least) = self.available_ratio_threshold.filter(|_| self.is_low()) {
            let ratio = self.available_ratio();
            low += &format!(": a ratio of {ratio:.3}, below the threshold available_ratio={least}");
        }
        if let (Some(waited), Some(most), true) =
            (waited, self.pressure_ratio_threshold, self.is_waiting())
        {
            let percent = percent(waited);
            low += &format!(
                "; something waited for memory for {percent} of the time: a ratio of {waited:.3}, not below the threshold \
                 pressure_ratio={most}"
            );
        } else if let (Some(waited), None) = (waited, self.available_ratio_threshold) {
            low +=
                &format!(", and something waited for memory for {} of the time", percent(waited));
        }
        low
    }
}

impl DiagnosticSummary {
    /// Reads the summary from a bundle's folder. `None` if there is none, or it cannot be read.
    pub fn of_bundle(folder: &Path) -> Option<Self> {
        let path = folder.join("diagnostic_summary.json");
        let facts = fs::symlink_metadata(&path).ok()?;
        if !facts.is_file() || facts.len() > LONGEST {
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Returns the peak of allocated bytes as a fraction of the total.
    pub fn peak_ratio(&self) -> f64 {
        let most = self.peak_bytes.max(self.allocated_bytes);
        if self.total_bytes > 0 { most as f64 / self.total_bytes as f64 } else { 0.0 }
    }

    /// Returns the risks as findings.
    pub fn findings(&self, place: &Place) -> Vec<Finding> {
        let flags = self.risk_flags;
        let mut found = Vec::new();
        let mut add = |is: bool, kind, severity, what: String| {
            if is {
                found.push(Finding::new(kind, severity, 1.0, what).at(place, place.window));
            }
        };
        let ooms = match self.num_ooms {
            0 | 1 => "memory ran out before this was looked at".to_owned(),
            times => format!("memory ran out {times} times before this was looked at"),
        };
        add(flags.oom_occurred, Kind::OutOfMemory, Severity::Critical, ooms);
        let most = self.peak_bytes.max(self.allocated_bytes);
        let (most, total) = (bytes(most as f64), bytes(self.total_bytes as f64));
        let full =
            format!("{most} of {total} were in use at the peak ({})", percent(self.peak_ratio()));
        add(flags.high_utilization, Kind::HighUtilization, Severity::Warning, full);
        let pieces = percent(self.fragmentation_ratio);
        let pieces = format!("{pieces} of what is reserved is in pieces that cannot be handed out");
        add(flags.fragmentation_warning, Kind::Fragmentation, Severity::Warning, pieces);
        if let Some(host) = &self.host {
            let number = |of: u64| bytes(of as f64);
            let low = host.shortage();
            add(flags.memory_pressure, Kind::MemoryPressure, Severity::Warning, low);
            let swap = format!(
                "{} went to swap and {} came back meanwhile",
                number(host.swapped_out_bytes),
                number(host.swapped_in_bytes)
            );
            add(flags.swapping, Kind::Swapping, Severity::Warning, swap);
            let limit = format!(
                "{} of the {} that the container may have are in use",
                number(host.container_used_bytes.unwrap_or_default()),
                number(host.container_limit_bytes.unwrap_or_default())
            );
            add(flags.container_limit, Kind::MemoryPressure, Severity::Critical, limit);
        }
        found
    }
}
