//! How a sink is written.

use std::time::Duration;

use crate::events::{Schema, Target};
use runlore_core::{Error, ErrorKind, Result};

/// How often a sink is flushed, how large it may become, and what it keeps.
///
/// ```
/// use runlore::events::SinkOptions;
///
/// let options = SinkOptions { segment_events: 1_000, keep_files: 4, ..SinkOptions::default() };
/// assert_eq!(options.flush_events, 50);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SinkOptions {
    /// Flush after so many events [default: 50].
    pub flush_events: usize,
    /// Flush after this time [default: 2 s].
    pub flush_every: Duration,
    /// Whether a flush waits until the disk has it [default: yes].
    pub sync: bool,
    /// No segment is larger [default: 64 MiB], unless one event is.
    pub segment_bytes: u64,
    /// No segment has more events [default: 10,000].
    pub segment_events: u64,
    /// How many segments are kept; the oldest go first [default: 8].
    pub keep_files: usize,
    /// How many bytes are kept [default: 512 MiB].
    pub keep_bytes: u64,
    /// How many bytes wait in memory while the sink cannot be written [default: 8 MiB]; then the oldest are dropped, and counted.
    pub buffer_bytes: usize,
    /// Whether `rollups.json` is written at the end: counts and peaks a window [default: yes].
    pub rollups: bool,
    /// How long a window of the rollups is [default: 60 s].
    pub rollup_window: Duration,
    /// What events are written as [default: schema 4].
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
