//! What an analysis finds, as plain data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::settings::nearest;
use crate::{Error, ErrorKind, Result};

/// Something worth looking at: what it is, where, how sure that is, and what to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// How much it matters.
    pub severity: Severity,
    /// From 0, a guess, to 1, certain.
    pub confidence: f64,
    /// The finding in one sentence.
    pub what: String,
    /// Where and when it was seen; `where` in JSON.
    #[serde(rename = "where")]
    pub place: Place,
    /// The numbers behind it. The end of a name tells the unit: `_bytes`, `_ns`, `_ratio`, `_count`.
    pub evidence: Map<String, Value>,
    /// What to try next, the most promising first; `try` in JSON.
    #[serde(rename = "try")]
    pub to_try: Vec<String>,
}

/// Where something was seen. What does not apply, or is not known, is none.
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
    /// From when to when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// From when to when, both included, in Unix nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Window {
    /// How long it is.
    pub fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
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
    /// All of them, the mildest first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// The word for it.
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

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = $text:literal, try $to_try:expr;)*) => {
        /// What a [`Finding`] is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])+ #[serde(rename = $text)] $name,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name: `persistent_drift`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What to try about it.
            pub(super) fn to_try(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &$to_try,)*
                }
            }
        }
    };
}

kinds! {
    /// Memory of the device that the allocator does not know of, all the time.
    HiddenMemory = "hidden_memory", try [
        "compare with what the driver's own tool lists for the device: other processes count too",
        "a device context and its libraries take some hundred MiB for each process; fewer processes a device take less",
    ];
    /// Memory outside of the allocator that came and went.
    TransientSpike = "transient_spike", try [
        "look at what ran in that window: workspaces of libraries and buffers for communication are the usual causes",
        "bound the workspaces of the libraries that are used, or fix their algorithms instead of trying them out",
    ];
    /// Memory outside of the allocator that grows and grows.
    PersistentDrift = "persistent_drift", try [
        "look for allocations that pass the allocator by: hand-written kernels, other libraries, handles that stay open",
        "run for longer: if it levels off after the start it is a cost that is paid once",
    ];
    /// Memory outside of the allocator that was taken at one moment and kept.
    Step = "step", try [
        "look at what began at that moment: a library's start, a new communicator, another process on the device",
        "if it comes with every start and never grows, plan for it",
    ];
    /// Memory that the allocator holds and cannot hand out.
    Fragmentation = "fragmentation", try [
        "let the allocator use segments that can grow, or pieces of fewer sizes",
        "allocate what lives long first, and keep the sizes of batches the same",
    ];
    /// Memory that is handed out and never comes back.
    LeakSuspect = "leak_suspect", try [
        "look for what is kept from iteration to iteration: lists of results, caches without a bound, graphs held by a loss",
        "compare two heap or allocator snapshots from the beginning and the end of the window",
    ];
    /// A device that is nearly full.
    HighUtilization = "high_utilization", try [
        "use smaller batches, recompute instead of keeping, or shard over more devices",
        "see which activity runs at the peak: `runlore tree --resources` tells what each used",
    ];
    /// Memory that is handed out and taken back all the time.
    Churn = "churn", try [
        "allocate once and use it again: buffers, staging areas, outputs of fixed shape",
    ];
    /// Memory ran out.
    OutOfMemory = "oom", try [
        "look at the samples just before it, and at the rank that grew first",
        "use smaller batches, or give the allocator room by releasing what is cached",
    ];
    /// The rank that grew before the others did.
    FirstCause = "first_cause", try [
        "look at what this rank did just before: its data, its tasks, its host",
        "compare its timeline with that of another rank on the shared clock",
    ];
    /// Memory outside of the allocator that a collective operation took.
    Collective = "collective", try [
        "buffers of collectives are expected; if they are too large, bound them in the settings of the library",
    ];
    /// Where the time of a run went.
    SlowActivity = "slow_activity", try [
        "begin here: no other activity can give back as much",
    ];
    /// A task that took much longer than others of its kind.
    Outlier = "outlier", try [
        "compare its inputs and its telemetry with those of an ordinary one: `runlore show TASK`",
    ];
    /// Time in which tasks were ready, or running, and not at work.
    Waiting = "waiting", try [
        "find out what it waits for: locks, disks, network, a queue that is too short, other processes on the machine",
    ];
    /// Time in which one task ran while others could have.
    LowParallelism = "low_parallelism", try [
        "split the longest task on the critical path, or start it earlier",
    ];
    /// Memory of the process that grows from iteration to iteration.
    MemoryGrowth = "memory_growth", try [
        "look for what is kept from iteration to iteration: lists of results, caches without a bound",
        "track it while it runs, and look at the timeline: `runlore events analyze` tells a leak from a step",
    ];
    /// Iterations that waited for their data.
    DataLoading = "data_loading", try [
        "load ahead on other threads, and keep what is decoded",
        "move the data to a faster disk, or pack many small files into few",
    ];
    /// A graphics processor that was slowed down.
    ThrottledGpu = "throttled_gpu", try [
        "look at its temperature and power: clean the cooling, raise the power limit, or spread the load",
    ];
    /// A processor quota that was used up.
    ThrottledCpu = "throttled_cpu", try [
        "raise the quota of the container, or use as many threads as it has processors",
    ];
    /// Memory that went to disk and came back.
    Swapping = "swapping", try [
        "use less memory at once, or give the machine more: a run that swaps is a run that waits",
    ];
    /// Disks that held the processors up.
    IoPressure = "io_pressure", try [
        "read and write less often and more at once, or from a faster disk",
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            let hint = nearest::suggestion(text, &names);
            Error::new(ErrorKind::Query, format!("there is no finding `{text}`; {hint}"))
        })
    }
}

impl Finding {
    pub(super) fn new(kind: Kind, severity: Severity, confidence: f64, what: String) -> Self {
        let confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
        Self {
            kind,
            severity,
            // More digits would say more than is known.
            confidence: (confidence * 1000.0).round() / 1000.0,
            what,
            place: Place::default(),
            evidence: Map::new(),
            to_try: kind.to_try().iter().map(|&text| text.to_owned()).collect(),
        }
    }

    pub(super) fn at(mut self, place: &Place, window: Option<Window>) -> Self {
        self.place = Place { window, ..place.clone() };
        self
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name.to_owned(), value.into());
        self
    }
}

/// The place in words: `rank 2, device 0 of node7`; empty where nothing is known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
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

/// Puts the worst first: by severity, then by how sure they are, then by where they are.
pub(super) fn sort(findings: &mut [Finding]) {
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

/// Which findings make a check fail: `warning`, `critical,churn`, `never`.
///
/// A severity stands for findings that are as severe or worse, a kind for all of its findings.
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
    /// Warnings and worse.
    fn default() -> Self {
        Self { severity: Some(Severity::Warning), kinds: Vec::new() }
    }
}

impl FailOn {
    /// Whether a finding of this kind and severity is one of them.
    pub fn includes(&self, kind: Kind, severity: Severity) -> bool {
        self.severity.is_some_and(|least| severity >= least) || self.kinds.contains(&kind)
    }

    /// How many of these findings are among them.
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
                    let kind = word.parse::<Kind>().map_err(|error| {
                        let form = "give a severity (info, warning, critical), kinds of findings, or `never`";
                        Error::new(ErrorKind::Query, format!("{error}; {form}"))
                    })?;
                    fail_on.kinds.push(kind);
                }
            }
        }
        Ok(fail_on)
    }
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

    #[test]
    fn what_fails_a_check_is_said_in_words() {
        let never: FailOn = "never".parse().unwrap();
        assert!(!never.includes(Kind::OutOfMemory, Severity::Critical));
        let both: FailOn = "critical, info".parse().unwrap();
        assert!(both.includes(Kind::Step, Severity::Info));
        let wrong = "persistant_drift".parse::<FailOn>().unwrap_err().to_string();
        assert!(wrong.contains("did you mean `persistent_drift`?"), "{wrong}");
        let wrong = "".parse::<FailOn>().unwrap_err().to_string();
        assert!(wrong.contains("give a severity"), "{wrong}");
    }
}
