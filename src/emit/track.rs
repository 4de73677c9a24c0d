//! Work with one record for its start and one for its end.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use serde_json::{Map, Value};

use super::emission::Metric;
use super::telemetry::Telemetry;
use crate::instrument::panic_message;
use runlore_core::contain::contain;

/// Work to be tracked. Created by [`Telemetry::track`]. It emits a record `started`, and one
/// `completed` or `failed` with `duration_sec`.
#[derive(Debug)]
pub struct Track {
    telemetry: Telemetry,
    message: String,
    metrics: Map<String, Value>,
}

impl Track {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Self { telemetry, message: String::new(), metrics: Map::new() }
    }

    /// Sets the message of the first record.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds a metric to both records.
    #[must_use]
    pub fn metric(mut self, name: &str, value: impl Metric) -> Self {
        self.metrics.insert(name.to_owned(), value.into_value());
        self
    }

    /// Runs the work. A panic counts as a failure and continues to unwind.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        self.tracked(work, |_| None::<String>)
    }

    /// Runs fallible work.
    ///
    /// # Errors
    ///
    /// Returns the work's own error.
    pub fn try_run<T, E: Display>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.tracked(work, |result| result.as_ref().err().map(E::to_string))
    }

    fn tracked<T>(self, work: impl FnOnce() -> T, error: impl FnOnce(&T) -> Option<String>) -> T {
        let Self { telemetry, message, metrics } = self;
        drop(telemetry.start().message(message).metrics(metrics.clone()));
        let began = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(work));
        let seconds = began.elapsed().as_secs_f64();
        let failed = match &result {
            // An error's own `Display` may panic.
            Ok(value) => contain(|| error(value))
                .unwrap_or_else(|| Some("an error whose own Display panicked".to_owned())),
            Err(panic) => Some(panic_message(&**panic).to_owned()),
        };
        let end = match failed {
            Some(why) => telemetry.fail(why),
            None => telemetry.complete(),
        };
        drop(end.metrics(metrics).metric("duration_sec", seconds));
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
