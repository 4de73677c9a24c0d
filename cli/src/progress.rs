//! A progress bar for work that takes longer than a second. Shown only on a terminal.

use std::cell::OnceCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The delay before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress of some work.
pub(crate) struct Progress<F> {
    what: &'static str,
    began: Instant,
    is_seen: bool,
    /// Returns the total, if known. Called only when the bar is first shown.
    total: F,
    bar: OnceCell<ProgressBar>,
}

impl<F: Fn() -> Option<u64>> Progress<F> {
    pub(crate) fn new(what: &'static str, total: F) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        Self { what, began: Instant::now(), is_seen, total, bar: OnceCell::new() }
    }

    /// Sets the amount of work done.
    pub(crate) fn set(&self, done: u64) {
        if !self.is_seen || self.began.elapsed() < PATIENCE {
            return;
        }
        self.bar.get_or_init(|| self.made()).set_position(done);
    }

    fn made(&self) -> ProgressBar {
        let (bar, form) = match (self.total)() {
            Some(total) => {
                (ProgressBar::new(total), "{bar:30} {human_pos}/{human_len} {msg}, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {human_pos} {msg}"),
        };
        let style = ProgressStyle::with_template(form);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.with_message(self.what).with_elapsed(self.began.elapsed())
    }
}

impl<F> Drop for Progress<F> {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
