//! Energy figures of records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{TaskObject, WorkflowObject};

/// The energy that the machine and its devices used while a task or a workflow ran.
///
/// ```
/// use runlore::record::TaskObject;
///
/// let text = r#"{"task_id": "t", "resources": {"joules": {
///     "self": 1.5, "inclusive": 4.0, "meters": {"rapl:package-0": 3.0, "nvml:gpu_0": 1.0}
/// }}}"#;
/// let task: TaskObject = serde_json::from_str(text)?;
/// let used = task.joules().unwrap();
/// assert_eq!((used.inclusive, used.own), (4.0, Some(1.5)));
/// assert!(used.meters.contains_key("nvml:gpu_0"));
///
/// let task: TaskObject = serde_json::from_str(r#"{"task_id": "t"}"#)?;
/// assert_eq!(task.joules(), Err("energy was not measured"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JoulesObject {
    /// Energy in joules, including the tasks that this one called.
    pub inclusive: f64,
    /// Energy in joules, without the tasks that this one called. Written as `self`.
    ///
    /// `None` if other tasks ran at the same time.
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    pub own: Option<f64>,
    /// Whether other tasks ran at the same time, so that part of the energy is theirs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overlap: bool,
    /// Joules by meter. The key is the meter's source and name, such as `rapl:package-0`.
    pub meters: BTreeMap<String, f64>,
}

const NOT_MEASURED: &str = "energy was not measured";

impl TaskObject {
    /// Returns the energy that was used while the task ran.
    ///
    /// # Errors
    ///
    /// Returns the reason if the energy is not known.
    pub fn joules(&self) -> Result<JoulesObject, &str> {
        read(self.resources.as_ref()).ok_or_else(|| {
            let reason = |field| self.unavailable.as_ref()?.get(field)?.as_str();
            let at_end =
                || self.telemetry_at_end.as_ref()?.get("unavailable")?.get("energy")?.as_str();
            reason("resources.joules").or_else(at_end).unwrap_or(NOT_MEASURED)
        })
    }
}

impl WorkflowObject {
    /// Returns the energy used from the start of the first measured task to the end of the last
    /// one.
    ///
    /// # Errors
    ///
    /// Returns the reason if the energy is not known.
    pub fn joules(&self) -> Result<JoulesObject, &str> {
        read(self.totals.as_ref()).ok_or_else(|| {
            let reason = || self.totals.as_ref()?.get("unavailable")?.get("joules")?.as_str();
            reason().unwrap_or(NOT_MEASURED)
        })
    }
}

fn read(figures: Option<&Map<String, Value>>) -> Option<JoulesObject> {
    let told = figures?.get("joules").filter(|told| told.get("inclusive").is_some())?;
    JoulesObject::deserialize(told).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_its_reason() {
        let task = |text: &str| serde_json::from_str::<TaskObject>(text).unwrap();
        let missing = task(
            r#"{"task_id": "t", "resources": {"cpu_ns": {}}, "unavailable": {"resources.joules": "it was read once"}}"#,
        );
        assert_eq!(missing.joules(), Err("it was read once"));
        let without = task(
            r#"{"task_id": "t", "telemetry_at_end": {"unavailable": {"energy": "there is no meter"}}}"#,
        );
        assert_eq!(without.joules(), Err("there is no meter"));
        let foreign = task(r#"{"task_id": "t", "resources": {"joules": 7}}"#);
        assert_eq!(foreign.joules(), Err(NOT_MEASURED));
    }
}
