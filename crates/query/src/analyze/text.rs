//! Formats numbers for the sentences of findings.

use std::time::Duration;

use serde_json::Value;

use runlore_core::text::{human_bytes, human_duration, rounded};

/// Formats a number of bytes, which may be negative.
pub fn bytes(bytes: f64) -> String {
    let sign = if bytes <= -0.5 { "-" } else { "" };
    format!("{sign}{}", human_bytes(bytes.abs().round() as u64))
}

/// Formats a growth rate per second, minute or hour, so that the number is neither tiny nor huge.
pub fn bytes_a_second(slope: f64) -> String {
    match slope.abs() {
        1_048_576.0.. => format!("{} a second", bytes(slope)),
        17_476.0.. => format!("{} a minute", bytes(slope * 60.0)),
        _ => format!("{} an hour", bytes(slope * 3600.0)),
    }
}

/// Formats a ratio as a whole percentage.
pub fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

pub fn duration(nanoseconds: u64) -> String {
    human_duration(Duration::from_nanos(nanoseconds))
}

/// Formats a piece of evidence as a label and a value: `max_gap_bytes` becomes `max gap` and
/// `1.2 GiB`. The suffix of the name is the unit. `moment` formats timestamps, because only the
/// caller knows the time zone.
pub(super) fn evidence(
    name: &str,
    value: &Value,
    moment: &dyn Fn(u64) -> String,
) -> (String, String) {
    let words = |name: &str| name.replace('_', " ");
    if let Some(number) = value.as_f64() {
        let ends = ["_timestamp_ns", "_bytes_per_sec", "_bytes", "_ns", "_ratio", "_count"];
        let end = ends.into_iter().find(|end| name.ends_with(end)).unwrap_or_default();
        let sign = if number > 0.0 { "+" } else { "" };
        let text = match end {
            "_timestamp_ns" => moment(value.as_u64().unwrap_or_default()),
            "_bytes_per_sec" => format!("{sign}{}/s", bytes(number)),
            "_bytes" => bytes(number),
            "_ns" => duration(number.max(0.0) as u64),
            "_ratio" => format!("{:.1} %", number * 100.0),
            _ => rounded(number),
        };
        return (words(&name[..name.len() - end.len()]), text);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told = match value {
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        other => text(other),
    };
    (words(name), told)
}
