//! Which findings make a check fail.

use std::str::FromStr;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use runlore_core::settings::nearest;
use runlore_core::{Error, ErrorKind, Result};

/// The findings that make a check fail: `warning`, `critical,churn`, `never`.
///
/// A severity includes all findings of that severity or worse. A kind includes all findings of that
/// kind.
///
/// ```
/// use runlore::analyze::{FailOn, Kind, Severity};
///
/// let fail_on: FailOn = "critical,churn".parse()?;
/// assert!(fail_on.includes(Kind::Churn, Severity::Info));
/// assert!(!fail_on.includes(Kind::Step, Severity::Warning));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailOn {
    severity: Option<Severity>,
    kinds: Vec<Kind>,
}

impl Default for FailOn {
    /// Fails on warnings and worse.
    fn default() -> Self {
        Self { severity: Some(Severity::Warning), kinds: Vec::new() }
    }
}

impl FailOn {
    /// Returns whether a finding of this kind and severity makes the check fail.
    pub fn includes(&self, kind: Kind, severity: Severity) -> bool {
        self.severity.is_some_and(|least| severity >= least) || self.kinds.contains(&kind)
    }

    /// Returns how many of these findings make the check fail.
    pub fn count(&self, findings: &[Finding]) -> usize {
        findings.iter().filter(|finding| self.includes(finding.kind, finding.severity)).count()
    }
}

impl FromStr for FailOn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut fail_on = Self { severity: None, kinds: Vec::new() };
        for word in text.split(',').map(str::trim) {
            let severity = Severity::ALL.into_iter().find(|severity| severity.as_str() == word);
            match (word, severity) {
                ("never", _) => {}
                (_, Some(severity)) => {
                    let least = fail_on.severity.map_or(severity, |known| known.min(severity));
                    fail_on.severity = Some(least);
                }
                _ => {
                    let kind = Kind::ALL.iter().find(|kind| kind.as_str() == word);
                    fail_on.kinds.push(*kind.ok_or_else(|| unknown(word))?);
                }
            }
        }
        Ok(fail_on)
    }
}

fn unknown(word: &str) -> Error {
    let severities = Severity::ALL.into_iter().map(Severity::as_str);
    let kinds = Kind::ALL.iter().map(|kind| kind.as_str());
    let names: Vec<&str> = severities.chain(kinds).chain(["never"]).collect();
    let hint = nearest::suggestion(word, &names);
    let what = format!("`{word}` is neither a severity nor a kind of finding; {hint}");
    Error::new(ErrorKind::Query, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_a_check_is_said_in_words() {
        let never: FailOn = "never".parse().unwrap();
        assert!(!never.includes(Kind::OutOfMemory, Severity::Critical));
        let both: FailOn = "critical, info".parse().unwrap();
        assert!(both.includes(Kind::Step, Severity::Info));
        let wrong = "persistant_drift".parse::<FailOn>().unwrap_err().to_string();
        assert!(wrong.contains("did you mean `persistent_drift`?"), "{wrong}");
        let wrong = "".parse::<FailOn>().unwrap_err().to_string();
        assert!(wrong.contains("valid are `info`, `warning`, `critical`"), "{wrong}");
        let wrong = "warnings".parse::<FailOn>().unwrap_err().to_string();
        assert!(wrong.ends_with("did you mean `warning`?"), "{wrong}");
    }
}
