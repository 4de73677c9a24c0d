//! Emitted records.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An emitted record, with exactly the keys that cloudmesh writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Emitted {
    /// Local time without a zone: `2026-11-15T23:53:42.793393`.
    #[serde(default)]
    pub timestamp: String,
    /// The name of the program or command.
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
    /// An optional message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The machine and the user of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct System {
    /// The model of the processor.
    pub cpu: Option<String>,
    /// Whether the machine has a GPU.
    pub gpu_present: Option<bool>,
    /// The model of the first GPU.
    pub gpu_model: Option<String>,
    /// The size of the memory in bytes.
    pub memory_total: Option<u64>,
    /// The user that runs the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Emitted {
    /// Iterates over the numeric metrics. Cloudmesh itself writes a single metric with its name in
    /// `metric` and its value in `value`.
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
