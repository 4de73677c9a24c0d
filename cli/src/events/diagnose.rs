//! `runlore events diagnose`: examines this machine once and stores the result as a bundle.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use runlore::analyze::{Diagnose, Diagnosed, DiagnosticSummary};

use crate::Done;
use crate::findings;
use crate::out::{BOLD, DIM, stdout};
use crate::units::{bytes, percent, time};

/// Sample the memory of this machine and its devices for some seconds, and write a bundle
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events diagnose --output diag               write manifest.json, diagnostic_summary.json and more
  runlore events diagnose --duration 30 --interval 1
  runlore events diagnose --threshold available_ratio=0.25   a quarter of the memory must be available
  runlore events diagnose && ./train                  start only if there is enough memory

In an existing output folder, a new folder is created, unless it is a bundle itself. Commands that read event files also
read bundles. Exit codes: 0 success, 1 an error, 2 a risk: little memory available, swapping, or out of memory.")]
pub(crate) struct Args {
    /// How long to sample: seconds, or a duration such as 500ms
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = at_most_a_day)]
    duration: Duration,

    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "0.5", value_parser = at_most_a_day)]
    interval: Duration,

    /// The folder for the bundle
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    output: PathBuf,

    /// Set a threshold, such as utilization_ratio=0.9; `runlore events analyze --thresholds` lists them
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_delimiter = ',')]
    set: Vec<String>,

    /// Print only the path of the bundle
    #[arg(long)]
    quiet: bool,
}

fn at_most_a_day(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let day = Duration::from_secs(86_400);
    if time <= day { Ok(time) } else { Err("give a duration of at most a day".to_owned()) }
}

pub(crate) fn run(args: &Args) -> Done {
    let thresholds = findings::thresholds(&args.set)?;
    // The examination takes time, so check first that the bundle can be written.
    Diagnosed::can_hold_a_bundle(&args.output)?;
    let look = Diagnose { duration: args.duration, interval: args.interval };
    let mut found = look.run(&thresholds);
    #[cfg(feature = "report")]
    found.attach("report.html", runlore::report::diagnosis_page(&found));
    let command_line: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let bundle = found.write(&args.output, command_line)?;
    let mut out = stdout();
    if args.quiet {
        writeln!(out, "{}", bundle.display())?;
    } else {
        writeln!(out, "{BOLD}{}{BOLD:#}", findings::counts(&found.findings))?;
        findings::write(&mut out, &found.findings)?;
        write(&mut out, &found.summary)?;
        writeln!(out, "\n{DIM}bundle{DIM:#}  {}", bundle.display())?;
    }
    out.flush()?;
    Ok(ExitCode::from(found.exit_code()))
}

fn write(out: &mut impl Write, summary: &DiagnosticSummary) -> std::io::Result<()> {
    let used = percent(summary.peak_ratio() * 100.0);
    let (peak, total) = (bytes(summary.peak_bytes), bytes(summary.total_bytes));
    writeln!(out, "\n{DIM}{:<6}{DIM:#}  {peak} of {total} at the peak, {used}", summary.backend)?;
    let Some(host) = &summary.host else { return Ok(()) };
    let (available, total) = (bytes(host.available_bytes), bytes(host.total_bytes));
    writeln!(out, "{DIM}memory{DIM:#}  {available} of {total} could be had")?;
    match host.swap_total_bytes {
        0 => writeln!(out, "{DIM}swap{DIM:#}    none")?,
        total => {
            let (used, total) = (bytes(host.swap_used_bytes), bytes(total));
            writeln!(out, "{DIM}swap{DIM:#}    {used} of {total} in use")?;
        }
    }
    if let (Some(used), Some(limit)) = (host.container_used_bytes, host.container_limit_bytes) {
        let (used, limit) = (bytes(used), bytes(limit));
        writeln!(out, "{DIM}limit{DIM:#}   {used} of the container's {limit} in use")?;
    }
    if let Some(pressure) = host.pressure_percent {
        writeln!(out, "{DIM}waits{DIM:#}   {} of the time for memory", percent(pressure))?;
    }
    Ok(())
}
