//! The error types that manually recorded tasks accept.

use std::error::Error;
use std::ops::Deref;

use super::error::{push_chain, push_message};

/// An error type that `try_run`, `try_track` and `fail` accept and record with all its sources: any
/// [`Error`], a boxed one, the errors of `anyhow` and similar crates, a reference to one of these,
/// and plain text.
///
/// `Kind` keeps these implementations apart. It is always inferred.
///
/// ```
/// use runlore::task;
///
/// let port: Result<u16, std::num::ParseIntError> = task("parse").try_run(|| "80".parse());
/// let boxed: Result<u16, Box<dyn std::error::Error>> = task("parse").try_run(|| Ok("80".parse()?));
/// let text: Result<u16, String> = task("parse").try_run(|| Err("not a port".to_owned()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded as an error",
    note = "implement `std::error::Error` for it, or return its text"
)]
pub trait Failure<Kind> {
    /// Appends its message and those of its sources.
    #[doc(hidden)]
    fn describe(&self, items: &mut Vec<u8>);
}

/// Marker types for `Kind`.
#[allow(missing_debug_implementations, unreachable_pub)]
pub mod kinds {
    pub struct OfError;
    pub struct OfDeref;
    pub struct OfRef;
    pub struct OfBox;
    pub struct OfText;
}

impl<E: Error> Failure<kinds::OfError> for E {
    fn describe(&self, items: &mut Vec<u8>) {
        push_chain(items, "", self);
    }
}

/// For `anyhow::Error`, `eyre::Report` and `Box<dyn Error + Send + Sync>`. The `AsRef` bound
/// excludes a plain reference to such an error, which is an [`Error`] itself: the implementations
/// must not overlap.
impl<E> Failure<kinds::OfDeref> for E
where
    E: Deref<Target = dyn Error + Send + Sync> + AsRef<dyn Error + Send + Sync>,
{
    fn describe(&self, items: &mut Vec<u8>) {
        push_chain(items, "", &**self);
    }
}

impl<E> Failure<kinds::OfRef> for &E
where
    E: Deref<Target = dyn Error + Send + Sync> + AsRef<dyn Error + Send + Sync>,
{
    fn describe(&self, items: &mut Vec<u8>) {
        push_chain(items, "", &***self);
    }
}

macro_rules! boxes {
    ($($target:ty),*) => {
        $(impl Failure<kinds::OfBox> for Box<$target> {
            fn describe(&self, items: &mut Vec<u8>) {
                push_chain(items, "", &**self);
            }
        }

        impl Failure<kinds::OfBox> for &Box<$target> {
            fn describe(&self, items: &mut Vec<u8>) {
                push_chain(items, "", &***self);
            }
        })*
    };
}

boxes!(dyn Error, dyn Error + Send);

macro_rules! texts {
    ($($text:ty),*) => {
        $(impl Failure<kinds::OfText> for $text {
            fn describe(&self, items: &mut Vec<u8>) {
                push_message(items, self);
            }
        })*
    };
}

texts!(String, &String, &str, &&str);
