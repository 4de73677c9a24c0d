//! One emitted record.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What was emitted, key for key as cloudmesh writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Emitted {
    /// Local time without a zone: `2026-11-15T23:53:42.793393`.
    #[serde(default)]
    pub timestamp: String,
    /// The program or command.
    #[serde(default)]
    pub command: String,
    /// `started`, `completed`, `failed`, or any other word.
    #[serde(default)]
    pub status: String,
    /// Values by name. A milestone has its name under `event`.
    #[serde(default)]
    pub metrics: Map<String, Value>,
    /// The machine and the user.
    #[serde(default)]
    pub system: System,
    /// A sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where a record was emitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct System {
    /// The model of the processor.
    pub cpu: Option<String>,
    /// Whether there is a graphics processor.
    pub gpu_present: Option<bool>,
    /// The model of the first graphics processor.
    pub gpu_model: Option<String>,
    /// Bytes of memory.
    pub memory_total: Option<u64>,
    /// Who runs the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What else was said.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Emitted {
    /// Values that can be compared, by name. Cloudmesh itself writes a single metric as its name under `metric` and its value
    /// under `value`.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        let named = self.metrics.get("metric").and_then(Value::as_str);
        let value = self.metrics.get("value").and_then(Value::as_f64);
        let pair = named.zip(value);
        let is_pair = pair.is_some();
        let others = self.metrics.iter().filter(move |(name, _)| !is_pair || *name != "value");
        let others = others.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
        pair.into_iter().chain(others)
    }
}
