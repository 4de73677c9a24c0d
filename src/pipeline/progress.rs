//! A progress line on the terminal while the end of a run waits for a slow store.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// The delay before the line appears. Most stores have everything by then.
const FIRST: Duration = Duration::from_secs(1);

/// How often the line is updated.
const EVERY: Duration = Duration::from_millis(500);

/// The line, which appears after the first second. Nothing is shown if standard error is not a
/// terminal.
#[derive(Debug)]
pub(super) struct Progress {
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        let next = std::io::stderr().is_terminal().then(|| now + FIRST);
        Self { next, is_shown: false }
    }

    /// Shows the number of waiting records, if an update is due.
    pub(super) fn show(&mut self, now: Instant, waiting: u64) {
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + EVERY);
            self.is_shown = true;
            let text =
                format!("\r\x1b[Krunlore: {waiting} records are on their way to the store …");
            _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

impl Drop for Progress {
    /// Clears the line.
    fn drop(&mut self) {
        if self.is_shown {
            _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
