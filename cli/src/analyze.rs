//! `runlore analyze`: shows where the time of a run went, what stood out, and how the machine
//! affected it.

use std::io::{self, Write};

use runlore::analyze::{ActivityTime, Parallelism, RunAnalysis, Window};
use runlore_core::text::printable;

use crate::findings::{self, Asked, Verdict};
use crate::out::{BOLD, DIM, local_time};
use crate::store::Store;
use crate::table::{self, Cell};
use crate::units::{count, counted, nanoseconds, percent};
use crate::{Done, select};

/// Maximum number of rows of a table.
const ROWS: usize = 12;
/// Maximum number of steps shown of the critical path.
const STEPS: usize = 10;
/// The width of the parallelism chart, in characters.
const BARS: usize = 50;

/// Find what made a run slow: activities, outliers, waiting, the critical path, growing memory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore analyze                           the newest run
  runlore analyze train --fail-on warning   in CI: the exit code decides
  runlore analyze a001 --format json | jq .critical_path.by_activity
  runlore analyze train --threshold outlier_factor=5

Exit codes: 0 success, 1 an error, 2 there are findings that --fail-on selects.")]
pub(crate) struct Args {
    /// The run: its id, a part of it, or its name [default: the newest run]
    run: Option<String>,

    #[command(flatten)]
    asked: Asked,

    /// List the thresholds and exit
    #[arg(long)]
    thresholds: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    if args.thresholds {
        return findings::write_thresholds();
    }
    let (fail_on, thresholds) = (args.asked.fail_on()?, args.asked.thresholds()?);
    let records = store.open()?;
    let runs = store.listed(&records)?;
    let run = select::run(&runs, args.run.as_deref(), store)?;
    let id = &run.workflow.workflow_id;
    #[cfg(feature = "report")]
    if args.asked.is_page() {
        let page = runlore::report::RunReport::builder(&records, id);
        let page = page.runs(&runs).thresholds(&thresholds).build()?;
        store.tell(&records);
        let verdict = Verdict { failed: fail_on.count(&page.findings), is_whole: true };
        return args.asked.answer_page(&page.to_html(), verdict);
    }
    let report = RunAnalysis::builder(&records, id).runs(&runs).thresholds(&thresholds).build()?;
    store.tell(&records);
    let verdict = Verdict { failed: fail_on.count(&report.findings), is_whole: true };
    let json = || serde_json::to_value(&report).unwrap_or_default();
    args.asked.answer(json, verdict, |out| write_text(out, &report))
}

fn write_text(out: &mut dyn Write, report: &RunAnalysis) -> io::Result<()> {
    let name = report.name.as_deref().unwrap_or(&report.workflow_id);
    let id = printable(&report.workflow_id);
    let shown = report.shown.as_deref().map_or_else(String::new, |shown| format!("  {shown}"));
    writeln!(out, "{BOLD}{}{BOLD:#}{}  {DIM}{id}{DIM:#}", printable(name), printable(&shown))?;
    let mut facts = vec![counted(report.tasks, "task", "tasks")];
    if report.errors > 0 {
        facts.push(counted(report.errors, "error", "errors"));
    }
    if report.running > 0 {
        facts.push(format!("{} not ended", count(report.running)));
    }
    if let Some(window) = report.window {
        facts.push(nanoseconds(window.length_ns()));
        facts.push(format!("from {}", local_time(window.start_ns as f64 / 1e9)));
    }
    writeln!(out, "{}; {}", facts.join(", "), findings::counts(&report.findings))?;
    findings::write(out, &report.findings)?;
    write_activities(out, report)?;
    write_path(out, report)?;
    if let Some(parallelism) = &report.parallelism {
        write_parallelism(out, parallelism)?;
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        writeln!(out, "{DIM}note{DIM:#}  {}", printable(note))?;
    }
    Ok(())
}

fn share(part: u64, report: &RunAnalysis) -> String {
    let length = report.window.map_or(0, Window::length_ns);
    percent(part as f64 / length.max(1) as f64 * 100.0)
}

fn write_activities(out: &mut dyn Write, report: &RunAnalysis) -> io::Result<()> {
    if report.activities.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{BOLD}where the time went{BOLD:#}")?;
    let some = |time: u64| if time > 0 { nanoseconds(time) } else { String::new() };
    let row = |activity: &ActivityTime| {
        vec![
            Cell::new(&activity.activity_id),
            Cell::new(&count(activity.tasks)),
            Cell::new(&nanoseconds(activity.own_ns)),
            Cell::new(&nanoseconds(activity.total_ns)),
            Cell::new(&nanoseconds(activity.max_ns)),
            Cell::new(&activity.cpu_ns.map(nanoseconds).unwrap_or_default()),
            Cell::new(&some(activity.queued_ns.saturating_add(activity.data_wait_ns))),
            Cell::new(&share(activity.on_path_ns, report)),
        ]
    };
    let rows: Vec<Vec<Cell>> = report.activities.iter().take(ROWS).map(row).collect();
    let headings = [
        "ACTIVITY",
        ">TASKS",
        ">OWN TIME",
        ">TOTAL",
        ">LONGEST",
        ">CPU",
        ">WAITED",
        ">OF THE PATH",
    ];
    table::write(&mut &mut *out, &headings, &rows)?;
    if let Some(more @ 1..) = report.activities.len().checked_sub(ROWS) {
        writeln!(out, "{DIM}and {more} more{DIM:#}")?;
    }
    Ok(())
}

fn write_path(out: &mut dyn Write, report: &RunAnalysis) -> io::Result<()> {
    let path = &report.critical_path;
    if path.steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{BOLD}critical path{BOLD:#} {DIM}(its longest steps){DIM:#}")?;
    let mut steps: Vec<_> = path.steps.iter().collect();
    steps.sort_by_key(|step| std::cmp::Reverse(step.length_ns()));
    steps.truncate(STEPS);
    steps.sort_by_key(|step| step.start_ns);
    let start = report.window.map_or(0, |window| window.start_ns);
    let rows: Vec<Vec<Cell>> = steps
        .into_iter()
        .map(|step| {
            vec![
                Cell::new(&format!("+{}", nanoseconds(step.start_ns.saturating_sub(start)))),
                Cell::new(&nanoseconds(step.length_ns())),
                Cell::new(&share(step.length_ns(), report)),
                Cell::new(&step.activity_id),
                Cell::whole(&step.task_id),
            ]
        })
        .collect();
    table::write(&mut &mut *out, &[">AT", ">TOOK", ">OF THE RUN", "ACTIVITY", "TASK"], &rows)?;
    let shown = rows.len() as u64;
    if path.steps_in_all > shown {
        writeln!(out, "{DIM}and {} shorter steps{DIM:#}", count(path.steps_in_all - shown))?;
    }
    if path.interrupted_ns > 0 {
        let open = nanoseconds(path.interrupted_ns);
        writeln!(out, "{DIM}{open} of the path are in interrupted tasks{DIM:#}")?;
    }
    if path.outside_ns > 0 {
        let outside = nanoseconds(path.outside_ns);
        writeln!(out, "{DIM}{outside} of the path are outside of any task{DIM:#}")?;
    }
    Ok(())
}

fn write_parallelism(out: &mut dyn Write, parallelism: &Parallelism) -> io::Result<()> {
    writeln!(
        out,
        "\n{BOLD}at work at a time{BOLD:#}  {:.1} on average, {} at most; one alone {}, none {}",
        parallelism.mean,
        parallelism.max,
        percent(parallelism.alone_ratio * 100.0),
        percent(parallelism.idle_ratio * 100.0)
    )?;
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let per_bar = parallelism.parts.len().div_ceil(BARS).max(1);
    let means: Vec<f64> = parallelism
        .parts
        .chunks(per_bar)
        .map(|parts| parts.iter().sum::<f64>() / parts.len() as f64)
        .collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let bar = |mean: &f64| {
        if most > 0.0 && *mean > 0.0 {
            HEIGHTS[((mean / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
        } else {
            ' '
        }
    };
    writeln!(out, "{DIM}│{DIM:#}{}{DIM}│{DIM:#}", means.iter().map(bar).collect::<String>())
}
