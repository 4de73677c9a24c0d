//! The fast path from text to event, for ordinary records.
//!
//! It accepts versioned records in which each field occurs once and has the right type. For these,
//! it returns the same event as [`parse`](super::record::parse). It leaves all other records to
//! that function, which reports what is wrong.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::capabilities;
use super::event::{Schema, TelemetryEvent};
use super::python::is_blank;
use super::shared::{Metadata, Text};
use super::text::is_huge;

/// A string that is copied only if it contains escapes.
#[derive(Deserialize, Default)]
#[serde(transparent)]
struct Words<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordinary<'a> {
    schema_version: u8,
    #[serde(default, borrow)]
    session_id: Words<'a>,
    timestamp_ns: u64,
    #[serde(borrow)]
    event_type: Words<'a>,
    #[serde(borrow)]
    collector: Words<'a>,
    sampling_interval_ms: u64,
    pid: i64,
    #[serde(borrow)]
    host: Words<'a>,
    #[serde(default, borrow)]
    job_id: Option<Words<'a>>,
    #[serde(default, deserialize_with = "given")]
    rank: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    local_rank: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    world_size: Option<u64>,
    device_id: i64,
    // `deserialize_with` makes these fields required, although they may be null.
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
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    context: Option<Words<'a>>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// The values of the previous record. Most records repeat them and then share them.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    session_id: Text,
    event_type: Text,
    collector: Text,
    host: Text,
    job_id: Text,
    context: Text,
    metadata: Metadata,
    metadata_text: String,
}

/// Longer strings are not cached.
const KEEP: usize = 64 * 1024;

/// The parser limits the nesting of a whole record, but here it parses the metadata alone. This
/// limit on brackets is far below the parser's, so both paths accept the same records.
const NESTED: usize = 64;

fn text(last: &mut Text, Words(text): Words<'_>) -> Text {
    if *last == *text {
        return last.clone();
    }
    let text = Text::from(&*text);
    if text.len() <= KEEP {
        *last = text.clone();
    }
    text
}

impl Repeated {
    fn metadata(&mut self, text: &str) -> Option<Metadata> {
        if text == self.metadata_text {
            return Some(self.metadata.clone());
        }
        if text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count() > NESTED {
            return None;
        }
        let map: Map<String, Value> = serde_json::from_str(text).ok()?;
        if map.values().any(is_huge) {
            return None;
        }
        let metadata = Metadata::from(map);
        if text.len() <= KEEP {
            self.metadata_text.clear();
            self.metadata_text.push_str(text);
            self.metadata = metadata.clone();
        }
        Some(metadata)
    }
}

/// Deserialises a rank, which must not be null if it is present.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(from).map(Some)
}

/// Parses an ordinary record. Its session is empty if the record names none. `None` if the record
/// needs the slow path.
pub(super) fn parse(record: &[u8], repeated: &mut Repeated) -> Option<(TelemetryEvent, Schema)> {
    // Validating the whole record at once is faster than string by string.
    let record = std::str::from_utf8(record).ok()?;
    let ordinary: Ordinary<'_> = serde_json::from_str(record).ok()?;
    let schema = Schema::from_number(ordinary.schema_version.into())?;
    let rank = ordinary.rank.unwrap_or(0);
    let event = TelemetryEvent {
        session_id: text(&mut repeated.session_id, ordinary.session_id),
        timestamp_ns: ordinary.timestamp_ns,
        event_type: text(&mut repeated.event_type, ordinary.event_type),
        collector: text(&mut repeated.collector, ordinary.collector),
        sampling_interval_ms: ordinary.sampling_interval_ms,
        pid: ordinary.pid,
        host: text(&mut repeated.host, ordinary.host),
        job_id: ordinary.job_id.map(|words| text(&mut repeated.job_id, words)),
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
        context: ordinary.context.map(|words| text(&mut repeated.context, words)),
        metadata: repeated.metadata(ordinary.metadata.get())?,
    };
    // The slow path handles blank session ids and session ids in the metadata.
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
    event.check_beside_session().is_ok().then_some((event, schema))
}
