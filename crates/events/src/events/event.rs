//! The telemetry event, independent of the schema that it was read from.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::capabilities;
use super::identity::{Identity, check_ranks};
use super::invalid::{Invalid, Reason};
use super::python::is_blank;
use super::shared::{Metadata, Text};

/// One observation of a collector: the memory of an allocator and of its device at one moment.
///
/// The fields have the names and the order of the schema. A counter is `None` if the collector
/// cannot know it. Only schema 4 allows that for every counter.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryEvent {
    /// The id of the session that the event belongs to.
    pub session_id: Text,
    /// Unix nanoseconds.
    pub timestamp_ns: u64,
    /// The kind of event: `sample`, `start`, `stop`, `peak`, `allocation`, `warning` and the like.
    /// Any word is allowed.
    pub event_type: Text,
    /// The name of the collector.
    pub collector: Text,
    /// The time between two samples. 0 if the collector does not sample.
    pub sampling_interval_ms: u64,
    /// The process id. -1 if unknown.
    pub pid: i64,
    /// The host name.
    pub host: Text,
    /// The id of the job that the process is part of.
    pub job_id: Option<Text>,
    /// The rank of the process in its job.
    pub rank: u64,
    /// The rank of the process on its machine.
    pub local_rank: u64,
    /// The number of processes in the job.
    pub world_size: u64,
    /// The index of the device. -1 is the CPU.
    pub device_id: i64,
    /// Bytes that the allocator has handed out.
    pub allocator_allocated_bytes: Option<u64>,
    /// Bytes that the allocator has reserved from the device.
    pub allocator_reserved_bytes: Option<u64>,
    /// Reserved bytes that are in use.
    pub allocator_active_bytes: Option<u64>,
    /// Reserved bytes that are not in use but cannot be returned to the device.
    pub allocator_inactive_bytes: Option<u64>,
    /// The change since the previous event, in bytes.
    pub allocator_change_bytes: Option<i64>,
    /// Bytes of the device's memory that are in use.
    pub device_used_bytes: Option<u64>,
    /// Bytes of the device's memory that are free.
    pub device_free_bytes: Option<u64>,
    /// The size of the device's memory in bytes.
    pub device_total_bytes: Option<u64>,
    /// A description in free text.
    pub context: Option<Text>,
    /// Everything else.
    pub metadata: Metadata,
}

/// A sample without counters, of an unknown process. Set the session before you write it: its id is
/// empty.
impl Default for TelemetryEvent {
    fn default() -> Self {
        Self {
            session_id: Text::default(),
            timestamp_ns: 0,
            event_type: "sample".into(),
            collector: "runlore".into(),
            sampling_interval_ms: 0,
            pid: -1,
            host: "unknown".into(),
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            device_id: -1,
            allocator_allocated_bytes: None,
            allocator_reserved_bytes: None,
            allocator_active_bytes: None,
            allocator_inactive_bytes: None,
            allocator_change_bytes: None,
            device_used_bytes: None,
            device_free_bytes: None,
            device_total_bytes: None,
            context: None,
            metadata: Metadata::default(),
        }
    }
}

/// A version of the record format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Schema {
    /// Has no sessions.
    V2 = 2,
    /// Has sessions. Every reader since Stormlog 0.3 understands it.
    #[default]
    V3 = 3,
    /// Allows unknown counters, and requires `metadata.memory_capabilities`.
    V4 = 4,
}

impl Schema {
    /// Returns the schema with this number. `None` unless it is 2, 3 or 4.
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::V2, Self::V3, Self::V4].into_iter().find(|schema| schema.number() == number)
    }

    /// Returns the number of the schema: 2, 3 or 4.
    pub fn number(self) -> i64 {
        i64::from(self as u8)
    }
}

/// The form in which to write an event: a [`Schema`], and whether values that it cannot express may
/// be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Target {
    /// The schema.
    pub schema: Schema,
    /// Whether unknown counters become 0 in schema 2 and 3. The event's `memory_capabilities` are
    /// then removed, because they would contradict the zeros.
    pub lossy: bool,
}

impl Target {
    /// Returns the target with `lossy` set.
    #[must_use]
    pub fn lossy(self) -> Self {
        Self { lossy: true, ..self }
    }
}

impl From<Schema> for Target {
    fn from(schema: Schema) -> Self {
        Self { schema, lossy: false }
    }
}

impl TelemetryEvent {
    /// Returns the position of the process in its job.
    pub fn identity(&self) -> Identity {
        Identity {
            job_id: self.job_id.as_deref().map(str::to_owned),
            rank: self.rank,
            local_rank: self.local_rank,
            world_size: self.world_size,
        }
    }

    /// Checks what the types cannot guarantee: names are not blank, ranks are below the size of the
    /// job, and the device has no more used or free bytes than it has in total.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self) -> Result<(), Invalid> {
        if is_blank(&self.session_id) {
            return Err(Invalid::new("session_id", Reason::Blank));
        }
        self.check_beside_session()
    }

    /// Does the checks of [`check`](Self::check) except the one of the session id.
    pub(super) fn check_beside_session(&self) -> Result<(), Invalid> {
        let texts = [
            ("event_type", &self.event_type),
            ("collector", &self.collector),
            ("host", &self.host),
        ];
        if let Some((field, _)) = texts.into_iter().find(|(_, text)| is_blank(text)) {
            return Err(Invalid::new(field, Reason::Blank));
        }
        if self.pid < -1 {
            return Err(Invalid::new("pid", Reason::Below(-1)));
        }
        if self.job_id.as_deref().is_some_and(is_blank) {
            return Err(Invalid::new("job_id", Reason::Blank));
        }
        if self.world_size == 0 {
            return Err(Invalid::new("world_size", Reason::Below(1)));
        }
        let device = [
            ("device_used_bytes", self.device_used_bytes),
            ("device_free_bytes", self.device_free_bytes),
        ];
        for (field, bytes) in device {
            if let (Some(bytes), Some(total)) = (bytes, self.device_total_bytes)
                && bytes > total
            {
                return Err(Invalid::new(field, Reason::OverTotal));
            }
        }
        check_ranks(self.rank, self.local_rank, self.world_size)
    }

    /// Converts the event to a record.
    ///
    /// Schema 2 has no field for the session. There, the session id goes into the metadata, where
    /// readers look for it. Ids that were generated for records without a session are left out.
    ///
    /// ```
    /// use runlore::events::{Schema, Target, TelemetryEvent};
    ///
    /// let event = TelemetryEvent { session_id: "s".into(), ..TelemetryEvent::default() };
    /// assert_eq!(event.to_record(Schema::V4)?["device_used_bytes"], serde_json::Value::Null);
    ///
    /// let refused = event.to_record(Schema::V3).unwrap_err();
    /// assert_eq!(refused.field(), "allocator_allocated_bytes");
    /// let lossy = event.to_record(Target::from(Schema::V3).lossy())?;
    /// assert_eq!(lossy["device_used_bytes"], 0);
    /// # Ok::<(), runlore::events::Invalid>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the event is not valid, or the schema cannot express it.
    pub fn to_record(&self, target: impl Into<Target>) -> Result<Value, Invalid> {
        // Serialising an event to JSON cannot fail.
        Ok(serde_json::to_value(self.as_target(target.into())?).unwrap_or_default())
    }

    /// Checks the event and wraps it so that it serialises in the order of the schema.
    pub(super) fn as_target(&self, target: Target) -> Result<InTarget<'_>, Invalid> {
        self.check()?;
        let mut metadata = self.metadata.clone();
        if target.schema == Schema::V4 {
            if let Some(said) = self.metadata.get(capabilities::KEY) {
                capabilities::check(self, said)?;
            } else {
                let inferred = capabilities::inferred(self);
                capabilities::check(self, &inferred)?;
                metadata.insert(capabilities::KEY.to_owned(), inferred);
            }
        } else if let Some(field) = self.unknown_counter() {
            if !target.lossy {
                return Err(Invalid::new(field, Reason::MustNotBeNull));
            }
            metadata.remove(capabilities::KEY);
        }
        if target.schema == Schema::V2
            && !self.session_id.starts_with(super::session_id::MADE_UP)
            && self.metadata.get("session_id").and_then(Value::as_str) != Some(&*self.session_id)
        {
            metadata.insert("session_id".to_owned(), (*self.session_id).into());
        }
        Ok(InTarget { event: self, schema: target.schema, metadata })
    }

    /// Returns the first unknown counter that schema 2 and 3 require.
    pub(super) fn unknown_counter(&self) -> Option<&'static str> {
        if self.allocator_allocated_bytes.is_none() {
            Some("allocator_allocated_bytes")
        } else if self.allocator_reserved_bytes.is_none() {
            Some("allocator_reserved_bytes")
        } else if self.allocator_change_bytes.is_none() {
            Some("allocator_change_bytes")
        } else if self.device_used_bytes.is_none() {
            Some("device_used_bytes")
        } else {
            None
        }
    }
}

/// An event that has been checked against a schema and is ready to be serialised.
pub(super) struct InTarget<'a> {
    event: &'a TelemetryEvent,
    schema: Schema,
    metadata: Metadata,
}

impl Serialize for InTarget<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.event;
        // Schema 2 and 3 require these four counters.
        let or_zero = |counter: Option<u64>| match self.schema {
            Schema::V4 => counter,
            _ => Some(counter.unwrap_or(0)),
        };
        let change = match self.schema {
            Schema::V4 => event.allocator_change_bytes,
            _ => Some(event.allocator_change_bytes.unwrap_or(0)),
        };
        let mut to = serializer.serialize_map(None)?;
        to.serialize_entry("schema_version", &self.schema.number())?;
        if self.schema != Schema::V2 {
            to.serialize_entry("session_id", &event.session_id)?;
        }
        to.serialize_entry("timestamp_ns", &event.timestamp_ns)?;
        to.serialize_entry("event_type", &event.event_type)?;
        to.serialize_entry("collector", &event.collector)?;
        to.serialize_entry("sampling_interval_ms", &event.sampling_interval_ms)?;
        to.serialize_entry("pid", &event.pid)?;
        to.serialize_entry("host", &event.host)?;
        to.serialize_entry("job_id", &event.job_id)?;
        to.serialize_entry("rank", &event.rank)?;
        to.serialize_entry("local_rank", &event.local_rank)?;
        to.serialize_entry("world_size", &event.world_size)?;
        to.serialize_entry("device_id", &event.device_id)?;
        to.serialize_entry("allocator_allocated_bytes", &or_zero(event.allocator_allocated_bytes))?;
        to.serialize_entry("allocator_reserved_bytes", &or_zero(event.allocator_reserved_bytes))?;
        to.serialize_entry("allocator_active_bytes", &event.allocator_active_bytes)?;
        to.serialize_entry("allocator_inactive_bytes", &event.allocator_inactive_bytes)?;
        to.serialize_entry("allocator_change_bytes", &change)?;
        to.serialize_entry("device_used_bytes", &or_zero(event.device_used_bytes))?;
        to.serialize_entry("device_free_bytes", &event.device_free_bytes)?;
        to.serialize_entry("device_total_bytes", &event.device_total_bytes)?;
        to.serialize_entry("context", &event.context)?;
        to.serialize_entry("metadata", &self.metadata)?;
        to.end()
    }
}
