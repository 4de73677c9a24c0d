//! Decides whether a returned value is a failure, and how to record its error, by what its type
//! supports.
//!
//! The macro calls `(&&&&&&Returned(value)).runlore_judge(outputs)`, see [`super::dispatch`].

use std::error::Error;
use std::fmt::{Debug, Display};
use std::ops::Deref;

use super::error;
use super::inputs::Outputs;

/// A reference to a function's return value.
#[derive(Debug)]
pub struct Returned<'a, T: ?Sized>(pub &'a T);

/// The traits of the dispatch, highest rank first.
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
            /// Marks the task as failed if the value is an `Err`.
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
    /// Records an error with its sources.
    JudgeError, [&&&&&], [Error],
    |error, items| error::push_chain(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Records an error inside a `Box` or another pointer.
    JudgeDeref, [&&&&], [Deref<Target: Error>],
    |error, items| push_deref(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Records an error by its `Display`.
    JudgeDisplay, [&&&], [Display],
    |error, items| error::push_text_error(items, std::any::type_name::<E>(), error)
);
judge!(
    /// Records an error by its `Debug`.
    JudgeDebug, [&&], [Debug],
    |error, items| error::push_text_error(items, std::any::type_name::<E>(), format_args!("{error:?}"))
);
judge!(
    /// Records an error by the name of its type.
    JudgeResult, [&], [Sized],
    |_error, items| error::push_text_error(items, std::any::type_name::<E>(), std::any::type_name::<E>())
);

fn push_deref<E: Deref<Target: Error>>(items: &mut Vec<u8>, type_name: &str, error: &E) {
    error::push_chain(items, type_name, &Dereferenced(&**error));
}

/// Makes a sized error from an unsized one.
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

/// A value that is not a `Result` is never a failure.
pub trait JudgeAny {
    /// Does nothing.
    fn runlore_judge(&self, outputs: &mut Outputs<'_>);
}

impl<T: ?Sized> JudgeAny for Returned<'_, T> {
    fn runlore_judge(&self, _: &mut Outputs<'_>) {}
}

/// The `Ok` value of a `Result`.
pub trait OfResult<'a> {
    /// The type of the `Ok` value.
    type Success: 'a;
    /// Returns the `Ok` value. `None` if the result is an `Err`.
    fn runlore_success(&self) -> Option<&'a Self::Success>;
}

impl<'a, T, E> OfResult<'a> for &Returned<'a, Result<T, E>> {
    type Success = T;
    fn runlore_success(&self) -> Option<&'a T> {
        self.0.as_ref().ok()
    }
}

/// A value that is not a `Result` is always a success.
pub trait Always<'a> {
    /// The type returned.
    type Success: ?Sized + 'a;
    /// Returns the value.
    fn runlore_success(&self) -> Option<&'a Self::Success>;
}

impl<'a, T: ?Sized> Always<'a> for Returned<'a, T> {
    type Success = T;
    fn runlore_success(&self) -> Option<&'a T> {
        Some(self.0)
    }
}
