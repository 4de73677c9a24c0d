//! Compares two runs, and checks their differences against limits.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::summary::{Group, Summary, optional_nanos};
use runlore_core::settings::Bytes;
use runlore_core::{Error, ErrorKind, Result};

/// A quantity by which a run or an activity is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Figure {
    /// The duration of the run; for an activity, the mean duration of its tasks. In nanoseconds.
    Duration,
    /// The sum of the durations of all tasks, in nanoseconds.
    Total,
    /// The duration that half of the tasks did not exceed, in nanoseconds.
    P50,
    /// The duration that 95 of 100 tasks did not exceed, in nanoseconds.
    P95,
    /// The duration that 99 of 100 tasks did not exceed, in nanoseconds.
    P99,
    /// The duration of the longest task, in nanoseconds.
    Max,
    /// CPU time, in nanoseconds.
    Cpu,
    /// The largest resident memory that was seen, in bytes.
    Rss,
    /// Bytes read from disks.
    Read,
    /// Bytes written to disks.
    Written,
    /// Energy, in joules.
    Energy,
    /// The number of tasks that failed.
    Errors,
    /// The number of all tasks.
    Tasks,
}

/// Every figure with its name.
const FIGURES: [(&str, Figure); 13] = [
    ("duration", Figure::Duration),
    ("total", Figure::Total),
    ("p50", Figure::P50),
    ("p95", Figure::P95),
    ("p99", Figure::P99),
    ("max", Figure::Max),
    ("cpu", Figure::Cpu),
    ("rss", Figure::Rss),
    ("read", Figure::Read),
    ("written", Figure::Written),
    ("energy", Figure::Energy),
    ("errors", Figure::Errors),
    ("tasks", Figure::Tasks),
];

impl Figure {
    /// Returns every figure.
    pub fn all() -> impl Iterator<Item = Figure> {
        FIGURES.into_iter().map(|(_, figure)| figure)
    }

    /// Returns the figure's name, as used in a [`Limit`].
    pub fn name(self) -> &'static str {
        FIGURES.iter().find(|(_, figure)| *figure == self).map_or("", |(name, _)| name)
    }

    fn of_group(self, group: &Group) -> Option<f64> {
        let nanos = |duration: Duration| duration.as_nanos() as f64;
        let spread = group.duration;
        match self {
            Figure::Duration => spread.map(|spread| nanos(spread.mean)),
            Figure::Total => spread.map(|spread| nanos(spread.total)),
            Figure::P50 => spread.map(|spread| nanos(spread.p50)),
            Figure::P95 => spread.map(|spread| nanos(spread.p95)),
            Figure::P99 => spread.map(|spread| nanos(spread.p99)),
            Figure::Max => spread.map(|spread| nanos(spread.max)),
            Figure::Cpu => group.cpu.map(nanos),
            Figure::Rss => group.peak_rss.map(|bytes| bytes as f64),
            Figure::Read => group.read_bytes.map(|bytes| bytes as f64),
            Figure::Written => group.write_bytes.map(|bytes| bytes as f64),
            Figure::Energy => group.joules,
            Figure::Errors => Some(group.errors as f64),
            Figure::Tasks => Some(group.tasks as f64),
        }
    }
}

/// The measurements of a run that are compared: its duration, and its tasks by activity.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    #[serde(rename = "duration_ns", serialize_with = "optional_nanos")]
    duration: Option<Duration>,
    tasks: Summary,
}

impl Measured {
    /// Combines the duration of a run with a summary of its tasks by `activity_id`.
    pub fn new(duration: Option<Duration>, tasks: Summary) -> Self {
        Self { duration, tasks }
    }

    /// Returns all tasks as one group, followed by one group per activity.
    fn groups(&self) -> Vec<(Option<String>, Group)> {
        let activities = self.tasks.groups().into_iter().map(|group| (Some(group.name()), group));
        std::iter::once((None, self.tasks.all())).chain(activities).collect()
    }
}

/// A comparison of two runs.
///
/// ```
/// use std::time::Duration;
/// use runlore::query::{Comparison, Figure, Limit, Measured, Summary};
/// use runlore::record::TaskObject;
///
/// let run = |milliseconds: u64| {
///     let mut tasks = Summary::by("activity_id");
///     tasks.add(&TaskObject {
///         activity_id: Some("train".into()),
///         duration_ns: Some(milliseconds * 1_000_000),
///         ..TaskObject::default()
///     });
///     Measured::new(Some(Duration::from_millis(milliseconds)), tasks)
/// };
/// let comparison = Comparison::new(&run(100), &run(130));
/// assert_eq!(comparison.change(None, Figure::Duration).unwrap().percent(), Some(30.0));
///
/// let limit: Limit = "train.duration:+20%".parse()?;
/// let exceeded = limit.check(&comparison)?.unwrap();
/// assert_eq!(exceeded.percent(), Some(30.0));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    groups: Vec<Compared>,
}

/// The tasks of one activity, or all tasks, in both runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Compared {
    /// The activity. `None` for the run as a whole.
    pub activity: Option<String>,
    /// The tasks of the first run. `None` if it does not have the activity.
    pub before: Option<Group>,
    /// The tasks of the second run. `None` if it does not have the activity.
    pub after: Option<Group>,
    durations: Option<(Option<Duration>, Option<Duration>)>,
}

/// A figure in both runs, as far as each run has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The value in the first run.
    pub before: Option<f64>,
    /// The value in the second run.
    pub after: Option<f64>,
}

impl Change {
    /// Returns the increase. `None` if a run does not have the figure.
    pub fn difference(self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    /// Returns the increase in percent of the first value. Infinite if that is zero and the second
    /// is not. `None` if a run does not have the figure.
    pub fn percent(self) -> Option<f64> {
        match (self.before?, self.difference()?) {
            (_, 0.0) => Some(0.0),
            (before, difference) => Some(difference / before.abs() * 100.0),
        }
    }
}

impl Comparison {
    /// Compares two runs.
    pub fn new(before: &Measured, after: &Measured) -> Self {
        let mut groups: Vec<Compared> = before
            .groups()
            .into_iter()
            .map(|(activity, group)| Compared {
                durations: activity.is_none().then_some((before.duration, after.duration)),
                activity,
                before: Some(group),
                after: None,
            })
            .collect();
        for (activity, group) in after.groups() {
            match groups.iter_mut().find(|known| known.activity == activity) {
                Some(known) => known.after = Some(group),
                None => groups.push(Compared {
                    activity,
                    before: None,
                    after: Some(group),
                    durations: None,
                }),
            }
        }
        Self { groups }
    }

    /// Returns the runs as a whole first, then each activity: those of the first run by total
    /// duration, then those that only the second run has.
    pub fn groups(&self) -> &[Compared] {
        &self.groups
    }

    /// Returns a figure of an activity, or of the runs as a whole for `None`. Returns `None` if
    /// neither run has the activity.
    pub fn change(&self, activity: Option<&str>, figure: Figure) -> Option<Change> {
        let group = self.groups.iter().find(|group| group.activity.as_deref() == activity)?;
        Some(group.change(figure))
    }
}

impl Compared {
    /// Returns a figure in both runs.
    pub fn change(&self, figure: Figure) -> Change {
        if let (Figure::Duration, Some((before, after))) = (figure, self.durations) {
            let nanos = |duration: Duration| duration.as_nanos() as f64;
            return Change { before: before.map(nanos), after: after.map(nanos) };
        }
        let of = |group: &Option<Group>| group.as_ref().and_then(|group| figure.of_group(group));
        Change { before: of(&self.before), after: of(&self.after) }
    }
}

/// Serializes the activity and the change of each figure that a run has.
impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let changes = Figure::all().map(|figure| (figure.name(), self.change(figure)));
        let known = changes.filter(|(_, change)| change.before.or(change.after).is_some());
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("activity", &self.activity)?;
        map.serialize_entry("changes", &known.collect::<BTreeMap<_, _>>())?;
        map.end()
    }
}

/// How much a figure may change: `duration:+20%`, `errors:+0`, `train.p95:+50%`, `tasks:-10%`,
/// `rss:+64MiB`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    activity: Option<String>,
    figure: Figure,
    allowed: Allowed,
}

/// An allowed change: `+20%`, `-3`, `+64MiB`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowed {
    /// The largest allowed increase. If negative, the largest allowed decrease.
    change: f64,
    in_percent: bool,
    falls: bool,
}

impl Limit {
    /// Returns the activity that the limit applies to. `None` for the run as a whole.
    pub fn activity(&self) -> Option<&str> {
        self.activity.as_deref()
    }

    /// Returns the figure that is limited.
    pub fn figure(&self) -> Figure {
        self.figure
    }

    /// Returns the change if it exceeds the limit. `None` if it is within the limit.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the runs does not have the figure: a limit that cannot be checked
    /// must not count as met.
    pub fn check(&self, comparison: &Comparison) -> Result<Option<Change>> {
        let change = comparison.change(self.activity(), self.figure);
        let change = change.unwrap_or(Change { before: None, after: None });
        let Some(is_exceeded) = self.allowed.is_exceeded(change) else {
            let which = match (change.before, change.after) {
                (None, None) => "neither run tells",
                (None, Some(_)) => "the first run does not tell",
                _ => "the second run does not tell",
            };
            return Err(Error::new(
                ErrorKind::Query,
                format!("`{self}` cannot be checked: {which} it"),
            ));
        };
        Ok(is_exceeded.then_some(change))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(activity) = &self.activity {
            write!(f, "{activity}.")?;
        }
        write!(f, "{}:{}", self.figure.name(), self.allowed)
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, in_percent, falls } = self;
        let sign = if *falls { '-' } else { '+' };
        let percent = if *in_percent { "%" } else { "" };
        write!(f, "{sign}{}{percent}", change.abs())
    }
}

impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String| {
            let known: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            let form = "a limit is FIGURE:+N% or ACTIVITY.FIGURE:+N, as in duration:+20%";
            Error::new(ErrorKind::Query, format!("{what}; {form}, and a figure is one of {known}"))
        };
        let (what, allowed) = text
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| wrong(format!("{text:?} does not say how much is allowed")))?;
        // Activity names may contain dots, figure names do not.
        let (activity, name) = match what.rsplit_once('.') {
            Some((activity, name)) => (Some(activity.to_owned()), name),
            None => (None, what),
        };
        let figure = FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
        let figure = figure.ok_or_else(|| wrong(format!("there is no figure {name:?}")))?;
        let allowed = Allowed::parse(allowed)
            .ok_or_else(|| wrong(format!("{allowed:?} is not a change such as +20% or +3")))?;
        Ok(Self { activity, figure, allowed })
    }
}

impl Allowed {
    /// Returns whether a change exceeds this one. `None` if a run does not have the figure.
    pub fn is_exceeded(&self, change: Change) -> Option<bool> {
        let grown = if self.in_percent { change.percent()? } else { change.difference()? };
        Some(if self.falls { grown < self.change } else { grown > self.change })
    }

    pub fn parse(text: &str) -> Option<Self> {
        let falls = text.starts_with('-');
        let number = text.strip_prefix(['+', '-'])?;
        let (number, in_percent) = match number.strip_suffix('%') {
            Some(number) => (number, true),
            None => (number, false),
        };
        // Rust also parses `inf` and `-5` as numbers, but they are no valid limits.
        if !number.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let size = || number.parse::<Bytes>().ok().map(|bytes| bytes.get() as f64);
        let number = number.parse::<f64>().ok().or_else(|| size().filter(|_| !in_percent));
        let number = number.filter(|number| number.is_finite())?;
        Some(Self { change: if falls { -number } else { number }, in_percent, falls })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(tasks: &[(&str, u64, &str)]) -> Measured {
        let mut summary = Summary::by("activity_id");
        for (name, nanos, status) in tasks {
            let task = json!({"activity_id": name, "duration_ns": nanos, "status": status});
            summary.add(&serde_json::from_value(task).unwrap());
        }
        Measured::new(Some(Duration::from_nanos(1000)), summary)
    }

    #[test]
    fn limits_say_when_they_are_exceeded() {
        let before = run(&[("a.b", 100, "FINISHED"), ("old", 1, "FINISHED")]);
        let after = run(&[("a.b", 120, "ERROR"), ("new", 1, "FINISHED")]);
        let comparison = Comparison::new(&before, &after);
        let exceeds = |limit: &str| {
            limit.parse::<Limit>().unwrap().check(&comparison).map(|found| found.is_some())
        };
        for (limit, expected) in [
            ("duration:+0%", false),
            ("a.b.duration:+20%", false),
            ("a.b.duration:+19.9%", true),
            ("a.b.p99:+19", true),
            ("a.b.p99:+1KiB", false),
            ("errors:+0", true),
            ("errors:+1", false),
            ("errors:+500%", true),
            ("tasks:-0", false),
            ("tasks:-1", false),
        ] {
            assert_eq!(exceeds(limit).unwrap(), expected, "{limit}");
        }
        for (limit, reason) in [
            ("rss:+10%", "neither run tells"),
            ("new.duration:+10%", "the first run does not tell"),
            ("old.duration:+10%", "the second run does not tell"),
            ("nothing.duration:+10%", "neither run tells"),
        ] {
            let error = exceeds(limit).unwrap_err().to_string();
            assert_eq!(error, format!("`{limit}` cannot be checked: {reason} it"));
        }
    }

    #[test]
    fn what_is_no_limit_is_told() {
        for wrong in ["duration", "speed:+1%", "duration:20%", "duration:+x", "rss:+inf", "cpu:+-3"]
        {
            let error = wrong.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains("as in duration:+20%"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_limit_reads_as_it_was_written() {
        for text in ["duration:+20%", "a.b.p95:+1.5", "tasks:-10%", "errors:+0"] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
    }
}
