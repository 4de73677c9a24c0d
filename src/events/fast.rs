//! The short way from text to event, for records as they mostly are.
//!
//! It knows records of a schema whose fields are all of the right type, each there once. What it does not take, it leaves
//! to [`parse`](super::record::parse), which tells what is wrong; what it takes, it takes as that would.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::capabilities;
use super::event::{Schema, TelemetryEvent};
use super::python::is_blank;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordinary {
    schema_version: u8,
    #[serde(default)]
    session_id: String,
    timestamp_ns: u64,
    event_type: String,
    collector: String,
    sampling_interval_ms: u64,
    pid: i64,
    host: String,
    #[serde(default)]
    job_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    rank: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    local_rank: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    world_size: Option<u64>,
    device_id: i64,
    // Named functions, so that these must be there although they may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    allocator_allocated_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    allocator_reserved_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    allocator_active_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    allocator_inactive_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    allocator_change_bytes: Option<i64>,
    #[serde(deserialize_with = "Option::deserialize")]
    device_used_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    device_free_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    device_total_bytes: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    context: Option<String>,
    metadata: Map<String, Value>,
}

/// A rank that is there must not be null.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(from).map(Some)
}

/// The event of a record, if it is an ordinary one; its session is empty where the record names none.
pub(super) fn parse(record: &[u8]) -> Option<TelemetryEvent> {
    let ordinary: Ordinary = serde_json::from_slice(record).ok()?;
    let schema = Schema::from_number(ordinary.schema_version.into())?;
    let rank = ordinary.rank.unwrap_or(0);
    let mut event = TelemetryEvent {
        session_id: ordinary.session_id,
        timestamp_ns: ordinary.timestamp_ns,
        event_type: ordinary.event_type,
        collector: ordinary.collector,
        sampling_interval_ms: ordinary.sampling_interval_ms,
        pid: ordinary.pid,
        host: ordinary.host,
        job_id: ordinary.job_id,
        rank,
        local_rank: ordinary.local_rank.unwrap_or(rank),
        world_size: ordinary.world_size.unwrap_or(1),
        device_id: ordinary.device_id,
        allocator_allocated_bytes: ordinary.allocator_allocated_bytes,
        allocator_reserved_bytes: ordinary.allocator_reserved_bytes,
        allocator_active_bytes: ordinary.allocator_active_bytes,
        allocator_inactive_bytes: ordinary.allocator_inactive_bytes,
        allocator_change_bytes: ordinary.allocator_change_bytes,
        device_used_bytes: ordinary.device_used_bytes,
        device_free_bytes: ordinary.device_free_bytes,
        device_total_bytes: ordinary.device_total_bytes,
        context: ordinary.context,
        metadata: ordinary.metadata,
    };
    // A session in the metadata, and one that is blank, are for the long way.
    if is_blank(&event.session_id)
        && (schema != Schema::V2
            || !event.session_id.is_empty()
            || event.metadata.contains_key("session_id"))
    {
        return None;
    }
    if schema == Schema::V4 {
        capabilities::check(&event, event.metadata.get(capabilities::KEY)?).ok()?;
    } else if event.unknown_counter().is_some() {
        return None;
    }
    let session_is_open = event.session_id.is_empty();
    if session_is_open {
        event.session_id.push('?');
    }
    let is_fine = event.check().is_ok();
    if session_is_open {
        event.session_id.clear();
    }
    is_fine.then_some(event)
}
