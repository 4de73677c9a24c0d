//! What tasks by hand may fail with.

use std::error::Error;
use std::ops::Deref;

use super::error::{push_chain, push_message};

/// What `try_run`, `try_track` and `fail` accept as an error, and record with all its sources: any [`Error`], a boxed one,
/// those of `anyhow` and its like, a reference to one of these, and plain text.
///
/// `Kind` keeps these apart. It is always inferred.
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
    /// Adds its words and those of its sources.
    #[doc(hidden)]
    fn describe(&self, items: &mut Vec<u8>);
}

/// The kinds of errors.
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

/// `anyhow::Error`, `eyre::Report`, `Box<dyn Error + Send + Sync>`. By `AsRef` too: a plain reference to such an error is
/// an [`Error`] itself, and must not be both.
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

texts!(String, &String, &str);
