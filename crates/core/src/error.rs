//! What can go wrong, told in one sentence with what to do about it.

use std::borrow::Cow;
use std::fmt;

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error of this crate. Annotated functions never see one: only calls that ask for something, such as
/// starting a workflow or reading a store, return it.
///
/// ```
/// let error = runlore::store::jsonl::read("no/such/folder").err().unwrap();
/// assert_eq!(error.kind(), runlore::ErrorKind::Store);
/// ```
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Source>,
}

/// What an [`Error`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A store could not be opened, read or written.
    Store,
    /// A record does not have the shape of one.
    Record,
    /// The recorder could not be started or did not answer in time.
    Pipeline,
    /// A setting is wrong.
    Settings,
    /// A filter or a pipeline is wrong.
    Query,
    /// A picture or a report cannot be made.
    Report,
}

impl Error {
    /// An error of `kind` with a sentence for the reader.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What caused it. The error's own text ends with it, so that [`source`](std::error::Error::source) gives what
    /// caused *that*: whoever prints a whole chain says nothing twice.
    ///
    /// ```
    /// let error = runlore::store::jsonl::read("no/such/folder").err().unwrap();
    /// let cause = error.get_ref().unwrap();
    /// assert!(cause.is::<std::io::Error>());
    /// assert!(error.to_string().ends_with(&cause.to_string()));
    /// ```
    pub fn get_ref(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }
}

/// The same sentence: it is what a `main` that returns the error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref()?.source()
    }
}
