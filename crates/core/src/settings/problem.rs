//! What is wrong with settings, each in one sentence.

use std::fmt;

/// Something about settings that their author should know. It prints as one sentence.
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
    /// Whether something is wrong, or merely worth knowing.
    pub severity: Severity,
    /// The file, or the environment variable.
    pub source: String,
    /// Line and column in the file, from 1, where they are known.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something was understood and left aside.
    Notice,
    /// Something is wrong; what it was meant to set keeps the value it had.
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
