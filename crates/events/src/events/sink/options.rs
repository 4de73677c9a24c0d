//! Options for writing a sink.

use std::time::Duration;

use crate::events::{Schema, Target};
use runlore_core::{Error, ErrorKind, Result};

/// How often a sink is flushed, how large it may grow, and how much it retains.
///
/// ```
/// use runlore::events::SinkOptions;
///
/// let options = SinkOptions { segment_events: 1_000, keep_files: 4, ..SinkOptions::default() };
/// assert_eq!(options.flush_events, 50);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SinkOptions {
    /// Flush after this many events [default: 50].
    pub flush_events: usize,
    /// Flush after this time [default: 2 s].
    pub flush_every: Duration,
    /// Whether a flush waits until the data is on disk [default: yes].
    pub sync: bool,
    /// The maximum size of a segment [default: 64 MiB]. A single larger event still gets a segment.
    pub segment_bytes: u64,
    /// The maximum number of events in a segment [default: 10,000].
    pub segment_events: u64,
    /// The maximum number of segments to retain. The oldest are deleted first [default: 8].
    pub keep_files: usize,
    /// The maximum number of bytes to retain [default: 512 MiB].
    pub keep_bytes: u64,
    /// The maximum number of bytes to buffer while the sink cannot be written [default: 8 MiB].
    /// Beyond that, the oldest events are dropped and counted.
    pub buffer_bytes: usize,
    /// Whether to write `rollups.json`, with counts and peaks per time window, at the end [default:
    /// yes].
    pub rollups: bool,
    /// The length of a rollup window [default: 60 s].
    pub rollup_window: Duration,
    /// The form in which events are written [default: schema 4].
    pub target: Target,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            flush_events: 50,
            flush_every: Duration::from_secs(2),
            sync: true,
            segment_bytes: 64 << 20,
            segment_events: 10_000,
            keep_files: 8,
            keep_bytes: 512 << 20,
            buffer_bytes: 8 << 20,
            rollups: true,
            rollup_window: Duration::from_secs(60),
            target: Schema::V4.into(),
        }
    }
}

impl SinkOptions {
    pub(super) fn check(&self) -> Result<()> {
        let nothing = [
            ("flush_events", self.flush_events == 0),
            ("segment_bytes", self.segment_bytes == 0),
            ("segment_events", self.segment_events == 0),
            ("keep_files", self.keep_files == 0),
            ("rollup_window", self.rollup_window.is_zero()),
        ];
        if let Some((name, _)) = nothing.into_iter().find(|(_, is_nothing)| *is_nothing) {
            return Err(wrong(format!("a sink's {name} must be more than 0")));
        }
        if self.keep_bytes < self.segment_bytes {
            let (keep, segment) = (self.keep_bytes, self.segment_bytes);
            return Err(wrong(format!(
                "a sink that keeps {keep} bytes cannot have segments of {segment}: keep at least as much as one segment"
            )));
        }
        Ok(())
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Settings, what)
}
