//! Findings of an analysis, as plain data.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kind::Kind;
use super::text;

/// A result of an analysis: what was found, where, with what confidence, and what to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding.
    pub kind: Kind,
    /// How much the finding matters.
    pub severity: Severity,
    /// The confidence, from 0 (a guess) to 1 (certain).
    pub confidence: f64,
    /// The finding in one sentence.
    pub what: String,
    /// Where and when it was seen. The field is `where` in JSON.
    #[serde(rename = "where")]
    pub place: Place,
    /// The numbers behind the finding. The suffix of a name is the unit: `_bytes`, `_ns`, `_ratio`,
    /// `_count`.
    pub evidence: Map<String, Value>,
    /// What to try next, the most promising first. The field is `try` in JSON.
    #[serde(rename = "try")]
    pub to_try: Vec<String>,
}

/// Where something was seen. Fields that are unknown or do not apply are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of events and tasks")]
pub struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The time span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// A time span in Unix nanoseconds. Includes both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Window {
    /// Returns the length in nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the shortest window that contains both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns) }
    }
}

/// How much a finding matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Worth stopping for.
    Critical,
}

impl Severity {
    /// All severities, the mildest first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// Returns the name of the severity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Finding {
    /// Returns the evidence for people, as labels and formatted values. `moment` formats a
    /// timestamp in Unix nanoseconds, because only the caller knows the time zone.
    ///
    /// ```
    /// use runlore::analyze::Finding;
    ///
    /// let finding: Finding = serde_json::from_str(
    ///     r#"{"kind": "oom", "severity": "critical", "confidence": 1.0, "what": "memory ran out", "where": {},
    ///     "evidence": {"free_bytes": 1536, "used_ratio": 0.98}, "try": []}"#,
    /// )?;
    /// let told = finding.evidence_in_words(|at_ns| at_ns.to_string());
    /// assert_eq!(told[0], ("free".to_owned(), "1.5 KiB".to_owned()));
    /// assert_eq!(told[1], ("used".to_owned(), "98.0 %".to_owned()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn evidence_in_words(&self, moment: impl Fn(u64) -> String) -> Vec<(String, String)> {
        self.evidence.iter().map(|(name, value)| text::evidence(name, value, &moment)).collect()
    }

    #[doc(hidden)]
    pub fn new(kind: Kind, severity: Severity, confidence: f64, what: String) -> Self {
        let confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
        Self {
            kind,
            severity,
            // More digits would pretend more precision than there is.
            confidence: (confidence * 1000.0).round() / 1000.0,
            what,
            place: Place::default(),
            evidence: Map::new(),
            to_try: kind.to_try().iter().map(|&text| text.to_owned()).collect(),
        }
    }

    #[doc(hidden)]
    pub fn at(mut self, place: &Place, window: Option<Window>) -> Self {
        self.place = Place { window, ..place.clone() };
        self
    }

    #[doc(hidden)]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name.to_owned(), value.into());
        self
    }
}

impl Place {
    /// Returns whether the places belong to several jobs, so that `{:#}` is needed to distinguish
    /// them.
    ///
    /// ```
    /// use runlore::analyze::Place;
    ///
    /// let place = |job: &str| Place { job_id: Some(job.to_owned()), rank: Some(0), ..Place::default() };
    /// let places = [place("train-7"), place("train-8")];
    /// assert!(Place::are_of_several_jobs(&places));
    /// assert_eq!(format!("{}", places[0]), "rank 0");
    /// assert_eq!(format!("{:#}", places[0]), "job train-7, rank 0");
    /// ```
    pub fn are_of_several_jobs<'a>(places: impl IntoIterator<Item = &'a Self>) -> bool {
        let mut jobs = places.into_iter().map(|place| &place.job_id);
        jobs.next().is_some_and(|first| jobs.any(|job| job != first))
    }
}

/// Formats the place as text, such as `rank 2, device 0 of node7`. Empty if nothing is known.
/// `{:#}` includes the job.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let job = self.job_id.as_ref().filter(|_| f.alternate());
        parts.extend(job.map(|job| format!("job {job}")));
        parts.extend(self.activity_id.as_ref().map(|name| format!("activity {name}")));
        parts.extend(self.task_id.as_ref().map(|id| format!("task {id}")));
        parts.extend(self.rank.map(|rank| format!("rank {rank}")));
        parts.extend(self.device_id.map(|device| match device {
            ..0 => "processor".to_owned(),
            device => format!("device {device}"),
        }));
        f.write_str(&parts.join(", "))?;
        match &self.host {
            Some(host) if parts.is_empty() => f.write_str(host),
            Some(host) => write!(f, " of {host}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.to_string();
        let separator = if place.is_empty() { "" } else { ": " };
        write!(f, "{} {}: {place}{separator}{}", self.severity, self.kind, self.what)
    }
}

/// Sorts findings, the worst first: by severity, then confidence, then kind, then place.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|one, other| {
        other
            .severity
            .cmp(&one.severity)
            .then(other.confidence.total_cmp(&one.confidence))
            .then(one.kind.cmp(&other.kind))
            .then(one.place.rank.cmp(&other.place.rank))
            .then(one.place.device_id.cmp(&other.place.device_id))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_comes_back_from_json() {
        let place = Place { rank: Some(2), device_id: Some(0), ..Place::default() };
        let window = Some(Window { start_ns: 1, end_ns: 3 });
        let finding = Finding::new(Kind::OutOfMemory, Severity::Critical, 1.0, "x".to_owned())
            .at(&place, window)
            .with("free_bytes", 7);
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(json["kind"], "oom");
        assert_eq!(json["where"]["window"]["end_ns"], 3);
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
        assert_eq!(finding.to_string(), "critical oom: rank 2, device 0: x");
    }
}
