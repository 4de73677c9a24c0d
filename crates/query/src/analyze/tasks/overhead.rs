//! Reports the cost of recording if it exceeds the limit in the settings.

use crate::analyze::finding::{Finding, Place, Severity};
use crate::analyze::kind::Kind;
use crate::analyze::text::{duration, percent};
use crate::analyze::thresholds::Thresholds;
use crate::engine::path::value_at;
use runlore_core::record::WorkflowObject;
use runlore_core::settings::Settings;

const SETTING: &str = "telemetry_capture.max_overhead_percent";

pub(super) fn find(workflow: Option<&WorkflowObject>, thresholds: &Thresholds) -> Option<Finding> {
    let workflow = workflow?;
    let totals = workflow.totals.as_ref()?;
    let cost = totals.get("overhead_cpu_ns")?.as_u64()?;
    let share = totals.get("overhead_percent")?.as_f64()? / 100.0;
    let set = workflow.settings.as_ref().and_then(|settings| value_at(settings, SETTING)?.as_f64());
    let bound = set.or(Settings::default().telemetry_capture.max_overhead_percent)? / 100.0;
    // In a short run most of the cost is the recorder's start, which users cannot change.
    if share <= bound || (cost as f64) < thresholds.overhead_min_seconds * 1e9 {
        return None;
    }
    let said = match set {
        Some(_) => format!("more than the {} of {SETTING}", percent(bound)),
        None => format!("and {SETTING} sets no bound"),
    };
    let what = format!(
        "recording took {} of the processors' time, {} of the run, {said}",
        duration(cost),
        percent(share)
    );
    let finding = Finding::new(Kind::Overhead, Severity::Warning, 1.0, what)
        .with("overhead_cpu_ns", cost)
        .with("overhead_ratio", share);
    Some(finding.at(&Place::default(), None))
}
