//! The few things a user must know of while the program runs, on standard error.
//!
//! A notice is printed once. Repetitions are counted, and the counts are printed when a run ends.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Notices that are told apart: one that changes with every record must fill neither memory nor the terminal.
const MOST: usize = 100;

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

/// The notices so far.
#[derive(Default)]
pub(super) struct Told {
    /// How often each was repeated since that was last reported.
    repeated: HashMap<String, u64>,
    /// How many others there were.
    others: u64,
}

impl Told {
    /// Counts a notice; whether it is to be printed.
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

    /// What was not printed since the last call, a line each.
    fn take_repeated(&mut self) -> Vec<String> {
        let repeated = self.repeated.iter_mut().filter(|(_, times)| **times > 0);
        let mut lines: Vec<String> = repeated
            .map(|(text, times)| format!("{text} ({} more times)", std::mem::take(times)))
            .collect();
        lines.sort_unstable();
        match std::mem::take(&mut self.others) {
            0 => {}
            others => lines.push(format!("{others} more notices, each different, are not shown")),
        }
        lines
    }
}

/// What was told, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = std::sync::MutexGuard<'static, Option<Told>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the user on standard error, unless the same was told before: then it is counted. Where nobody can read it, nothing happens.
pub(crate) fn notice(text: &str) {
    let is_new =
        TOLD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().count(text);
    if is_new {
        _ = write(&format!("runlore: {text}\n"));
    }
}

/// Tells how often notices were repeated since the last call.
pub(super) fn report_repeated() {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = told.as_mut().map(Told::take_repeated).unwrap_or_default();
    drop(told);
    for line in lines {
        _ = write(&format!("runlore: {line}\n"));
    }
}

/// Past the lock of the standard library, which a forked child may have inherited closed.
#[cfg(unix)]
fn write(text: &str) -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    std::fs::File::from(stderr).write_all(text.as_bytes())
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
        let mut told = Told::default();
        assert!(told.count("full"));
        assert!(!told.count("full") && !told.count("full"));
        assert!(told.count("slow"));
        assert_eq!(told.take_repeated(), ["full (2 more times)"]);
        assert!(told.take_repeated().is_empty());
    }

    #[test]
    fn the_hundred_and_first_notice_is_counted() {
        let mut told = Told::default();
        for number in 0..MOST {
            assert!(told.count(&number.to_string()));
        }
        assert!(!told.count("another") && !told.count("one more"));
        assert_eq!(told.take_repeated(), ["2 more notices, each different, are not shown"]);
    }
}
