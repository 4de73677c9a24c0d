//! The error type of the library. Each message is one sentence that also says what to do.

use std::borrow::Cow;
use std::fmt;

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error of this crate.
///
/// Annotated functions never return one. Only explicit calls do, such as starting a workflow or
/// reading a store.
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

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A store could not be opened, read or written.
    Store,
    /// A record does not have the required shape.
    Record,
    /// The recorder could not be started or did not respond in time.
    Pipeline,
    /// A setting is invalid.
    Settings,
    /// A filter or a pipeline is invalid.
    Query,
    /// A plot or a report cannot be made.
    Report,
}

impl Error {
    /// Creates an error of `kind`. The message is one sentence for the user.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the error's cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the cause.
    ///
    /// The error's message already ends with the cause's message. So
    /// [`source`](std::error::Error::source) returns the cause of the cause, and a printed error
    /// chain repeats nothing.
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

/// Prints the kind and the message as one line, because `main` prints a returned error with
/// `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
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
