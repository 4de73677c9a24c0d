//! Parses records into events: schema 2, 3 and 4, and records from before there was a schema.

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

/// How to complete records that lack fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Whether to convert records without a version. Otherwise they are errors.
    pub legacy: bool,
    /// The collector of a record without a version, if nothing in the record determines it.
    pub default_collector: String,
    /// The sampling interval of a record without a version, if it has none.
    pub default_sampling_interval_ms: u64,
    /// The session of a record that names none. If `None`, an id is generated.
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
    /// Rejects records without a version.
    #[must_use]
    pub fn without_legacy(self) -> Self {
        Self { legacy: false, ..self }
    }

    /// Sets the session of records that name none.
    #[must_use]
    pub fn session(self, id: impl Into<String>) -> Self {
        Self { default_session_id: Some(id.into()), ..self }
    }
}

impl TelemetryEvent {
    /// Parses a record.
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
    /// The first violation, in Stormlog's order and wording.
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

/// Validates a record of schema 2, 3 or 4 without filling in anything.
///
/// # Errors
///
/// The first violation, in Stormlog's order and wording.
pub fn validate(record: &Value) -> Result<(), Invalid> {
    let record = object(record)?;
    let schema = schema_of(record)?;
    let metadata = record.get("metadata").and_then(Value::as_object);
    versioned(record, schema, None, metadata.cloned()).map(drop)
}

/// Parses a record. The session is empty if the record names none.
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
    // Errors in the identity are reported before those in other fields, as Stormlog does.
    Identity::from_maps(record, &nothing, |_| None)?;
    let session = session_id::named(record, metadata).unwrap_or_default();
    let metadata = record.get("metadata").map(|_| metadata.clone());
    versioned(record, schema, Some(session), metadata)
}

/// Returns the schema of a record that was parsed as an event. Schema 3 for a record without a
/// version.
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

/// Parses a record of a schema, checking fields in Stormlog's order. `session` is the session that
/// the record belongs to; without it, the record must name its session itself. `metadata` is the
/// record's metadata, or `None` if that is not an object.
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

/// Checks that no required field is missing and no field is unknown. If the session is known from
/// elsewhere, `session_id` is optional, in schema 2 too.
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

/// Checks the types of the identity fields. A rank may be absent, but must not be null.
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
