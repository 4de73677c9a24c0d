//! Converts records from before there was a schema.

use serde_json::{Map, Number, Value, json};

use super::event::{Schema, TelemetryEvent};
use super::fields::{IDENTITY, given, integer, optional_text, text};
use super::identity::Identity;
use super::invalid::{Invalid, Reason};
use super::python;
use super::record::{Options, versioned};
use super::session_id;

type Record = Map<String, Value>;

/// Parses a record without a version. The session is empty if the record names none.
pub(super) fn parse(record: &Record, options: &Options) -> Result<TelemetryEvent, Invalid> {
    let mut metadata = metadata(record)?;
    let timestamp = timestamp(record)?;
    let device = device(record)?;
    let allocated = allocated(record)?;
    let reserved = first(record, &["allocator_reserved_bytes", "memory_reserved"])?;
    let reserved = reserved.unwrap_or_else(|| allocated.clone());
    let change = first(record, &["allocator_change_bytes", "memory_change"])?;
    let active = optional(record, "allocator_active_bytes")?;
    let inactive = optional(record, "allocator_inactive_bytes")?;
    let used = first(record, &["device_used_bytes"])?.unwrap_or_else(|| allocated.clone());
    let total = total(record, &metadata)?;
    let free = free(record, &used, &total)?;
    let event_type = record.get("event_type").or_else(|| record.get("type"));
    let event_type =
        event_type.map_or(Ok("sample".to_owned()), |it| text(Some(it), "event_type"))?;
    let interval = first(record, &["sampling_interval_ms"])?;
    let interval = interval.unwrap_or_else(|| options.default_sampling_interval_ms.into());
    let either = |field: &str| record.get(field).or_else(|| metadata.get(field));
    let pid = match either("pid") {
        Some(pid) => whole(pid, "pid")?,
        None => json!(-1),
    };
    let host = either("host").map_or(Ok("unknown".to_owned()), |host| text(Some(host), "host"))?;
    let collector = collector(record, &metadata, &device, &options.default_collector);
    let identity = Identity::from_maps(record, &metadata, |_| None)?;
    for field in IDENTITY {
        metadata.remove(field);
    }
    let session = session_id::named(record, &metadata).unwrap_or_default();
    metadata.remove("session_id");
    let context = record.get("context").or_else(|| record.get("message"));
    let context = optional_text(context, "context")?;

    let today = json!({
        "schema_version": Schema::V3.number(),
        "timestamp_ns": timestamp,
        "event_type": event_type,
        "collector": collector,
        "sampling_interval_ms": interval,
        "pid": pid,
        "host": host,
        "device_id": device,
        "allocator_allocated_bytes": allocated,
        "allocator_reserved_bytes": reserved,
        "allocator_active_bytes": active,
        "allocator_inactive_bytes": inactive,
        "allocator_change_bytes": change.unwrap_or_else(|| json!(0)),
        "device_used_bytes": used,
        "device_free_bytes": free,
        "device_total_bytes": total,
        "context": context,
        "metadata": null,
    });
    let nothing = Record::new();
    let today = today.as_object().unwrap_or(&nothing);
    let mut event = versioned(today, Schema::V3, Some(session), Some(metadata))?;
    event.set_identity(identity);
    Ok(event)
}

/// Returns the metadata, including top-level fields with the prefix `metadata_`.
fn metadata(record: &Record) -> Result<Record, Invalid> {
    let mut metadata = match record.get("metadata") {
        None | Some(Value::Null) => Record::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(_) => return Err(Invalid::new("metadata", Reason::NotAnObjectWhenProvided)),
    };
    for (key, value) in record {
        if let Some(name) = key.strip_prefix("metadata_") {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    Ok(metadata)
}

/// Checks that a value is a whole number and returns it unchanged.
fn whole(value: &Value, field: &'static str) -> Result<Value, Invalid> {
    integer(Some(value), field).map(|_| value.clone())
}

/// Returns the first of these fields that is present.
fn first(record: &Record, fields: &[&'static str]) -> Result<Option<Value>, Invalid> {
    let found = fields.iter().find_map(|field| Some((record.get(*field)?, *field)));
    found.map(|(value, field)| whole(value, field)).transpose()
}

fn optional(record: &Record, field: &'static str) -> Result<Value, Invalid> {
    given(record, field).map_or(Ok(Value::Null), |value| whole(value, field))
}

/// Truncates a float to a whole number.
fn truncated(number: f64, field: &'static str) -> Result<Value, Invalid> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    let number = number.trunc();
    if number.abs() >= LIMIT || number < i64::MIN as f64 {
        return Err(Invalid::new(field, Reason::TooLarge));
    }
    Ok(if number < 0.0 { json!(number as i64) } else { json!(number as u64) })
}

fn timestamp(record: &Record) -> Result<Value, Invalid> {
    if let Some(timestamp) = record.get("timestamp_ns") {
        return whole(timestamp, "timestamp_ns");
    }
    let seconds = record.get("timestamp").and_then(Value::as_number).and_then(Number::as_f64);
    match seconds {
        Some(seconds) => truncated(seconds * 1e9, "timestamp"),
        None => Err(Invalid::new("timestamp", Reason::NoTimestamp)),
    }
}

fn device(record: &Record) -> Result<Value, Invalid> {
    if let Some(device) = record.get("device_id") {
        return whole(device, "device_id");
    }
    if let Some(device) = record.get("device").and_then(Value::as_str) {
        let lower = device.to_lowercase();
        if lower.contains("cpu") {
            return Ok(json!(-1));
        }
        let tail = device.rsplit_once(':').map_or("", |(_, tail)| tail);
        let is_number = tail.chars().all(char::is_numeric);
        if let Some(number) = python::int(tail).filter(|_| is_number) {
            let number = i64::try_from(number);
            return number.map(Value::from).map_err(|_| Invalid::new("device", Reason::TooLarge));
        }
        if lower.starts_with("/gpu") {
            return Ok(json!(0));
        }
    }
    Ok(json!(if record.contains_key("memory_mb") { 0 } else { -1 }))
}

fn allocated(record: &Record) -> Result<Value, Invalid> {
    if let Some(bytes) = first(record, &["allocator_allocated_bytes", "memory_allocated"])? {
        return Ok(bytes);
    }
    let mebibytes = record.get("memory_mb").and_then(Value::as_number).and_then(Number::as_f64);
    if let Some(mebibytes) = mebibytes {
        return truncated(mebibytes * 1_048_576.0, "memory_mb");
    }
    Ok(first(record, &["device_used_bytes"])?.unwrap_or_else(|| json!(0)))
}

/// Returns the device's total memory from the first field that is present. A null there means
/// unknown.
fn total(record: &Record, metadata: &Record) -> Result<Value, Invalid> {
    const OLD: [&str; 3] = ["total_memory", "device_total", "total_bytes"];
    let here = ["device_total_bytes"].into_iter().chain(OLD).map(|field| (record, field));
    let there = OLD.into_iter().map(|field| (metadata, field));
    match here.chain(there).find_map(|(from, field)| Some((from.get(field)?, field))) {
        None | Some((Value::Null, _)) => Ok(Value::Null),
        Some((value, field)) => whole(value, field),
    }
}

fn free(record: &Record, used: &Value, total: &Value) -> Result<Value, Invalid> {
    const FIELD: &str = "device_free_bytes";
    if record.contains_key(FIELD) {
        return optional(record, FIELD);
    }
    if total.is_null() {
        return Ok(Value::Null);
    }
    let free = integer(Some(total), FIELD)? - integer(Some(used), FIELD)?;
    let free = u64::try_from(free.max(0));
    free.map(Value::from).map_err(|_| Invalid::new(FIELD, Reason::TooLarge))
}

fn collector(record: &Record, metadata: &Record, device: &Value, default: &str) -> String {
    let said = record.get("collector").and_then(Value::as_str);
    if let Some(collector) = said.filter(|name| !python::is_blank(name)) {
        return collector.to_owned();
    }
    let backend = record.get("backend").or_else(|| metadata.get("backend"));
    let backend = backend.and_then(Value::as_str).map(|name| python::strip(name).to_lowercase());
    if let Some(backend @ ("mps" | "rocm" | "cuda" | "cpu")) = backend.as_deref() {
        return format!("stormlog.{backend}_tracker");
    }
    if record.contains_key("memory_mb") {
        "stormlog.tensorflow.memory_tracker".to_owned()
    } else if record.contains_key("memory_allocated") {
        let kind = if device == &json!(-1) { "cpu" } else { "cuda" };
        format!("stormlog.{kind}_tracker")
    } else {
        default.to_owned()
    }
}
