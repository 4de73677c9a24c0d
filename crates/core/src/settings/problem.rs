//! Problems in settings, each described in one sentence.

use std::fmt;

/// An error or a notice about settings. It prints as one sentence.
///
/// ```
/// use runlore::settings::Search;
///
/// let loaded = Search::nowhere().text("settings.yaml", "telemetry_capture:\n  cpus: no").load();
/// assert_eq!(
///     loaded.problems()[0].to_string(),
///     "settings.yaml:2:3: unknown key `cpus` in telemetry_capture: did you mean `cpu`?",
/// );
/// assert!(loaded.settings.telemetry_capture.cpu);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Whether this is an error or only a notice.
    pub severity: Severity,
    /// The name of the file or of the environment variable.
    pub source: String,
    /// Line and column in the file, counted from 1. `None` if they are not known.
    pub place: Option<(usize, usize)>,
    /// The description of the problem.
    pub message: String,
}

/// The severity of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A setting was recognised but ignored.
    Notice,
    /// A setting is invalid. It keeps the value that it had.
    Error,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for crate::Error {
    fn from(problem: Problem) -> Self {
        crate::Error::new(crate::ErrorKind::Settings, problem.to_string())
    }
}
