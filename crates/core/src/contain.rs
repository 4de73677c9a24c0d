//! Calls code that may panic, and stops the panic there.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The payload of a panic.
type Payload = Box<dyn Any + Send>;

/// Runs `work`. `None` if it panicked.
///
/// Use this instead of a bare `catch_unwind` whose error is dropped: the payload of a panic may be
/// of any type, and its `Drop` may panic too.
#[inline]
pub fn contain<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(payload) => {
            discard(payload);
            None
        }
    }
}

/// Drops the payload of a panic. If that panics, the second payload is leaked, because its `Drop`
/// may panic too.
#[cold]
fn discard(payload: Payload) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic_any(Self);
        }
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_stays_inside() {
        assert_eq!(contain(|| 1), Some(1));
        assert_eq!(contain(|| -> u8 { panic_any(PanicsInDrop) }), None);
        assert_eq!(contain(|| -> u8 { panic!("as usual") }), None);
    }
}
