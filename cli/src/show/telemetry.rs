//! Shows the machine before and after a task: values that changed, missing values, and the cost of
//! the captures.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::fact;
use crate::out::{BOLD, DIM};
use crate::table::{self, Cell};
use crate::units::{change, measured, nanoseconds};

/// The most useful values: path, name and unit.
const NUMBERS: [(&str, &str, &str); 22] = [
    ("/cpu/percent_all", "cpu", "%"),
    ("/cpu/frequency", "cpu frequency", "MHz"),
    ("/memory/virtual/used", "memory used", "B"),
    ("/memory/swap/used", "swap used", "B"),
    ("/container/memory/current", "container memory", "B"),
    ("/container/cpu/throttled_us", "container held back", "µs"),
    ("/process/cpu_percent", "process cpu", "%"),
    ("/process/cpu_times/user", "process user time", "s"),
    ("/process/cpu_times/system", "process system time", "s"),
    ("/process/memory/rss", "process memory", "B"),
    ("/process/io_counters/read_bytes", "process read from disks", "B"),
    ("/process/io_counters/write_bytes", "process written to disks", "B"),
    ("/process/io_counters/read_chars", "process read", "B"),
    ("/process/io_counters/write_chars", "process written", "B"),
    ("/process/num_threads", "process threads", ""),
    ("/process/num_open_file_descriptors", "process descriptors", ""),
    ("/disk/disk_usage/used", "disk used", "B"),
    ("/disk/io_sum/read_bytes", "disk read", "B"),
    ("/disk/io_sum/write_bytes", "disk written", "B"),
    ("/disk/io_sum/busy_time", "disk busy", "ms"),
    ("/network/netio_sum/bytes_recv", "network received", "B"),
    ("/network/netio_sum/bytes_sent", "network sent", "B"),
];

/// Parts of which only the values above are shown. Of other parts, all numbers are shown.
const KNOWN: [&str; 7] =
    ["cpu", "memory", "process", "disk", "network", "container", "unavailable"];

pub(super) fn write(
    out: &mut impl Write,
    before: Option<&Value>,
    after: Option<&Value>,
    capture: Option<&Value>,
) -> io::Result<()> {
    if before.is_none() && after.is_none() {
        return Ok(());
    }
    writeln!(out, "\n{BOLD}telemetry{BOLD:#}")?;
    let mut rows = Vec::new();
    for (path, name, unit) in NUMBERS {
        rows.extend(row(name, unit, at(before, path), at(after, path)));
    }
    for (path, name) in others(before, after) {
        rows.extend(row(&name, "", at(before, &path), at(after, &path)));
    }
    if rows.is_empty() {
        writeln!(out, "  {DIM}no number changed{DIM:#}")?;
    } else {
        table::write(out, &["  CHANGED", ">BEFORE", ">AFTER", ">CHANGE"], &rows)?;
    }
    for (reason, fields) in missing(before, after) {
        fact(out, "unknown", &format!("{}: {reason}", fields.join(", ")))?;
    }
    if let Some(Value::Object(capture)) = capture {
        fact(out, "cost", &cost(capture))?;
    }
    Ok(())
}

fn at<'a>(side: Option<&'a Value>, path: &str) -> Option<&'a Value> {
    side?.pointer(path)
}

/// Returns a row for a value that changed or is missing on one side. `None` if both sides are
/// equal.
fn row(name: &str, unit: &str, before: Option<&Value>, after: Option<&Value>) -> Option<Vec<Cell>> {
    if before == after {
        return None;
    }
    let told = |value: Option<&Value>| value.map(|value| measured(value, unit));
    let cell = |text: Option<String>| Cell::new(&text.unwrap_or_default());
    let change = before.zip(after).and_then(|(before, after)| {
        Some(match unit {
            // These are averages over different times, or levels. Their difference means nothing.
            "%" | "MHz" => return None,
            "B" => change(after.as_i64()?.checked_sub(before.as_i64()?)?),
            _ => {
                let difference = after.as_f64()? - before.as_f64()?;
                let sign = if difference < 0.0 { "-" } else { "+" };
                format!("{sign}{}", measured(&rounded(difference.abs()), unit))
            }
        })
    });
    Some(vec![Cell::new(&format!("  {name}")), cell(told(before)), cell(told(after)), cell(change)])
}

/// Rounds a difference to hide floating-point errors. Integers stay integers.
fn rounded(number: f64) -> Value {
    let number = (number * 1e6).round() / 1e6;
    if number.fract() == 0.0 { Value::from(number as u64) } else { Value::from(number) }
}

/// Returns the numbers in parts other than the known ones, by path, with their names.
fn others(before: Option<&Value>, after: Option<&Value>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for side in [before, after].into_iter().flatten().filter_map(Value::as_object) {
        for (part, value) in side.iter().filter(|(part, _)| !KNOWN.contains(&&***part)) {
            walk(value, &mut vec![part], &mut found);
        }
    }
    found
}

fn walk<'a>(value: &'a Value, path: &mut Vec<&'a str>, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(parts) => {
            for (name, value) in parts {
                path.push(name);
                walk(value, path, found);
                path.pop();
            }
        }
        Value::Number(_) => {
            let escaped = path.iter().map(|part| part.replace('~', "~0").replace('/', "~1"));
            let pointer = escaped.fold(String::new(), |all, part| all + "/" + &part);
            found.insert(pointer, path.join(" "));
        }
        _ => {}
    }
}

/// Returns the missing fields, grouped by reason.
fn missing(before: Option<&Value>, after: Option<&Value>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (side, when) in [(before, "before"), (after, "after")] {
        for (path, within) in [("/unavailable", ""), ("/container/unavailable", "container.")] {
            let reasons = side.and_then(|side| side.pointer(path)).and_then(Value::as_object);
            for (field, reason) in reasons.into_iter().flatten() {
                let fields = found.entry(super::plain(reason)).or_default();
                let field = format!("{within}{field}");
                match fields.iter_mut().find(|known| **known == format!("{field} before")) {
                    // The field is missing on both sides, so drop the word "before".
                    Some(known) => *known = field,
                    None => fields.push(format!("{field} {when}")),
                }
            }
        }
    }
    found
}

/// Describes the cost of a task's captures.
fn cost(capture: &Map<String, Value>) -> String {
    let number = |name: &str| capture.get(name).and_then(Value::as_u64);
    let parts = [("start_ns", "before"), ("end_ns", "after"), ("nested_ns", "for tasks inside")];
    let parts = parts.into_iter().filter_map(|(name, when)| {
        let cost = number(name).filter(|cost| *cost > 0 || name != "nested_ns")?;
        Some(format!("{} {when}", nanoseconds(cost)))
    });
    parts.collect::<Vec<_>>().join(", ")
}
