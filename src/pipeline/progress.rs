//! A line on the terminal while the end of a run waits for a slow store.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How long nothing is shown: most stores have everything by then.
const FIRST: Duration = Duration::from_secs(1);

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(500);

/// The line, which is there from the first second on. Nothing is shown where standard error is no terminal.
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

    /// Shows how many records wait, if it is time to.
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
    /// Leaves the terminal as it was.
    fn drop(&mut self) {
        if self.is_shown {
            _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
