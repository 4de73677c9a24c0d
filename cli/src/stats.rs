//! `runlore stats`: summarises the tasks of a run.

use std::io::Write;
use std::process::ExitCode;

use runlore::query::{Collection, Filter, Group, RunSummary, Summary};
use runlore::record::Status;
use runlore_core::text::{human_duration, printable};

use crate::columns::{Form, Rows};
use crate::failure::{Failure, say};
use crate::out::{PLAIN, RED, paint, stdout};
use crate::store::Store;
use crate::table::{self, Cell};
use crate::units::{bytes, count, joules};
use crate::{Done, hints, lost, select};

/// Summarize the tasks of a run: counts, durations and resource usage
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore stats                          the newest run, by activity
  runlore stats train --by used.lr       the newest run named `train`, by the value of an argument
  runlore stats --all --by status        all runs, by status

TOTAL is the sum of the durations of the group's tasks, including the tasks inside them. CPU, READ, WRITTEN and ENERGY
are what the tasks and their commands used themselves, without the tasks inside them, so these columns add up. A task
whose usage is unknown counts as 0. MEMORY is the highest resident memory of the process at the start or end of one of
the tasks; for a command it is the command's peak, if the system reports it. A percentile is the duration of the task at
that rank.")]
pub(crate) struct Args {
    /// The run: its id, the first or last characters of it (at least 4), or its name, which selects
    /// the newest run of that name [default: the newest run]
    run: Option<String>,

    /// Summarize all runs
    #[arg(long, conflicts_with = "run")]
    all: bool,

    /// Group the tasks by this field
    #[arg(long, value_name = "FIELD", default_value = "activity_id")]
    by: String,

    #[command(flatten)]
    form: Form,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let records = store.open()?;
    let (runs, filter) = if args.all {
        (records.list_runs()?, Filter::all())
    } else {
        let run = select::run(&store.listed(&records)?, args.run.as_deref(), store)?.clone();
        let filter = select::of_run(&run.workflow.workflow_id);
        (vec![run], filter)
    };
    // Users call this field `activity`.
    let by = if args.by == "activity" { "activity_id" } else { &args.by };
    let summary = records.summary_by(by, filter)?;
    store.tell(&records);
    // The default field cannot be misspelt.
    if by != "activity_id" && is_of_none(&summary) {
        let asked = [by.to_owned()];
        if let Some(told) = hints::unknown_field(&records, Collection::Tasks, &asked)? {
            return Err(Failure::new(told));
        }
        if !args.all {
            say(&format!("no task of this run has a value in `{by}`"));
        }
    }
    let mut out = stdout();
    let workflows = runs.iter().map(|run| &run.workflow);
    if args.form.is_table() {
        lost::write(&mut out, workflows)?;
        if let [run] = &runs[..]
            && !args.all
        {
            write_status(&mut out, run)?;
        }
        write_table(&mut out, by, &summary)?;
    } else {
        lost::told(workflows).iter().for_each(|lost| say(lost));
        let mut rows = Rows::new(&mut out, args.form, COLUMNS.map(str::to_owned).to_vec())?;
        for group in summary.groups() {
            rows.add(serde_json::to_value(&group).unwrap_or_default())?;
        }
        rows.finish()?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes how the run ended, unless it finished normally, because its numbers then mean something
/// else.
fn write_status(out: &mut impl Write, run: &RunSummary) -> std::io::Result<()> {
    let shown = run.shown();
    if shown.tone().is_none() || shown.to_string() == Status::Finished.as_str() {
        return Ok(());
    }
    let paint = paint(shown.tone());
    let (name, shown) = (run.workflow.display_name(), shown.to_string());
    writeln!(out, "{}  {paint}{}{paint:#}", printable(name), printable(&shown))
}

/// Whether there are tasks, but none has a value in the field.
fn is_of_none(summary: &Summary) -> bool {
    matches!(&summary.groups()[..], [group] if group.key.is_null())
}

/// The fields of a JSON line, in the order of the CSV columns.
const COLUMNS: [&str; 17] = [
    "key",
    "tasks",
    "errors",
    "running",
    "total_ns",
    "mean_ns",
    "min_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
    "cpu_ns",
    "peak_rss_bytes",
    "read_bytes",
    "write_bytes",
    "joules",
    "counted",
];

/// A column of the table: its heading, and the function that formats a group's cell.
type Column = (&'static str, fn(&Group) -> Option<String>);

const FIGURES: [Column; 11] = [
    (">TASKS", |group| Some(count(group.tasks))),
    (">ERRORS", |group| Some(count(group.errors))),
    (">TOTAL", |group| group.duration.map(|spread| human_duration(spread.total))),
    (">MEAN", |group| group.duration.map(|spread| human_duration(spread.mean))),
    (">P50", |group| group.duration.map(|spread| human_duration(spread.p50))),
    (">P95", |group| group.duration.map(|spread| human_duration(spread.p95))),
    (">MAX", |group| group.duration.map(|spread| human_duration(spread.max))),
    (">CPU", |group| group.cpu.map(human_duration)),
    (">MEMORY", |group| group.peak_rss.map(bytes)),
    (">READ", |group| group.read_bytes.map(bytes)),
    (">WRITTEN", |group| group.write_bytes.map(bytes)),
];

fn write_table(out: &mut impl Write, by: &str, summary: &Summary) -> std::io::Result<()> {
    let mut groups: Vec<(String, Group)> =
        summary.groups().into_iter().map(|group| (group.name(), group)).collect();
    if groups.len() > 1 {
        groups.push(("(all)".to_owned(), summary.all()));
    }
    let energy: Column = (">ENERGY", |group| group.joules.map(joules));
    let columns: Vec<Column> = FIGURES
        .into_iter()
        .chain([energy])
        // Leave out columns without any value.
        .filter(|(_, figure)| groups.iter().any(|(_, group)| figure(group).is_some()))
        .collect();
    let by = if by == "activity_id" { "ACTIVITY".to_owned() } else { by.to_uppercase() };
    let mut headings = vec![&*by];
    headings.extend(columns.iter().map(|(heading, _)| *heading));
    let rows: Vec<Vec<Cell>> = groups
        .iter()
        .map(|(name, group)| {
            let mut row = vec![Cell::new(name)];
            row.extend(columns.iter().map(|(heading, figure)| {
                let is_bad = *heading == ">ERRORS" && group.errors > 0;
                let text = figure(group).unwrap_or_default();
                Cell::styled(&text, if is_bad { RED } else { PLAIN })
            }));
            row
        })
        .collect();
    table::write(out, &headings, &rows)
}
