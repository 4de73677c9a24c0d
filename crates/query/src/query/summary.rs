//! Summaries of many tasks: their number, durations, outcomes and resource usage.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::engine::path::value_at;
use runlore_core::record::{Status, TaskObject};

/// Tasks grouped by a field, the group with the longest total duration first.
///
/// ```
/// use runlore::query::Summary;
/// use runlore::record::{Status, TaskObject};
///
/// let task = |name: &str, status, ns| TaskObject {
///     activity_id: Some(name.into()),
///     status: Some(status),
///     duration_ns: Some(ns),
///     ..TaskObject::default()
/// };
/// let mut summary = Summary::by("activity_id");
/// summary.add(&task("load", Status::Finished, 1_000));
/// summary.add(&task("load", Status::Error, 3_000));
/// summary.add(&task("train", Status::Finished, 9_000));
///
/// let groups = summary.groups();
/// assert_eq!(groups[0].name(), "train");
/// let load = &groups[1];
/// assert_eq!((load.tasks, load.errors), (2, 1));
/// assert_eq!(load.duration.unwrap().mean.as_nanos(), 2_000);
/// assert_eq!(summary.all().tasks, 3);
/// ```
#[derive(Debug, Clone)]
pub struct Summary {
    by: String,
    /// Keyed by the value's JSON text, so that `1` and `"1"` differ as they do in a record.
    groups: HashMap<String, Collected>,
}

/// The tasks of a [`Summary`] that share a value of its field. In JSON, the names of durations end
/// with `_ns` and those of sizes with `_bytes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The shared value. Null if the tasks do not have the field.
    pub key: Value,
    /// The number of tasks.
    pub tasks: u64,
    /// The number of tasks that failed.
    pub errors: u64,
    /// The number of tasks that have not ended.
    pub running: u64,
    /// The durations of the tasks. `None` if no task has one.
    #[serde(flatten)]
    pub duration: Option<Distribution>,
    /// CPU time of the tasks and of the processes they ran. The time of tasks that they called
    /// counts for those tasks instead.
    #[serde(
        rename = "cpu_ns",
        serialize_with = "optional_nanos",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu: Option<Duration>,
    /// The largest resident memory of the process at the start or end of a task. For a task that
    /// ran a command, the peak of that command, if the system reports it.
    #[serde(rename = "peak_rss_bytes", skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<u64>,
    /// Bytes read from disks by the tasks and the processes they ran, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to disks by the tasks and the processes they ran, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Energy used while the tasks ran, without the tasks inside them, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
}

/// The distribution of durations. A percentile is the duration of an actual task at that rank,
/// never interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Distribution {
    /// The number of tasks that have a duration.
    #[serde(rename = "counted")]
    pub count: u64,
    /// The sum of all durations.
    #[serde(rename = "total_ns", serialize_with = "nanos")]
    pub total: Duration,
    /// The total divided by the count.
    #[serde(rename = "mean_ns", serialize_with = "nanos")]
    pub mean: Duration,
    /// The shortest duration.
    #[serde(rename = "min_ns", serialize_with = "nanos")]
    pub min: Duration,
    /// The longest duration.
    #[serde(rename = "max_ns", serialize_with = "nanos")]
    pub max: Duration,
    /// The duration that half of the tasks did not exceed.
    #[serde(rename = "p50_ns", serialize_with = "nanos")]
    pub p50: Duration,
    /// The duration that 95 of 100 tasks did not exceed.
    #[serde(rename = "p95_ns", serialize_with = "nanos")]
    pub p95: Duration,
    /// The duration that 99 of 100 tasks did not exceed.
    #[serde(rename = "p99_ns", serialize_with = "nanos")]
    pub p99: Duration,
}

#[derive(Debug, Clone, Default)]
struct Collected {
    group: Group,
    /// Every duration in nanoseconds. Eight bytes per task allow exact percentiles.
    durations: Vec<u64>,
}

impl Summary {
    /// The fields of a task that a summary reads, besides the one it groups by.
    #[doc(hidden)]
    pub const FIELDS: [&str; 12] = [
        "task_id",
        "status",
        "duration_ns",
        "started_at",
        "ended_at",
        "resources.cpu_ns.self",
        "resources.child",
        "resources.read_bytes.self",
        "resources.write_bytes.self",
        "resources.joules.self",
        "telemetry_at_start.process.memory.rss",
        "telemetry_at_end.process.memory.rss",
    ];

    /// Creates an empty summary that groups by a field, such as `activity_id`, `status` or
    /// `used.learning_rate`.
    pub fn by(field: &str) -> Self {
        Self { by: field.to_owned(), groups: HashMap::new() }
    }

    /// Adds a task.
    pub fn add(&mut self, task: &TaskObject) {
        let key = match self.by.split_once('.') {
            None => task.field(&self.by),
            Some((name, path)) => task
                .field(name)
                .and_then(|it| it.as_object().and_then(|it| value_at(it, path)).cloned()),
        };
        let key = key.unwrap_or_default();
        let text = key.to_string();
        let collected = match self.groups.get_mut(&text) {
            Some(collected) => collected,
            None => {
                let group = Group { key, ..Group::default() };
                self.groups.entry(text).or_insert(Collected { group, durations: Vec::new() })
            }
        };
        collected.add(task);
    }

    /// Returns the groups, longest total duration first. Ties are ordered by key.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<(&String, Group)> =
            self.groups.iter().map(|(text, collected)| (text, collected.finished())).collect();
        let total = |group: &Group| group.duration.map(|duration| duration.total);
        groups.sort_by(|(text, one), (other_text, other)| {
            total(other).cmp(&total(one)).then_with(|| text.cmp(other_text))
        });
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns all tasks as one group.
    pub fn all(&self) -> Group {
        let mut all = Collected::default();
        for Collected { group, durations } in self.groups.values() {
            all.durations.extend_from_slice(durations);
            let sum = &mut all.group;
            sum.tasks += group.tasks;
            sum.errors += group.errors;
            sum.running += group.running;
            add_to(&mut sum.cpu, group.cpu);
            add_to(&mut sum.read_bytes, group.read_bytes);
            add_to(&mut sum.write_bytes, group.write_bytes);
            add_to(&mut sum.joules, group.joules);
            sum.peak_rss = sum.peak_rss.max(group.peak_rss);
        }
        all.finished()
    }
}

/// Serializes the [groups](Summary::groups).
impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.groups().serialize(to)
    }
}

impl Group {
    /// Returns the shared value as text. `(none)` if the tasks do not have the field.
    pub fn name(&self) -> String {
        match &self.key {
            Value::Null => "(none)".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl Collected {
    fn add(&mut self, task: &TaskObject) {
        let group = &mut self.group;
        group.tasks += 1;
        match task.status {
            Some(Status::Error) => group.errors += 1,
            Some(Status::Running) => group.running += 1,
            _ => {}
        }
        let duration = task.duration().and_then(|it| u64::try_from(it.as_nanos()).ok());
        self.durations.extend(duration);
        add_to(&mut group.cpu, task.own_cpu());
        let resource = |path: &str| value_at(task.resources.as_ref()?, path);
        let whole = |path: &str| resource(path).and_then(Value::as_u64);
        let sum =
            |paths: [&str; 2]| paths.into_iter().filter_map(whole).reduce(u64::saturating_add);
        add_to(&mut group.read_bytes, sum(["read_bytes.self", "child.read_bytes"]));
        add_to(&mut group.write_bytes, sum(["write_bytes.self", "child.write_bytes"]));
        add_to(&mut group.joules, resource("joules.self").and_then(Value::as_f64));
        group.peak_rss = group.peak_rss.max(whole("child.peak_rss_bytes"));
        // The memory of the process that started a command says nothing about the command.
        if resource("child").is_none() {
            for telemetry in
                [&task.telemetry_at_start, &task.telemetry_at_end].into_iter().flatten()
            {
                let rss = value_at(telemetry, "process.memory.rss").and_then(Value::as_u64);
                group.peak_rss = group.peak_rss.max(rss);
            }
        }
    }

    fn finished(&self) -> Group {
        let mut durations = self.durations.clone();
        durations.sort_unstable();
        Group { duration: Distribution::of_sorted(&durations), ..self.group.clone() }
    }
}

impl Distribution {
    /// Computes the distribution of durations in nanoseconds, shortest first. `None` without any.
    fn of_sorted(durations: &[u64]) -> Option<Self> {
        let (&min, &max) = (durations.first()?, durations.last()?);
        let total: u128 = durations.iter().map(|&duration| u128::from(duration)).sum();
        let count = durations.len();
        let rank = |percent: usize| durations[(count * percent).div_ceil(100).max(1) - 1];
        let nanos = Duration::from_nanos;
        Some(Self {
            count: count as u64,
            total: nanos(u64::try_from(total).unwrap_or(u64::MAX)),
            mean: nanos((total / count as u128) as u64),
            min: nanos(min),
            max: nanos(max),
            p50: nanos(rank(50)),
            p95: nanos(rank(95)),
            p99: nanos(rank(99)),
        })
    }
}

pub(super) fn nanos<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

pub(super) fn optional_nanos<S: Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => nanos(duration, to),
        None => to.serialize_none(),
    }
}

fn add_to<T: std::ops::AddAssign + Default>(sum: &mut Option<T>, more: Option<T>) {
    if let Some(more) = more {
        *sum.get_or_insert_default() += more;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn add(summary: &mut Summary, task: Value) {
        summary.add(&serde_json::from_value(task).unwrap());
    }

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let sorted: Vec<u64> = (1..=200).collect();
        let spread = Distribution::of_sorted(&sorted).unwrap();
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        assert_eq!((nanos(spread.p50), nanos(spread.p95), nanos(spread.p99)), (100, 190, 198));
        let one = Distribution::of_sorted(&[7]).unwrap();
        assert_eq!((nanos(one.p50), nanos(one.p99), nanos(one.mean)), (7, 7, 7));
        assert_eq!(Distribution::of_sorted(&[]), None);
    }

    #[test]
    fn what_is_not_known_is_not_nought() {
        let mut summary = Summary::by("used.lr");
        add(&mut summary, json!({"used": {"lr": 0.1}}));
        add(&mut summary, json!({"used": {"lr": "0.1"}, "resources": {"cpu_ns": {"self": 5}}}));
        add(&mut summary, json!({"started_at": 10.0, "ended_at": 10.5}));
        let groups = summary.groups();
        assert_eq!(groups.iter().map(Group::name).collect::<Vec<_>>(), ["(none)", "0.1", "0.1"]);
        assert_eq!(groups[0].duration.unwrap().total, Duration::from_millis(500));
        assert_eq!(groups.iter().filter(|group| group.cpu.is_some()).count(), 1);
        let all = summary.all();
        assert_eq!((all.tasks, all.cpu, all.joules), (3, Some(Duration::from_nanos(5)), None));
    }

    #[test]
    fn memory_is_the_most_that_was_seen() {
        let mut summary = Summary::by("activity_id");
        let seen = |rss: u64| json!({"process": {"memory": {"rss": rss}}});
        add(&mut summary, json!({"telemetry_at_start": seen(10), "telemetry_at_end": seen(30)}));
        add(&mut summary, json!({"telemetry_at_start": seen(20), "telemetry_at_end": seen(15)}));
        assert_eq!(summary.all().peak_rss, Some(30));
    }

    #[test]
    fn what_a_command_used_is_not_that_of_the_process_that_ran_it() {
        let ran = |child: Value| {
            let mut summary = Summary::by("activity_id");
            let seen = json!({"process": {"memory": {"rss": 30}}});
            let own = json!({"inclusive": 1, "self": 1});
            let resources = json!({"child": child, "write_bytes": own});
            add(&mut summary, json!({"telemetry_at_end": seen, "resources": resources}));
            let all = summary.all();
            (all.peak_rss, all.read_bytes, all.write_bytes)
        };
        let told = json!({"user_ns": 1, "peak_rss_bytes": 20, "read_bytes": 5, "write_bytes": 7});
        assert_eq!(ran(told), (Some(20), Some(5), Some(8)));
        assert_eq!(ran(json!({"user_ns": 1})), (None, None, Some(1)));
    }
}
