//! Records that are being built.

use std::fmt::Display;

use jiff::Zoned;
use serde_json::{Map, Value};

use super::record::Emitted;
use super::system::system;
use super::telemetry::Telemetry;
use runlore_core::Result;
use runlore_core::record::redact::hidden;
use runlore_core::record::scrub;

/// A record that is written when it is dropped. Created by [`Telemetry::emit`], or by
/// [`AsyncTelemetry::emit`](super::AsyncTelemetry::emit) as a record that is queued instead.
#[derive(Debug)]
pub struct Emission<D: Destination = Telemetry> {
    to: D,
    record: Option<Unsent>,
}

/// Where records go: [`Telemetry`] or [`AsyncTelemetry`](super::AsyncTelemetry).
pub trait Destination: sealed::Destination {}

impl<D: sealed::Destination> Destination for D {}

pub(super) mod sealed {
    use super::Emitted;

    pub trait Destination {
        /// Returns the command of the records.
        fn name(&self) -> &str;
        /// Writes or queues a record that nobody waits for.
        fn put(&self, record: Emitted);
    }
}

impl sealed::Destination for Telemetry {
    fn name(&self) -> &str {
        self.command_name()
    }

    fn put(&self, record: Emitted) {
        self.tell(self.write(&record));
    }
}

/// The fields of a record that is not written yet.
#[derive(Debug)]
struct Unsent {
    status: String,
    metrics: Map<String, Value>,
    message: Option<String>,
}

impl<D: Destination> Emission<D> {
    pub(super) fn new(to: D) -> Self {
        let record = (!Telemetry::is_disabled()).then(|| Unsent {
            status: "completed".to_owned(),
            metrics: Map::new(),
            message: None,
        });
        Self { to, record }
    }

    /// Creates a record with status `completed`.
    pub(super) fn completed(to: D) -> Self {
        Self::new(to).message("Command completed successfully")
    }

    /// Creates a record with status `failed`.
    pub(super) fn failed(to: D, error: impl Display) -> Self {
        Self::new(to).status("failed").message(error.to_string())
    }

    /// Adds a metric, replacing one of the same name. Non-finite floats are written as text: `NaN`,
    /// `Infinity`, `-Infinity`. Text in a metric with a secret's name, and passwords in URLs, are
    /// redacted.
    pub fn metric(mut self, name: &str, value: impl Metric) -> Self {
        if let Some(record) = &mut self.record {
            record.metrics.insert(name.to_owned(), hidden(name, value.into_value()));
        }
        self
    }

    /// Adds several metrics.
    pub fn metrics<N: AsRef<str>, V: Metric>(
        mut self,
        metrics: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in metrics {
            self = self.metric(name.as_ref(), value);
        }
        self
    }

    /// Adds a milestone.
    pub fn event(self, name: &str) -> Self {
        self.metric("event", name)
    }

    /// Sets the status [default: `completed`].
    pub fn status(mut self, status: &str) -> Self {
        if let Some(record) = &mut self.record {
            record.status = scrub(status);
        }
        self
    }

    /// Sets the message. An empty one counts as absent. Secrets in it are redacted.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        if let Some(record) = &mut self.record {
            record.message = Some(scrub(&message.into())).filter(|message| !message.is_empty());
        }
        self
    }

    /// Takes the record out, so that the drop does not write it. Adds its metrics to the outputs of
    /// the current task.
    pub(super) fn take(&mut self) -> Option<Emitted> {
        let Unsent { status, metrics, message } = self.record.take()?;
        for (name, value) in &metrics {
            match (name.as_str(), value) {
                ("event", Value::String(event)) => crate::generated(event, &status),
                _ => crate::generated(name, value),
            }
        }
        Some(Emitted {
            timestamp: Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string(),
            command: self.to.name().to_owned(),
            status,
            metrics,
            system: system().clone(),
            message,
        })
    }

    pub(super) fn to(&self) -> &D {
        &self.to
    }
}

impl Emission {
    /// Writes the record now.
    ///
    /// # Errors
    ///
    /// If the record cannot be written.
    pub fn send(mut self) -> Result<()> {
        match self.take() {
            Some(record) => self.to.write(&record),
            None => Ok(()),
        }
    }
}

impl<D: Destination> Drop for Emission<D> {
    fn drop(&mut self) {
        if let Some(record) = self.take() {
            self.to.put(record);
        }
    }
}

/// A type that can be the value of a metric.
pub trait Metric {
    /// Converts the value to JSON. Non-finite floats become text.
    fn into_value(self) -> Value;
}

macro_rules! plain_metrics {
    ($($type:ty),*) => {$(
        impl Metric for $type {
            fn into_value(self) -> Value {
                self.into()
            }
        }
    )*};
}

plain_metrics!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool, &str, String, Value);

impl Metric for f64 {
    fn into_value(self) -> Value {
        if self.is_finite() {
            self.into()
        } else if self.is_nan() {
            "NaN".into()
        } else {
            if self > 0.0 { "Infinity" } else { "-Infinity" }.into()
        }
    }
}

impl Metric for f32 {
    fn into_value(self) -> Value {
        f64::from(self).into_value()
    }
}
