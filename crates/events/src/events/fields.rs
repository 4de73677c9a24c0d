//! The field names in the order of the schema, and checks of field types.

use serde_json::{Map, Value};

use super::invalid::{Invalid, Reason};
use super::python::is_blank;

/// The fields that every record of schema 3 and 4 has. Schema 2 has no `session_id`.
pub(super) const REQUIRED: [&str; 19] = [
    "schema_version",
    "session_id",
    "timestamp_ns",
    "event_type",
    "collector",
    "sampling_interval_ms",
    "pid",
    "host",
    "device_id",
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "allocator_active_bytes",
    "allocator_inactive_bytes",
    "allocator_change_bytes",
    "device_used_bytes",
    "device_free_bytes",
    "device_total_bytes",
    "context",
    "metadata",
];

/// Optional fields: the position of the process in its job.
pub(super) const IDENTITY: [&str; 4] = ["job_id", "rank", "local_rank", "world_size"];

/// Returns a field. `None` if it is absent or null.
pub(super) fn given<'a>(record: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    record.get(field).filter(|value| !value.is_null())
}

/// Parses a whole number. An absent or null field is an error.
pub(super) fn integer(value: Option<&Value>, field: &'static str) -> Result<i128, Invalid> {
    let Some(Value::Number(number)) = value else {
        return Err(Invalid::new(field, Reason::NotAnInteger));
    };
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(number), ..) => Ok(number.into()),
        (_, Some(number), _) => Ok(number.into()),
        // The JSON parser turns whole numbers of more than 64 bits into floats.
        (.., Some(float)) if float.abs() >= 9_223_372_036_854_775_808.0 => {
            Err(Invalid::new(field, Reason::TooLarge))
        }
        _ => Err(Invalid::new(field, Reason::NotAnInteger)),
    }
}

pub(super) fn signed(number: i128, field: &'static str) -> Result<i64, Invalid> {
    i64::try_from(number).map_err(|_| Invalid::new(field, Reason::TooLarge))
}

pub(super) fn unsigned(number: i128, field: &'static str, below: Reason) -> Result<u64, Invalid> {
    if number < 0 {
        return Err(Invalid::new(field, below));
    }
    u64::try_from(number).map_err(|_| Invalid::new(field, Reason::TooLarge))
}

/// Returns a string that is not blank.
pub(super) fn text(value: Option<&Value>, field: &'static str) -> Result<String, Invalid> {
    match value {
        None | Some(Value::Null) => Err(Invalid::new(field, Reason::Blank)),
        Some(Value::String(text)) if is_blank(text) => Err(Invalid::new(field, Reason::Blank)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Invalid::new(field, Reason::NotAString)),
    }
}

/// Returns an optional string, which may be blank.
pub(super) fn optional_text(
    value: Option<&Value>,
    field: &'static str,
) -> Result<Option<String>, Invalid> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Invalid::new(field, Reason::NotAString)),
    }
}
