//! The output of a `Debug` or `Display` implementation, up to a limit.
//!
//! At the limit, writing fails with an error, which normally stops the formatter. Code that ignores
//! the error and writes on uses no more memory, but it still takes time. Only unwinding could end
//! it. Unwinding would poison locks that the code holds, cross frames of other languages, and abort
//! the program under `panic = "abort"`. Each of these is worse for the program than a slow call.

use std::fmt::{self, Write};

use crate::record::hash::{BLOCK, Budget, NoHash};

/// A text of about `window` bytes or, if all of it is hashed, as much as the time budget allows.
#[derive(Debug)]
pub struct BoundedText {
    pub text: String,
    window: usize,
    /// `None` if only the window is needed.
    pub(crate) budget: Option<Budget>,
    /// How much may still be written before the clock is read again.
    left: usize,
    /// The stack address at which formatting began.
    stack: usize,
    /// Why the rest of the text was refused.
    pub(crate) stopped: Option<NoHash>,
    /// Whether the text itself shows that something is left out.
    pub(crate) has_gap: bool,
}

/// What each write costs in addition to its bytes.
const WRITE_COST: usize = 16;

/// How much stack a `Debug` implementation may use. Nothing else stops that of a cyclic value.
const MAX_STACK: usize = 256 << 10;

impl BoundedText {
    pub(crate) fn new(window: usize, budget: Option<Budget>) -> Self {
        let (text, stack) = (String::new(), stack_position());
        Self { text, window, budget, left: BLOCK, stack, stopped: None, has_gap: false }
    }

    /// Formats `value` with `Display`, up to `window` bytes or slightly more.
    pub fn of(value: &(impl fmt::Display + ?Sized), window: usize) -> Self {
        let mut text = Self::new(window, None);
        // A `Display` that fails has written as much as it could.
        _ = write!(text, "{value}");
        text
    }

    /// Accounts for `length` written bytes. Returns the reason if writing must stop here.
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

/// Whether the output of a `Debug` implementation leaves something out.
///
/// Examples are `{ kind: 1, .. }` by `finish_non_exhaustive`, `[0.0, 1.0, ..., 9.0]` for a long
/// array of `ndarray`, and `Tensor[[2, 3], Float]` for a tensor of candle or tch. Ranges (`0..5`)
/// leave nothing out.
fn shows_gap(text: &str) -> bool {
    let gaps = ["...", " .. }", " ..}", " ..]", " ..)", "{..}", "[..]", "(..)"];
    text.contains("..") && gaps.iter().any(|gap| text.contains(gap)) || text.contains("Tensor[")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a gigabyte and ignores all errors.
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
