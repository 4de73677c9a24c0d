//! The text that a `Debug` or `Display` writes, as far as it is wanted.
//!
//! A formatter is stopped by an error. Code that ignores the error and writes on costs no memory, but does cost time:
//! only unwinding would end it. Unwinding would poison locks that the code holds, cross frames of other languages, and
//! abort where `panic = "abort"`. Each of these is worse for the program than a slow call.

use std::fmt::{self, Write};

use crate::record::hash::{BLOCK, Budget, NoHash};

/// A text up to its window or, where all of it is hashed, up to the end of the time for that.
#[derive(Debug)]
pub struct BoundedText {
    pub text: String,
    window: usize,
    /// None where only the window is wanted.
    pub(crate) budget: Option<Budget>,
    /// How much may be written before the clock is read again.
    left: usize,
    /// Where the stack was when it began.
    stack: usize,
    /// Why the rest was refused.
    pub(crate) stopped: Option<NoHash>,
    /// Whether it says itself that something is left out.
    pub(crate) has_gap: bool,
}

/// What one write costs besides its bytes.
const WRITE_COST: usize = 16;

/// How much stack a `Debug` may take. That of a cyclic value has no other end.
const MAX_STACK: usize = 256 << 10;

impl BoundedText {
    pub(crate) fn new(window: usize, budget: Option<Budget>) -> Self {
        let (text, stack) = (String::new(), stack_position());
        Self { text, window, budget, left: BLOCK, stack, stopped: None, has_gap: false }
    }

    /// What `value` displays, up to `window` bytes or a little more.
    pub fn of(value: &(impl fmt::Display + ?Sized), window: usize) -> Self {
        let mut text = Self::new(window, None);
        // A `Display` that fails has written what it could.
        _ = write!(text, "{value}");
        text
    }

    /// Why the text may not go on after `length` more bytes, if it may not.
    fn limit(&mut self, length: usize) -> Option<NoHash> {
        if stack_position().abs_diff(self.stack) > MAX_STACK {
            return Some(NoHash::Deep);
        }
        let Some(budget) = &mut self.budget else {
            return (self.text.len() > self.window).then_some(NoHash::Cut);
        };
        match self.left.checked_sub(length + WRITE_COST) {
            Some(left) => self.left = left,
            None if budget.is_spent() => return Some(NoHash::Slow),
            None => self.left = BLOCK,
        }
        None
    }
}

#[inline(never)]
fn stack_position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.stopped.is_some() {
            return Err(fmt::Error);
        }
        self.has_gap |= shows_gap(text);
        let mut rest = text;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(BLOCK));
            self.text.push_str(part);
            self.stopped = self.limit(part.len());
            if self.stopped.is_some() {
                return Err(fmt::Error);
            }
            rest = after;
        }
        Ok(())
    }
}

/// Whether a text written by `Debug` leaves something out: as `finish_non_exhaustive` does (`{ kind: 1, .. }`), long
/// arrays of `ndarray` (`[0.0, 1.0, ..., 9.0]`) and tensors of candle and tch (`Tensor[[2, 3], Float]`). Ranges
/// (`0..5`) do not.
fn shows_gap(text: &str) -> bool {
    let gaps = ["...", " .. }", " ..}", " ..]", " ..)", "{..}", "[..]", "(..)"];
    text.contains("..") && gaps.iter().any(|gap| text.contains(gap)) || text.contains("Tensor[")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a gigabyte, whatever it is told.
    struct Deaf;

    impl fmt::Display for Deaf {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let block = "x".repeat(1 << 20);
            (0..1024).for_each(|_| _ = f.write_str(&block));
            Ok(())
        }
    }

    #[test]
    fn what_ignores_the_error_takes_no_more_memory() {
        let text = BoundedText::of(&Deaf, 1000);
        assert_eq!((text.text.len(), text.stopped), (BLOCK, Some(NoHash::Cut)));
        let mut text = BoundedText::new(1000, Some(Budget::none()));
        assert!(write!(text, "{Deaf}").is_ok(), "it says nothing of the error");
        assert_eq!(text.stopped, Some(NoHash::Slow));
        assert!(text.text.len() <= 2 * BLOCK);
    }
}
