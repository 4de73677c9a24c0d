//! `runlore emit summary`: summarises emitted records.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use runlore::emit::{self, MetricSummary, Summary};
use runlore_core::text::printable;

use crate::Done;
use crate::failure::{Failure, say};
use crate::out::stdout;
use crate::table::{self, Cell};
use crate::units::{count, counted, percent};

/// Summarize emitted records: counts by status and command, and statistics of each metric
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore emit summary telemetry.jsonl
  runlore emit summary telemetry.db --metric inference_latency --json

The success rate covers the records whose status is completed or failed.")]
pub(crate) struct Args {
    /// A JSON Lines file, or an SQLite database with the table `telemetry`
    file: PathBuf,

    /// Summarize only this metric
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,

    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut unreadable = 0_u64;
    let records = emit::read(&args.file)?.filter_map(|record| {
        record
            .inspect_err(|problem| {
                unreadable += 1;
                if unreadable <= 3 {
                    say(&problem.to_string());
                }
            })
            .ok()
    });
    let mut summary = Summary::of(records);
    if unreadable > 3 {
        say(&format!("and {} more", counted(unreadable - 3, "problem", "problems")));
    }
    if let Some(name) = &args.metric {
        summary.metrics.retain(|metric, _| metric == name);
        if summary.metrics.is_empty() {
            let file = args.file.display();
            return Err(Failure::new(format!(
                "no record in {file} has a numeric value for {name}"
            )));
        }
    }
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&summary).unwrap_or_default())?;
    } else {
        write(&mut out, &summary)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write(out: &mut impl Write, summary: &Summary) -> std::io::Result<()> {
    write!(out, "{}", counted(summary.total_records, "record", "records"))?;
    if let Some(rate) = summary.success_rate {
        write!(out, ", success rate {}", percent(rate * 100.0))?;
    }
    writeln!(out)?;
    for (what, counts) in
        [("by status", &summary.status_distribution), ("by command", &summary.command_distribution)]
    {
        let counts: Vec<String> =
            counts.iter().map(|(name, number)| format!("{} {name}", count(*number))).collect();
        writeln!(out, "  {what}: {}", printable(&counts.join(", ")))?;
    }
    let row = |(name, metric): (&String, &MetricSummary)| {
        let MetricSummary { count, avg, min, max, .. } = metric;
        let cell = |number: &f64| Cell::new(&format!("{number}"));
        vec![Cell::new(name), Cell::new(&count.to_string()), cell(avg), cell(min), cell(max)]
    };
    let rows: Vec<_> = summary.metrics.iter().map(row).collect();
    if !rows.is_empty() {
        table::write(out, &["METRIC", ">COUNT", ">AVG", ">MIN", ">MAX"], &rows)?;
    }
    Ok(())
}
