//! Sessions: the events of one collector, from its start to its end.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::event::TelemetryEvent;
use super::python;
use runlore_core::{Error, ErrorKind, Result};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// The session ended normally.
    Completed,
    /// Its process died without ending it. A later writer or a reader found that out.
    Interrupted,
    /// It has no recorded end.
    Incomplete,
    /// It is running, or its process died and nobody has detected that yet.
    Running,
}

impl SessionStatus {
    /// Returns the name that sinks and exports use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Incomplete => "incomplete",
            Self::Running => "running",
        }
    }

    fn from_value(value: Option<&Value>) -> Result<Self> {
        let Some(word) = value.and_then(Value::as_str).filter(|word| !python::is_blank(word))
        else {
            return Err(wrong("session status must be a non-empty string"));
        };
        let name = python::strip(word).to_lowercase();
        [Self::Completed, Self::Interrupted, Self::Incomplete, Self::Running]
            .into_iter()
            .find(|status| status.as_str() == name)
            .ok_or_else(|| wrong(format!("Unsupported session status: {word}")))
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Record, what.into())
}

/// A session as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionSummary {
    /// The id of the session.
    pub session_id: String,
    /// The state of the session.
    pub status: SessionStatus,
    /// The start, in Unix nanoseconds.
    pub started_at_ns: i64,
    /// The end, in Unix nanoseconds.
    pub ended_at_ns: Option<i64>,
    /// The host name.
    pub host: String,
    /// The process id. -1 if unknown.
    pub pid: i64,
    /// The id of the job that the process is part of.
    pub job_id: Option<String>,
    /// The rank of the process in its job.
    pub rank: u64,
    /// The rank of the process on its machine.
    pub local_rank: u64,
    /// The number of processes in the job.
    pub world_size: u64,
    /// The origin of the summary: the collector, or `artifact:` and a file name.
    pub source: String,
}

impl SessionSummary {
    /// Creates a running session that starts with this event.
    pub fn of(event: &TelemetryEvent) -> Self {
        let first = Inferred::new(event, &event.collector).first;
        Self { status: SessionStatus::Running, ..first }
    }

    /// Parses a summary in the form that sinks and exports contain.
    ///
    /// # Errors
    ///
    /// The first violation, in Stormlog's wording.
    pub fn from_value(value: &Value) -> Result<Self> {
        let Some(fields) = value.as_object() else {
            return Err(wrong("session summary payload must be an object"));
        };
        let text = |field: &str| {
            let text = fields.get(field).and_then(Value::as_str);
            text.filter(|text| !python::is_blank(text))
                .map(str::to_owned)
                .ok_or_else(|| wrong(format!("{field} must be a non-empty string")))
        };
        let session_id = text("session_id")?;
        let source = text("source")?;
        let status = SessionStatus::from_value(fields.get("status"))?;
        let started_at_ns = number(fields, "started_at_ns")?
            .ok_or_else(|| wrong("started_at_ns must be present"))?;
        let ended_at_ns = number(fields, "ended_at_ns")?;
        let host = text("host")?;
        let unsigned = |field: &str, default: u64| {
            let number = number(fields, field)?;
            number.map_or(Ok(default), |number| {
                u64::try_from(number).map_err(|_| wrong(format!("{field} must be >= 0")))
            })
        };
        Ok(Self {
            session_id,
            status,
            started_at_ns,
            ended_at_ns,
            host,
            pid: number(fields, "pid")?.unwrap_or(-1),
            job_id: fields.get("job_id").and_then(Value::as_str).map(str::to_owned),
            rank: unsigned("rank", 0)?,
            local_rank: unsigned("local_rank", 0)?,
            world_size: number(fields, "world_size")?.map_or(1, |size| size.max(1).unsigned_abs()),
            source,
        })
    }

    /// Sets the end to that of the last event, if the session was interrupted and has no end.
    pub(super) fn ended_by(mut self, last_ns: Option<i64>) -> Self {
        if self.status == SessionStatus::Interrupted && self.ended_at_ns.is_none() {
            self.ended_at_ns = last_ns;
        }
        self
    }

    /// Returns a sort key, the most relevant session first: completed sessions, then interrupted,
    /// incomplete and running ones. Among equals, the one that ended last comes first. A session
    /// without an end counts by its start.
    pub(super) fn preference(&self) -> impl Ord + use<> {
        // Stormlog treats an end of 0 as missing.
        let end = self.ended_at_ns.filter(|end| *end != 0).unwrap_or(self.started_at_ns);
        (self.status, Reverse(end), Reverse(self.started_at_ns), self.session_id.clone())
    }
}

/// Parses a whole number, which may be written as a string or a float.
fn number(fields: &Map<String, Value>, field: &str) -> Result<Option<i64>> {
    let number = match fields.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => {
            python::int(text).and_then(|number| i64::try_from(number).ok())
        }
        Some(Value::Number(number)) => number.as_i64().or_else(|| {
            let whole = number.as_f64().filter(|float| float.abs() < 9.2e18)?;
            Some(whole as i64)
        }),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| wrong(format!("{field} must be an integer")))
}

/// Infers a session summary from the events of the session, in constant memory.
#[derive(Debug, Clone)]
pub(super) struct Inferred {
    first: SessionSummary,
    last_stop: Option<i64>,
    last: i64,
}

impl Inferred {
    pub(super) fn new(event: &TelemetryEvent, source: &str) -> Self {
        let first = SessionSummary {
            session_id: event.session_id.to_string(),
            status: SessionStatus::Incomplete,
            started_at_ns: time(event),
            ended_at_ns: None,
            host: event.host.to_string(),
            pid: event.pid,
            job_id: event.job_id.as_deref().map(str::to_owned),
            rank: event.rank,
            local_rank: event.local_rank,
            world_size: event.world_size,
            source: source.to_owned(),
        };
        let mut inferred = Self { first, last_stop: None, last: time(event) };
        inferred.add(event);
        inferred
    }

    pub(super) fn add(&mut self, event: &TelemetryEvent) {
        let now = time(event);
        self.last = self.last.max(now);
        if now < self.first.started_at_ns {
            let source = std::mem::take(&mut self.first.source);
            let (last_stop, last) = (self.last_stop, self.last);
            *self = Self::new(event, &source);
            self.last_stop = self.last_stop.max(last_stop);
            self.last = last;
        } else if event.event_type == "stop" {
            self.last_stop = self.last_stop.max(Some(now));
        }
    }

    /// Returns the time of the latest event.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    pub(super) fn summary(&self) -> SessionSummary {
        let mut summary = self.first.clone();
        if self.last_stop.is_some() {
            summary.status = SessionStatus::Completed;
            summary.ended_at_ns = self.last_stop;
        }
        summary
    }
}

/// Returns the time of an event as an `i64`. Times beyond `i64::MAX` are clamped; no clock reaches
/// them.
fn time(event: &TelemetryEvent) -> i64 {
    i64::try_from(event.timestamp_ns).unwrap_or(i64::MAX)
}
