//! From a record to an event: schema 2, 3 and 4, and what was written before there was one.

use serde_json::{Map, Value};

use super::capabilities;
use super::event::{Schema, TelemetryEvent};
use super::fields::{IDENTITY, REQUIRED, integer, optional_text, signed, text, unsigned};
use super::identity::{Identity, at_least_one};
use super::invalid::{Invalid, Reason};
use super::legacy;
use super::python::is_blank;
use super::session_id;
use super::shared::Text;

/// What to make of records that leave something out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Whether records without a version are converted; otherwise they are errors.
    pub legacy: bool,
    /// The collector of such a record, where nothing tells it.
    pub default_collector: String,
    /// The sampling interval of such a record, where it has none.
    pub default_sampling_interval_ms: u64,
    /// The session of a record that names none; otherwise an id is made up.
    pub default_session_id: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            legacy: true,
            default_collector: "legacy.unknown".to_owned(),
            default_sampling_interval_ms: 0,
            default_session_id: None,
        }
    }
}

impl Options {
    /// Records must have a version.
    #[must_use]
    pub fn without_legacy(self) -> Self {
        Self { legacy: false, ..self }
    }

    /// The session of records that name none.
    #[must_use]
    pub fn session(self, id: impl Into<String>) -> Self {
        Self { default_session_id: Some(id.into()), ..self }
    }
}

impl TelemetryEvent {
    /// The event that a record tells.
    ///
    /// ```
    /// use runlore::events::{Options, TelemetryEvent};
    /// use serde_json::json;
    ///
    /// let old = json!({"timestamp": 1709480430.5, "memory_allocated": 1024, "device": "cuda:1"});
    /// let event = TelemetryEvent::from_record(&old, &Options::default())?;
    /// assert_eq!(event.timestamp_ns, 1_709_480_430_500_000_000);
    /// assert_eq!((event.device_id, event.allocator_allocated_bytes), (1, Some(1024)));
    ///
    /// let strict = Options::default().without_legacy();
    /// assert!(TelemetryEvent::from_record(&old, &strict).is_err());
    /// # Ok::<(), runlore::events::Invalid>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, in Stormlog's order and words.
    pub fn from_record(record: &Value, options: &Options) -> Result<Self, Invalid> {
        let mut event = parse(record, options)?;
        if event.session_id.is_empty() {
            event.session_id = match &options.default_session_id {
                Some(id) if is_blank(id) => return Err(Invalid::new("session_id", Reason::Blank)),
                Some(id) => (**id).into(),
                None => record.as_object().map(session_id::of_record).unwrap_or_default().into(),
            };
        }
        Ok(event)
    }
}

/// Checks a record of schema 2, 3 or 4, with nothing filled in.
///
/// # Errors
///
/// The first thing that is wrong, in Stormlog's order and words.
pub fn validate(record: &Value) -> Result<(), Invalid> {
    let record = object(record)?;
    let schema = schema_of(record)?;
    let metadata = record.get("metadata").and_then(Value::as_object);
    versioned(record, schema, None, metadata.cloned()).map(drop)
}

/// The event of a record; its session is empty where the record names none.
pub(super) fn parse(record: &Value, options: &Options) -> Result<TelemetryEvent, Invalid> {
    let record = object(record)?;
    if !record.contains_key("schema_version") {
        return match options.legacy {
            true => legacy::parse(record, options),
            false => Err(Invalid::new("schema_version", Reason::LegacyDisabled)),
        };
    }
    let schema = schema_of(record)?;
    let nothing = Map::new();
    let metadata = match record.get("metadata") {
        None => &nothing,
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err(Invalid::new("metadata", Reason::NotAnObject)),
    };
    // Before the fields are looked at: what is wrong with the identity comes first.
    Identity::from_maps(record, &nothing, |_| None)?;
    let session = session_id::named(record, metadata).unwrap_or_default();
    let metadata = record.get("metadata").map(|_| metadata.clone());
    versioned(record, schema, Some(session), metadata)
}

/// The schema of a record that is an event. A record without a version is read as schema 3.
pub(super) fn schema(record: &Value) -> Schema {
    record.as_object().and_then(|record| schema_of(record).ok()).unwrap_or_default()
}

fn object(record: &Value) -> Result<&Map<String, Value>, Invalid> {
    record.as_object().ok_or_else(|| Invalid::new("", Reason::NotARecord))
}

fn schema_of(record: &Map<String, Value>) -> Result<Schema, Invalid> {
    let number = integer(record.get("schema_version"), "schema_version")?;
    let number = signed(number, "schema_version")?;
    Schema::from_number(number)
        .ok_or_else(|| Invalid::new("schema_version", Reason::UnsupportedVersion(number)))
}

/// A record of a schema, checked in Stormlog's order. `session` is what it is taken to belong to; without it the record must
/// say it itself. `metadata` is the record's, if it is an object.
pub(super) fn versioned(
    record: &Map<String, Value>,
    schema: Schema,
    session: Option<String>,
    metadata: Option<Map<String, Value>>,
) -> Result<TelemetryEvent, Invalid> {
    let may_fill_in = session.is_some();
    check_names(record, schema, may_fill_in)?;
    let field = |name: &str| record.get(name);
    let session_id = match session {
        Some(session) => session,
        None if schema == Schema::V2 => String::new(),
        None => text(field("session_id"), "session_id")?,
    };
    let at_least_zero = |name| unsigned(integer(field(name), name)?, name, Reason::Below(0));
    let timestamp_ns = at_least_zero("timestamp_ns")?;
    let event_type = text(field("event_type"), "event_type")?;
    let collector = text(field("collector"), "collector")?;
    let sampling_interval_ms = at_least_zero("sampling_interval_ms")?;
    let pid = signed(integer(field("pid"), "pid")?, "pid")?;
    if pid < -1 {
        return Err(Invalid::new("pid", Reason::Below(-1)));
    }
    let host = text(field("host"), "host")?;
    check_identity_types(record)?;
    let device_id = signed(integer(field("device_id"), "device_id")?, "device_id")?;

    let counter = |name, may_be_null: bool| match field(name) {
        Some(Value::Null) if may_be_null => Ok(None),
        value => integer(value, name).map(Some),
    };
    let v4 = schema == Schema::V4;
    let allocated = counter("allocator_allocated_bytes", v4)?;
    let reserved = counter("allocator_reserved_bytes", v4)?;
    let active = counter("allocator_active_bytes", true)?;
    let inactive = counter("allocator_inactive_bytes", true)?;
    let change = counter("allocator_change_bytes", v4)?;
    let bytes = |number: Option<i128>, name, below: Reason| {
        number.map(|number| unsigned(number, name, below)).transpose()
    };
    let when_provided = Reason::BelowWhenProvided(0);
    let allocated = bytes(allocated, "allocator_allocated_bytes", Reason::Below(0))?;
    let reserved = bytes(reserved, "allocator_reserved_bytes", Reason::Below(0))?;
    let active = bytes(active, "allocator_active_bytes", when_provided.clone())?;
    let inactive = bytes(inactive, "allocator_inactive_bytes", when_provided.clone())?;
    let change = change.map(|change| signed(change, "allocator_change_bytes")).transpose()?;
    let used = counter("device_used_bytes", v4)?;
    let free = counter("device_free_bytes", true)?;
    let total = counter("device_total_bytes", true)?;
    let used = bytes(used, "device_used_bytes", Reason::Below(0))?;
    let free = bytes(free, "device_free_bytes", when_provided.clone())?;
    let total = bytes(total, "device_total_bytes", when_provided)?;
    for (name, bytes) in [("device_used_bytes", used), ("device_free_bytes", free)] {
        if bytes.zip(total).is_some_and(|(bytes, total)| bytes > total) {
            return Err(Invalid::new(name, Reason::OverTotal));
        }
    }
    let context = optional_text(field("context"), "context")?;
    let metadata = metadata.ok_or_else(|| Invalid::new("metadata", Reason::NotAnObject))?;
    let mut event = TelemetryEvent {
        session_id: session_id.into(),
        timestamp_ns,
        event_type: event_type.into(),
        collector: collector.into(),
        sampling_interval_ms,
        pid,
        host: host.into(),
        device_id,
        allocator_allocated_bytes: allocated,
        allocator_reserved_bytes: reserved,
        allocator_active_bytes: active,
        allocator_inactive_bytes: inactive,
        allocator_change_bytes: change,
        device_used_bytes: used,
        device_free_bytes: free,
        device_total_bytes: total,
        context: context.map(Text::from),
        metadata: metadata.into(),
        ..TelemetryEvent::default()
    };
    if v4 {
        let is_silent = !event.metadata.contains_key(capabilities::KEY);
        if is_silent && may_fill_in {
            let inferred = capabilities::inferred(&event);
            event.metadata.insert(capabilities::KEY.to_owned(), inferred);
        }
        let said = event.metadata.get(capabilities::KEY).unwrap_or(&Value::Null);
        capabilities::check(&event, said)?;
    }
    let identity = Identity::from_maps(record, &Map::new(), |_| None)?;
    event.set_identity(identity);
    Ok(event)
}

impl TelemetryEvent {
    pub(super) fn set_identity(&mut self, identity: Identity) {
        let Identity { job_id, rank, local_rank, world_size } = identity;
        (self.job_id, self.rank, self.local_rank) = (job_id.map(Text::from), rank, local_rank);
        self.world_size = world_size;
    }
}

/// Checks that all fields are there and none is unknown. A session that is known from elsewhere may be missing, and may
/// be there in schema 2.
fn check_names(
    record: &Map<String, Value>,
    schema: Schema,
    session_is_known: bool,
) -> Result<(), Invalid> {
    let is_needed =
        |name: &str| name != "session_id" || (schema != Schema::V2 && !session_is_known);
    let is_missing = |name: &&str| is_needed(name) && !record.contains_key(*name);
    let missing: Vec<_> = REQUIRED.into_iter().filter(is_missing).collect();
    if let Some(first) = missing.first() {
        return Err(Invalid::new(*first, Reason::Missing(missing)));
    }
    let is_unknown = |name: &&String| {
        let is_known = REQUIRED.contains(&name.as_str()) || IDENTITY.contains(&name.as_str());
        !is_known || (*name == "session_id" && schema == Schema::V2 && !session_is_known)
    };
    let mut unknown: Vec<String> = record.keys().filter(is_unknown).cloned().collect();
    unknown.sort_unstable();
    match unknown.first() {
        Some(first) => Err(Invalid::new(first.clone(), Reason::Unknown(unknown))),
        None => Ok(()),
    }
}

/// A rank that is null is an error, although it may be absent.
fn check_identity_types(record: &Map<String, Value>) -> Result<(), Invalid> {
    if record.get("job_id").is_some_and(|job| !job.is_null()) {
        text(record.get("job_id"), "job_id")?;
    }
    for name in ["rank", "local_rank"] {
        if let Some(value) = record.get(name) {
            unsigned(integer(Some(value), name)?, name, Reason::Below(0))?;
        }
    }
    if let Some(size) = record.get("world_size") {
        at_least_one(integer(Some(size), "world_size")?)?;
    }
    Ok(())
}
