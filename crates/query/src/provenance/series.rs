//! Time series of numbers recorded by tasks.

use serde::Serialize;
use serde_json::Value;

use super::Provenance;
use crate::engine::path::value_at;
use crate::query::Filter;
use runlore_core::Result;

/// The prefix of fields that are read from both captures of a task: at its start and at its end.
const BOTH: &str = "telemetry.";

/// Numbers of tasks over time, created by [`Provenance::timeseries`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimeSeries {
    /// The requested fields.
    pub fields: Vec<String>,
    /// The points, ordered by time.
    pub points: Vec<Point>,
}

/// The values of one task at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The time in Unix seconds.
    pub at: f64,
    /// The id of the task.
    pub task_id: String,
    /// The name of the task.
    pub activity_id: Option<String>,
    /// One value per field. `None` if the task does not have the field, or if it is no number.
    pub values: Vec<Option<f64>>,
}

impl Provenance {
    /// Returns numbers of the matching tasks, ordered by time.
    ///
    /// A field is a path, such as `duration_ns`, `generated.loss` or
    /// `telemetry_at_end.cpu.percent_all`. Its time is the end of the task, or the start for a
    /// field that begins with `telemetry_at_start`. A field such as `telemetry.cpu.percent_all`
    /// covers both captures and gives a point for each.
    ///
    /// ```
    /// use runlore::Provenance;
    /// use runlore::query::field;
    ///
    /// # let file = std::env::temp_dir().join(format!("runlore-doc-series-{}.jsonl", std::process::id()));
    /// # std::fs::write(&file, concat!(
    /// #     r#"{"type":"task","task_id":"e0","activity_id":"epoch","ended_at":1.0,"generated":{"loss":0.5}}"#, "\n",
    /// #     r#"{"type":"task","task_id":"e1","activity_id":"epoch","ended_at":2.0,"generated":{"loss":0.25}}"#, "\n",
    /// # ))?;
    /// let records = Provenance::open(&file)?;
    /// let series = records.timeseries(field("activity_id").eq("epoch"), &["generated.loss"])?;
    /// let losses: Vec<_> = series.points.iter().map(|point| point.values[0]).collect();
    /// assert_eq!(losses, [Some(0.5), Some(0.25)]);
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn timeseries(&self, filter: impl Into<Filter>, fields: &[&str]) -> Result<TimeSeries> {
        let wanted: Vec<Wanted> = fields.iter().map(|field| Wanted::new(field)).collect();
        let asked = ["task_id", "activity_id", "started_at", "ended_at"]
            .into_iter()
            .chain(wanted.iter().flat_map(Wanted::paths));
        let mut points = Vec::new();
        for task in self.tasks().filter(filter).fields(asked).run()? {
            add_points(&mut points, &task?, &wanted);
        }
        points.sort_by(|one: &Point, other| one.at.total_cmp(&other.at));
        Ok(TimeSeries { fields: fields.iter().map(|&field| field.to_owned()).collect(), points })
    }
}

/// The paths of a field: one in the capture at the start, one valid at the end of the task.
struct Wanted {
    at_start: Option<String>,
    at_end: Option<String>,
}

impl Wanted {
    fn new(field: &str) -> Self {
        if let Some(rest) = field.strip_prefix(BOTH) {
            return Self {
                at_start: Some(format!("telemetry_at_start.{rest}")),
                at_end: Some(format!("telemetry_at_end.{rest}")),
            };
        }
        let field = field.to_owned();
        match field.starts_with("telemetry_at_start.") {
            true => Self { at_start: Some(field), at_end: None },
            false => Self { at_start: None, at_end: Some(field) },
        }
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.at_start.iter().chain(&self.at_end).map(String::as_str)
    }
}

fn add_points(points: &mut Vec<Point>, task: &Value, wanted: &[Wanted]) {
    let time = |name: &str| task.get(name).and_then(Value::as_f64);
    let (began, ended) = (time("started_at"), time("ended_at"));
    let mut add = |at: Option<f64>, path: fn(&Wanted) -> Option<&String>| {
        let number = |wanted: &Wanted| value_at(task.as_object()?, path(wanted)?)?.as_f64();
        let values: Vec<Option<f64>> = wanted.iter().map(number).collect();
        let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(at) = at.filter(|_| values.iter().any(Option::is_some)) {
            let task_id = text("task_id").unwrap_or_default();
            points.push(Point { at, task_id, activity_id: text("activity_id"), values });
        }
    };
    add(began, |wanted| wanted.at_start.as_ref());
    // A task without an end time counts at its start.
    add(ended.or(began), |wanted| wanted.at_end.as_ref());
}
