//! Two runs beside each other: what changed, and whether that is too much.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::summary::{Group, Summary};
use runlore_core::settings::Bytes;
use runlore_core::{Error, ErrorKind, Result};

/// Something a run or an activity can be measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Figure {
    /// How long the run took; of an activity, its tasks on average. In nanoseconds.
    Duration,
    /// How long all tasks took together, in nanoseconds.
    Total,
    /// The duration that half of the tasks did not exceed, in nanoseconds.
    P50,
    /// The duration that 95 of 100 tasks did not exceed, in nanoseconds.
    P95,
    /// The duration that 99 of 100 tasks did not exceed, in nanoseconds.
    P99,
    /// The longest task, in nanoseconds.
    Max,
    /// Processor time, in nanoseconds.
    Cpu,
    /// The most resident memory that was seen, in bytes.
    Rss,
    /// Bytes from disks.
    Read,
    /// Bytes to disks.
    Written,
    /// Energy, in joules.
    Energy,
    /// Tasks that ended by an error.
    Errors,
    /// All tasks.
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
    /// Every figure.
    pub fn all() -> impl Iterator<Item = Figure> {
        FIGURES.into_iter().map(|(_, figure)| figure)
    }

    /// Its name, as a [`Limit`] has it.
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

/// What a run is compared by: how long it took, and its tasks by activity.
#[derive(Debug, Clone)]
pub struct Measured {
    duration: Option<Duration>,
    tasks: Summary,
}

impl Measured {
    /// A run that took so long, with its tasks by `activity_id`.
    pub fn new(duration: Option<Duration>, tasks: Summary) -> Self {
        Self { duration, tasks }
    }

    /// All of its tasks as one group, then each activity.
    fn groups(&self) -> Vec<(Option<String>, Group)> {
        let activities = self.tasks.groups().into_iter().map(|group| (Some(group.name()), group));
        std::iter::once((None, self.tasks.all())).chain(activities).collect()
    }
}

/// Two runs beside each other.
///
/// ```
/// use std::time::Duration;
/// use runlore::query::{Comparison, Figure, Limit, Measured, Summary};
/// use serde_json::json;
///
/// let run = |milliseconds: u64| {
///     let mut tasks = Summary::by("activity_id");
///     tasks.add(&json!({"activity_id": "train", "duration_ns": milliseconds * 1_000_000}));
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
#[derive(Debug, Clone)]
pub struct Comparison {
    groups: Vec<Compared>,
}

/// The tasks of one activity, or all, in both runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Compared {
    /// The activity; none for the run as a whole.
    pub activity: Option<String>,
    /// What the first run did; none where it did not do it at all.
    pub before: Option<Group>,
    /// What the second run did.
    pub after: Option<Group>,
    durations: Option<(Option<Duration>, Option<Duration>)>,
}

/// A figure in both runs, as far as each tells it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// In the first run.
    pub before: Option<f64>,
    /// In the second.
    pub after: Option<f64>,
}

impl Change {
    /// By how much it grew.
    pub fn difference(self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    /// By how much it grew in percent of what it was; infinite where it was nothing and no longer is.
    pub fn percent(self) -> Option<f64> {
        match (self.before?, self.difference()?) {
            (_, 0.0) => Some(0.0),
            (before, difference) => Some(difference / before.abs() * 100.0),
        }
    }
}

impl Comparison {
    /// Puts two runs beside each other.
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

    /// The runs as a whole first, then each activity: those of the first run by the time they took, then those that
    /// only the second has.
    pub fn groups(&self) -> &[Compared] {
        &self.groups
    }

    /// A figure of an activity, or of the runs as a whole; none where neither run has that activity.
    pub fn change(&self, activity: Option<&str>, figure: Figure) -> Option<Change> {
        let group = self.groups.iter().find(|group| group.activity.as_deref() == activity)?;
        Some(group.change(figure))
    }
}

impl Compared {
    /// A figure in both runs.
    pub fn change(&self, figure: Figure) -> Change {
        if let (Figure::Duration, Some((before, after))) = (figure, self.durations) {
            let nanos = |duration: Duration| duration.as_nanos() as f64;
            return Change { before: before.map(nanos), after: after.map(nanos) };
        }
        let of = |group: &Option<Group>| group.as_ref().and_then(|group| figure.of_group(group));
        Change { before: of(&self.before), after: of(&self.after) }
    }
}

/// How much a figure may change: `duration:+20%`, `errors:+0`, `train.p95:+50%`, `tasks:-10%`, `rss:+64MiB`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    activity: Option<String>,
    figure: Figure,
    allowed: Allowed,
}

/// A change that is allowed: `+20%`, `-3`, `+64MiB`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowed {
    /// Below nought: how much it may fall.
    change: f64,
    in_percent: bool,
    falls: bool,
}

impl Limit {
    /// The activity it is about; none for the run as a whole.
    pub fn activity(&self) -> Option<&str> {
        self.activity.as_deref()
    }

    /// What it bounds.
    pub fn figure(&self) -> Figure {
        self.figure
    }

    /// The change, where it is more than is allowed.
    ///
    /// # Errors
    ///
    /// Where one of the runs does not tell the figure: a bound that cannot be checked must not pass for kept.
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
        // Activities may have dots in their names, figures have none.
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
    /// Whether a change is more than this; none where it is not known.
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
        // `inf` and `-5` are numbers to the parser, and no bounds.
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
            summary.add(&json!({"activity_id": name, "duration_ns": nanos, "status": status}));
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
