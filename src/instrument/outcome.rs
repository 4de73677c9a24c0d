//! Whether a returned value is a failure, and what its error says: chosen as values are, by what the type offers.
//!
//! The macro calls `(&&&&&&Returned(value)).runlore_judge(outputs)`, see [`super::dispatch`].

use std::error::Error;
use std::fmt::{Debug, Display};
use std::ops::Deref;

use super::error;
use super::inputs::Outputs;

/// A reference to what a function returned.
#[derive(Debug)]
pub struct Returned<'a, T: ?Sized>(pub &'a T);

/// The traits of the dispatch, best first.
pub mod levels {
    pub use super::{
        Always, JudgeAny, JudgeDebug, JudgeDeref, JudgeDisplay, JudgeError, JudgeResult, OfResult,
        Returned,
    };
}

macro_rules! judge {
    ($(#[$doc:meta])* $trait:ident, [$($refs:tt)*], [$($bound:tt)*], |$error:ident, $items:ident| $body:expr) => {
        $(#[$doc])*
        pub trait $trait {
            /// Marks the task as failed if it is.
            fn runlore_judge(&self, outputs: &mut Outputs<'_>);
        }

        impl<T, E: $($bound)*> $trait for $($refs)* Returned<'_, Result<T, E>> {
            fn runlore_judge(&self, outputs: &mut Outputs<'_>) {
                if let Err($error) = self.0 {
                    outputs.fail(|$items| $body);
                }
            }
        }
    };
}

judge!(
    /// An error with its sources.
    JudgeError, [&&&&&], [Error],
    |error, items| error::push_chain(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Boxes and the like around an error.
    JudgeDeref, [&&&&], [Deref<Target: Error>],
    |error, items| push_deref(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Something that can be shown.
    JudgeDisplay, [&&&], [Display],
    |error, items| error::push_text_error(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Something that can be printed for debugging.
    JudgeDebug, [&&], [Debug],
    |error, items| error::push_text_error(items, std::any::type_name::<E>(), format_args!("{error:?}"))
);
judge!(
    /// An error that says nothing.
    JudgeResult, [&], [Sized],
    |_error, items| error::push_text_error(items, std::any::type_name::<E>(), std::any::type_name::<E>())
);

fn push_deref<E: Deref<Target: Error>>(items: &mut Vec<u8>, type_name: &str, error: &E) {
    error::push_chain(items, type_name, &Dereferenced(&**error));
}

/// Makes an error out of one that has no size of its own.
struct Dereferenced<'a, E: ?Sized>(&'a E);

impl<E: Error + ?Sized> Debug for Dereferenced<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(self.0, f)
    }
}

impl<E: Error + ?Sized> Display for Dereferenced<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self.0, f)
    }
}

impl<E: Error + ?Sized> Error for Dereferenced<'_, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Anything that is not a `Result` is no failure.
pub trait JudgeAny {
    /// Does nothing.
    fn runlore_judge(&self, outputs: &mut Outputs<'_>);
}

impl<T: ?Sized> JudgeAny for Returned<'_, T> {
    fn runlore_judge(&self, _: &mut Outputs<'_>) {}
}

/// What a `Result` holds when it is `Ok`.
pub trait OfResult<'a> {
    /// The type of the `Ok`.
    type Success: 'a;
    /// The `Ok`.
    fn runlore_success(&self) -> Option<&'a Self::Success>;
}

impl<'a, T, E> OfResult<'a> for &Returned<'a, Result<T, E>> {
    type Success = T;
    fn runlore_success(&self) -> Option<&'a T> {
        self.0.as_ref().ok()
    }
}

/// What is not a `Result` is a success itself.
pub trait Always<'a> {
    /// The type returned.
    type Success: ?Sized + 'a;
    /// The value.
    fn runlore_success(&self) -> Option<&'a Self::Success>;
}

impl<'a, T: ?Sized> Always<'a> for Returned<'a, T> {
    type Success = T;
    fn runlore_success(&self) -> Option<&'a T> {
        Some(self.0)
    }
}
