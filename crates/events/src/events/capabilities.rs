//! `metadata.memory_capabilities`: which counters a collector supports. Required in schema 4.

use serde_json::{Map, Value, json};

use super::event::TelemetryEvent;
use super::invalid::{Invalid, Reason};
use super::python;

pub(super) const KEY: &str = "memory_capabilities";

const TEXTS: [&str; 3] = ["backend", "telemetry_collector", "sampling_source"];

const FLAGS: [&str; 11] = [
    "supports_allocator_allocated",
    "supports_allocator_reserved",
    "supports_allocator_active",
    "supports_allocator_inactive",
    "supports_device_used",
    "supports_device_free",
    "supports_device_total",
    "supports_native_allocator_history",
    "supports_fragmentation_analysis",
    "supports_allocator_attribution",
    "supports_bounded_profiling",
];

/// Backends that are recognised by their name within the collector's name.
const BACKENDS: [&str; 6] = ["cuda", "rocm", "mps", "cpu", "tensorflow", "jax"];

/// Returns each counter, whether the event has it, and the capability that it requires.
fn counters(event: &TelemetryEvent) -> [(&'static str, bool, &'static str); 8] {
    [
        ("allocator_allocated_bytes", event.allocator_allocated_bytes.is_some(), FLAGS[0]),
        ("allocator_reserved_bytes", event.allocator_reserved_bytes.is_some(), FLAGS[1]),
        ("allocator_active_bytes", event.allocator_active_bytes.is_some(), FLAGS[2]),
        ("allocator_inactive_bytes", event.allocator_inactive_bytes.is_some(), FLAGS[3]),
        ("device_used_bytes", event.device_used_bytes.is_some(), FLAGS[4]),
        ("device_free_bytes", event.device_free_bytes.is_some(), FLAGS[5]),
        ("device_total_bytes", event.device_total_bytes.is_some(), FLAGS[6]),
        ("allocator_change_bytes", event.allocator_change_bytes.is_some(), FLAGS[0]),
    ]
}

/// Infers the capabilities of the collector from the counters of one event.
pub(super) fn inferred(event: &TelemetryEvent) -> Value {
    let said = event.metadata.get("backend").and_then(Value::as_str);
    let collector = event.collector.to_lowercase();
    let backend = said.filter(|name| !python::is_blank(name)).unwrap_or_else(|| {
        BACKENDS.into_iter().find(|name| collector.contains(name)).unwrap_or("unknown")
    });
    let source = event.metadata.get("sampling_source").map_or("legacy".to_owned(), python::str);
    let both =
        event.allocator_allocated_bytes.is_some() && event.allocator_reserved_bytes.is_some();
    let mut capabilities = Map::new();
    for (name, text) in TEXTS.into_iter().zip([backend, &event.collector, &source]) {
        capabilities.insert(name.to_owned(), json!(text));
    }
    for (_, is_known, name) in &counters(event)[..7] {
        capabilities.insert((*name).to_owned(), json!(is_known));
    }
    for (name, is) in FLAGS[7..].iter().zip([false, both, both, false]) {
        capabilities.insert((*name).to_owned(), json!(is));
    }
    capabilities.into()
}

/// Validates the capabilities, and that the event has no counter that they rule out.
pub(super) fn check(event: &TelemetryEvent, capabilities: &Value) -> Result<(), Invalid> {
    const FIELD: &str = "metadata.memory_capabilities";
    let Some(capabilities) = capabilities.as_object() else {
        return Err(Invalid::new(FIELD, Reason::NotAnObject));
    };
    let names = || TEXTS.into_iter().chain(FLAGS);
    let missing: Vec<_> = names().filter(|name| !capabilities.contains_key(*name)).collect();
    if !missing.is_empty() {
        return Err(Invalid::new(FIELD, Reason::Missing(missing)));
    }
    let is_unknown = |name: &&String| !names().any(|known| known == *name);
    let mut unknown: Vec<String> = capabilities.keys().filter(is_unknown).cloned().collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        return Err(Invalid::new(FIELD, Reason::Unknown(unknown)));
    }
    for name in TEXTS {
        let field = || format!("{FIELD}.{name}");
        match &capabilities[name] {
            Value::Null => return Err(Invalid::new(field(), Reason::Blank)),
            Value::String(text) if python::is_blank(text) => {
                return Err(Invalid::new(field(), Reason::Blank));
            }
            Value::String(_) => {}
            _ => return Err(Invalid::new(field(), Reason::NotAString)),
        }
    }
    for name in FLAGS {
        if !capabilities[name].is_boolean() {
            return Err(Invalid::new(format!("{FIELD}.{name}"), Reason::NotABoolean));
        }
    }
    for (counter, is_known, capability) in counters(event) {
        if is_known && capabilities[capability] == false {
            return Err(Invalid::new(counter, Reason::MustBeNull(capability)));
        }
    }
    Ok(())
}
