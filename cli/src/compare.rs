//! `runlore compare`: compares two runs.

mod events;
mod facts;
mod values;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::Style;
use runlore::query::{Change, Compared, Comparison, Figure, Limit, RunSummary};
use runlore_core::text::printable;
use serde_json::{Map, Value, json};

use self::facts::Difference;
use self::values::Values;
use crate::columns::{Form, Rows};
use crate::failure::say;
use crate::out::{BOLD, DIM, PLAIN, RED, stdout};
use crate::store::Store;
use crate::table::{self, Cell};
use crate::units::{bytes, count, joules, nanoseconds};
use crate::{Done, lost, select};

/// Compare durations and resource usage of two runs, or the memory in event files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore compare a001 a002
  runlore compare a001 train --fail-on duration:+20%,rss:+10%,errors:+0
  runlore compare a001 a002 --fail-on load.p95:+50%
  runlore compare --events run.jsonl --baseline good.jsonl
  runlore compare --events good.jsonl --save-baseline memory.json
  runlore compare --events run.jsonl --baseline memory.json --fail-on peak:+20%,slope:+1MiB

A limit is FIGURE:+N% or FIGURE:+N, or ACTIVITY.FIGURE:+N% for one activity. -N% limits a decrease. The figures are
duration (the mean for an activity), total, p50, p95, p99, max, cpu, rss, read, written, energy, errors and tasks; times
are in nanoseconds, memory and disk transfers in bytes, energy in joules. The figures of events are peak (the most
memory allocated), reserved, used, and slope in bytes per second. A slope that adds up to less than 1 % of the peak over
the run is ignored.

Exit codes: 0 success, 1 an error, 2 a limit is exceeded.")]
pub(crate) struct Args {
    /// The earlier run: its id, a part of it, or its name
    #[arg(required_unless_present = "events", requires = "after")]
    before: Option<String>,

    /// The later run
    after: Option<String>,

    /// Compare these event files, sinks or bundles with a baseline
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., conflicts_with = "before")]
    events: Vec<PathBuf>,

    /// The baseline for events: a stored one, or event files, sinks or bundles
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., requires = "events", conflicts_with = "before")]
    baseline: Vec<PathBuf>,

    /// Store the figures of the events as a baseline
    #[arg(long, value_name = "FILE", requires = "events", conflicts_with = "before")]
    save_baseline: Option<PathBuf>,

    /// Limits; if one is exceeded, the exit code is 2
    #[arg(long, value_name = "LIMIT", value_delimiter = ',')]
    fail_on: Vec<String>,

    #[command(flatten)]
    form: Form,
}

impl Args {
    pub(crate) fn without_store(&self) -> Option<&'static str> {
        self.before.is_none().then_some("events are read from files")
    }
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let (Some(before), Some(after)) = (&args.before, &args.after) else {
        return events::run(args);
    };
    let limits: Vec<Limit> =
        args.fail_on.iter().map(|limit| limit.parse()).collect::<Result<_, _>>()?;
    let records = store.open()?;
    let runs = store.listed(&records)?;
    let before = select::run(&runs, Some(before), store)?;
    let after = select::run(&runs, Some(after), store)?;
    if before.workflow.workflow_id == after.workflow.workflow_id {
        let id = &before.workflow.workflow_id;
        say(&format!("both arguments select the run {id}; `runlore ls` lists the others"));
    }
    let comparison = Comparison::new(
        &records.measured(&before.workflow.workflow_id)?,
        &records.measured(&after.workflow.workflow_id)?,
    );
    store.tell(&records);

    // Check the limits before writing anything, because a limit that cannot be checked is an error.
    let mut exceeded = Vec::new();
    for limit in &limits {
        exceeded.extend(limit.check(&comparison)?.map(|change| (limit, change)));
    }
    let of_runs = facts::differences(&before.workflow, &after.workflow);
    let values = |run: &RunSummary| Values::of(&records, &run.workflow.workflow_id);
    let of_values = values::differences(&values(before)?, &values(after)?);
    let mut out = stdout();
    let runs = [("before", &before.workflow), ("after", &after.workflow)];
    let lost = runs.into_iter().filter_map(|(when, run)| Some((when, lost::told([run])?)));
    if !args.form.is_table() {
        lost.clone().for_each(|(when, lost)| say(&format!("{when} is {lost}")));
    }
    if args.form.is_table() {
        for (when, lost) in lost {
            writeln!(out, "{RED}{when} is {}{RED:#}", printable(&lost))?;
        }
        facts::write(&mut out, &before.workflow, &after.workflow)?;
        for difference in &of_runs {
            difference.write(&mut out)?;
        }
        writeln!(out)?;
        values::write(&mut out, &of_values)?;
        write_whole(&mut out, &comparison)?;
        write_activities(&mut out, &comparison)?;
    } else {
        let columns = ["activity", "figure", "before", "after", "percent"];
        let mut rows = Rows::new(&mut out, args.form, columns.map(str::to_owned).to_vec())?;
        for group in comparison.groups() {
            for figure in Figure::all() {
                if let Some(row) = as_json(group, figure) {
                    rows.add(row)?;
                }
            }
        }
        for difference in of_runs.iter().chain(&of_values) {
            rows.add(difference_as_json(difference))?;
        }
        rows.finish()?;
    }
    out.flush()?;
    for (limit, change) in &exceeded {
        let told = told(limit.figure(), *change);
        say(&format!("`{limit}` is exceeded: {told}"));
    }
    Ok(ExitCode::from(if exceeded.is_empty() { 0 } else { 2 }))
}

/// Formats a figure in its unit.
fn in_units(figure: Figure, number: f64) -> String {
    let whole = number.max(0.0) as u64;
    match figure {
        Figure::Rss | Figure::Read | Figure::Written => bytes(whole),
        Figure::Energy => joules(number),
        Figure::Errors | Figure::Tasks => count(whole),
        _ => nanoseconds(whole),
    }
}

fn cell(figure: Figure, number: Option<f64>) -> String {
    number.map(|number| in_units(figure, number)).unwrap_or_default()
}

fn told(figure: Figure, change: Change) -> String {
    let (before, after) = (cell(figure, change.before), cell(figure, change.after));
    format!("{before} before, {after} after ({})", percent(change))
}

fn percent(change: Change) -> String {
    match change.percent() {
        None => String::new(),
        Some(0.0) => "same".to_owned(),
        Some(percent) if percent.is_infinite() => "new".to_owned(),
        Some(percent) if percent.abs() < 0.05 => "0.0 %".to_owned(),
        Some(percent) => format!("{percent:+.1} %"),
    }
}

/// More errors are marked as worse. For other figures the reader must judge.
fn style(figure: Figure, change: Change) -> Style {
    let is_worse = figure == Figure::Errors && change.difference().is_some_and(|more| more > 0.0);
    if is_worse { RED } else { PLAIN }
}

fn write_whole(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let Some(whole) = comparison.groups().first() else { return Ok(()) };
    let figures = [
        ("duration", Figure::Duration),
        ("cpu time", Figure::Cpu),
        ("peak memory", Figure::Rss),
        ("read", Figure::Read),
        ("written", Figure::Written),
        ("energy", Figure::Energy),
        ("tasks", Figure::Tasks),
        ("errors", Figure::Errors),
    ];
    let mut rows = Vec::new();
    for (name, figure) in figures {
        let change = whole.change(figure);
        if change.before.is_some() || change.after.is_some() {
            let style = style(figure, change);
            rows.push(vec![
                Cell::new(name),
                Cell::new(&cell(figure, change.before)),
                Cell::styled(&cell(figure, change.after), style),
                Cell::styled(&percent(change), style),
            ]);
        }
    }
    table::write(out, &["", ">BEFORE", ">AFTER", ">CHANGE"], &rows)
}

fn write_activities(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let activities: Vec<&Compared> = comparison.groups().iter().skip(1).collect();
    if activities.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{BOLD}by activity{BOLD:#} {DIM}(mean of the durations){DIM:#}")?;
    let rows: Vec<Vec<Cell>> = activities.into_iter().map(row).collect();
    let headings =
        ["ACTIVITY", ">TASKS", ">BEFORE", ">AFTER", ">CHANGE", ">P95", ">CHANGE", ">ERRORS"];
    table::write(out, &headings, &rows)
}

fn row(group: &Compared) -> Vec<Cell> {
    let [tasks, mean, p95, errors] =
        [Figure::Tasks, Figure::Duration, Figure::P95, Figure::Errors].map(|it| group.change(it));
    let arrow = |figure: Figure, change: Change| match (change.before, change.after) {
        (Some(before), Some(after)) if before == after => in_units(figure, before),
        (before, after) => {
            let [before, after] = [before, after].map(Option::unwrap_or_default);
            format!("{} → {}", in_units(figure, before), in_units(figure, after))
        }
    };
    let only = match (&group.before, &group.after) {
        (Some(_), None) => "gone".to_owned(),
        (None, Some(_)) => "new".to_owned(),
        _ => percent(mean),
    };
    vec![
        Cell::new(group.activity.as_deref().unwrap_or_default()),
        Cell::new(&arrow(Figure::Tasks, tasks)),
        Cell::new(&cell(Figure::Duration, mean.before)),
        Cell::new(&cell(Figure::Duration, mean.after)),
        Cell::new(&only),
        Cell::new(&cell(Figure::P95, p95.after)),
        Cell::new(&percent(p95)),
        Cell::styled(&arrow(Figure::Errors, errors), style(Figure::Errors, errors)),
    ]
}

fn as_json(group: &Compared, figure: Figure) -> Option<Value> {
    let change = group.change(figure);
    if change.before.is_none() && change.after.is_none() {
        return None;
    }
    let mut row = Map::new();
    row.insert("activity".to_owned(), group.activity.clone().into());
    row.insert("figure".to_owned(), figure.name().into());
    row.insert("before".to_owned(), change.before.map_or(Value::Null, number));
    row.insert("after".to_owned(), change.after.map_or(Value::Null, number));
    let percent = change.percent().filter(|percent| percent.is_finite());
    row.insert("percent".to_owned(), json!(percent));
    Some(row.into())
}

/// Returns a row like those of the figures, named by the path of the difference.
fn difference_as_json(difference: &Difference) -> Value {
    json!({
        "activity": difference.activity,
        "figure": difference.name,
        "before": difference.before,
        "after": difference.after,
        "percent": null,
    })
}

/// Returns a number as JSON. Whole numbers become integers.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        (number as i64).into()
    } else {
        number.into()
    }
}
