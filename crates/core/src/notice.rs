//! Prints the few notices that a user must see while the program runs to standard error.
//!
//! A notice is printed once. Repetitions are counted, and their number is printed when a run ends.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::file_size;
use crate::fork::PerProcess;
use crate::record::redact::hide_secrets;

/// The most different notices that are printed. A notice whose text changes with every record must
/// not flood the terminal.
const MOST: usize = 100;

static TOLD: PerProcess<Mutex<NoticeCounts>> = PerProcess::new();

/// The notices so far.
#[derive(Debug, Default)]
struct NoticeCounts {
    /// How often each notice was repeated since the last report.
    repeated: HashMap<String, u64>,
    /// How many other notices were not printed.
    others: u64,
}

impl NoticeCounts {
    /// Counts a notice. Returns whether it should be printed.
    fn count(&mut self, text: &str) -> bool {
        if let Some(repeated) = self.repeated.get_mut(text) {
            *repeated += 1;
            return false;
        }
        let is_printed = self.repeated.len() < MOST;
        if is_printed {
            self.repeated.insert(text.to_owned(), 0);
        } else {
            self.others += 1;
        }
        is_printed
    }

    /// Returns a sentence with the number of notices that were not printed since the last call.
    /// `None` if there were none.
    fn take_repeated(&mut self) -> Option<String> {
        let repeated: u64 = self.repeated.values_mut().map(std::mem::take).sum();
        match (repeated, std::mem::take(&mut self.others)) {
            (0, 0) => None,
            (repeated, 0) => Some(format!("{repeated} repeated notices are not shown")),
            (repeated, others) => {
                Some(format!("{repeated} repeated and {others} other notices are not shown"))
            }
        }
    }
}

fn told() -> MutexGuard<'static, NoticeCounts> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a notice to standard error, or counts it if it was printed before. Errors of the write
/// are ignored.
pub fn notice(text: &str) {
    let text = &*hide_secrets(text, false);
    let is_new = told().count(text);
    if is_new {
        _ = write(&format!("runlore: {text}\n"));
    }
}

/// Prints how many notices were not printed since the last call.
pub fn report_repeated() {
    let line = told().take_repeated();
    if let Some(line) = line {
        _ = write(&format!("runlore: {line}\n"));
    }
}

/// Bypasses the lock of the standard library, which a forked child may have inherited in a locked
/// state.
#[cfg(unix)]
fn write(text: &str) -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    // Standard error may be a file that has reached its size limit.
    file_size::without_signal(|| std::fs::File::from(stderr).write_all(text.as_bytes()))
}

#[cfg(not(unix))]
fn write(text: &str) -> std::io::Result<()> {
    std::io::stderr().write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_printed_once_and_counted_after_that() {
        let mut told = NoticeCounts::default();
        assert!(told.count("full"));
        assert!(!told.count("full") && !told.count("full"));
        assert!(told.count("slow"));
        assert_eq!(told.take_repeated().as_deref(), Some("2 repeated notices are not shown"));
        assert_eq!(told.take_repeated(), None);
    }

    #[test]
    fn the_hundred_and_first_notice_is_counted() {
        let mut told = NoticeCounts::default();
        for number in 0..MOST {
            assert!(told.count(&number.to_string()));
        }
        assert!(!told.count("another") && !told.count("one more"));
        let expected = "0 repeated and 2 other notices are not shown";
        assert_eq!(told.take_repeated().as_deref(), Some(expected));
    }
}
