//! `runlore events analyze`: finds what went wrong, where, and what to try.

use std::io::{self, Write};
use std::path::PathBuf;

use runlore::analyze::{
    Collector, CrossRank, DiagnosticSummary, EventReport, Place, SeriesSummary, Timelines,
};
use serde_json::{Value, json};

use super::input::{self, FileProblems, Outcome, ProblemPrinter, Reading};
use crate::Done;
use crate::failure::{Failure, say};
use crate::findings::{self, Asked, Verdict};
use crate::out::{BOLD, DIM, local_time};
use crate::table::{self, Cell};
use crate::units::{bytes, change, count, counted, percent};

/// Find leaks, drifts, spikes and full devices, and the rank where a problem started
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events analyze run.jsonl
  runlore events analyze rank*.jsonl                      the ranks of a job, with their clocks aligned
  runlore events analyze artifacts/ --fail-on critical    in CI: the exit code decides
  runlore events analyze run.jsonl --output findings.html   a page with the timeline
  runlore events analyze run.jsonl --format json --output findings.json
  runlore events analyze run.jsonl --threshold gap_ratio=0.1,min_bytes=256MiB

Exit codes: 0 success, 1 an error, 2 there are findings that --fail-on selects.")]
pub(crate) struct Args {
    /// Event files, sinks, diagnose bundles, or folders that contain them
    #[arg(value_name = "FILE|DIR", required_unless_present = "thresholds")]
    files: Vec<PathBuf>,

    /// Analyze only this session: its id, or the end of the id
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    asked: Asked,

    /// List the thresholds and exit
    #[arg(long)]
    thresholds: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    if args.thresholds {
        return findings::write_thresholds();
    }
    let (fail_on, thresholds) = (args.asked.fail_on()?, args.asked.thresholds()?);
    let read = read(&args.files, args.session.as_deref())?;
    let (is_bundled, is_whole) = (read.has_bundles, read.is_whole);
    let timelines = read.collector.finish();
    let mut report = timelines.analyze(&thresholds);
    report.add(read.diagnosed);
    if !is_bundled && report.findings.is_empty() {
        has_samples(&timelines)?;
    }
    let verdict = Verdict { failed: fail_on.count(&report.findings), is_whole };
    #[cfg(feature = "report")]
    if args.asked.is_page() {
        return args.asked.answer_page(&runlore::report::events_page(&report, &timelines), verdict);
    }
    let json = || serde_json::to_value(&report).unwrap_or_default();
    args.asked.answer(json, verdict, |out| write_text(out, &report))
}

/// Returns an error if there are no samples, because a check without data must not pass.
pub(crate) fn has_samples(timelines: &Timelines) -> Result<(), Failure> {
    if timelines.series().iter().all(|series| series.samples.is_empty()) {
        return Err(Failure::new(
            "nothing to analyze: none of the events is a sample; `runlore events stats` shows what there is",
        ));
    }
    Ok(())
}

/// The contents of the files.
pub(crate) struct Read {
    pub(crate) collector: Collector,
    /// The findings stored in bundles.
    pub(crate) diagnosed: Vec<runlore::analyze::Finding>,
    /// Whether there are bundles, whose data was already analysed when they were written.
    pub(crate) has_bundles: bool,
    /// Whether all files could be read to their ends.
    pub(crate) is_whole: bool,
}

/// Reads files, sinks, bundles and folders of these. Returns an error if there is nothing to
/// analyse.
pub(crate) fn read(files: &[PathBuf], session: Option<&str>) -> Result<Read, Failure> {
    let reading = Reading::default();
    let mut read = Read {
        collector: Collector::default(),
        diagnosed: Vec::new(),
        has_bundles: false,
        is_whole: true,
    };
    let (mut told, mut unread) = (ProblemPrinter::default(), Vec::new());
    let mut events = 0_u64;
    for file in input::expand(files)? {
        let mut place = Place::default();
        let (mut kept, mut of_file) = (FileProblems::default(), 0_u64);
        let reader = reading.each(&file, |event, _| {
            match event {
                Ok(event) => {
                    of_file += 1;
                    if session.is_none_or(|end| event.session_id.ends_with(end)) {
                        read.collector.add(&event);
                        events += 1;
                    }
                }
                Err(problem) => kept.add(problem),
            }
            Ok(())
        })?;
        match kept.finish(of_file, &mut told) {
            Outcome::Whole => {}
            Outcome::Cut => read.is_whole = false,
            Outcome::Nothing(why) => unread.push(why),
        }
        if let Some(summary) = DiagnosticSummary::of_bundle(&file) {
            read.has_bundles = true;
            if let Some(session) = reader.summaries().first() {
                place.session_id = Some(session.session_id.clone());
                place.host = Some(session.host.clone());
                place.rank = Some(session.rank);
            }
            read.diagnosed.extend(summary.findings(&place));
        }
    }
    told.finish();
    if let (0, false, Some(why)) = (events, read.has_bundles, unread.first()) {
        return Err(Failure::new(format!("{why}; nothing to analyze")));
    }
    for why in &unread {
        read.is_whole = false;
        say(&format!("{why}; the file is left out"));
    }
    if events > 0 || (read.has_bundles && session.is_none()) {
        return Ok(read);
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let names = names.join(", ");
    Err(Failure::new(match session {
        Some(id) => format!(
            "no events of session {id} in {names}; `runlore events sessions` lists the sessions"
        ),
        None => format!("no events in {names}; nothing to analyze"),
    }))
}

fn write_text(out: &mut dyn Write, report: &EventReport) -> io::Result<()> {
    let samples: u64 = report.series.iter().map(|series| series.samples).sum();
    write!(out, "{BOLD}{}{BOLD:#}", findings::counts(&report.findings))?;
    if samples > 0 {
        let samples = counted(samples, "sample", "samples");
        let devices = counted(report.series.len() as u64, "device", "devices");
        write!(out, " {DIM}in {samples} of {devices}{DIM:#}")?;
    }
    writeln!(out)?;
    findings::write(out, &report.findings)?;
    if !report.series.is_empty() {
        writeln!(out)?;
        let names_jobs = Place::are_of_several_jobs(report.series.iter().map(|one| &one.place));
        let mut rows: Vec<Vec<Cell>> = report.series.iter().map(row).collect();
        let mut headings = vec![
            "RANK",
            "DEVICE",
            "HOST",
            ">SAMPLES",
            ">ALLOCATED",
            ">RESERVED",
            ">USED",
            ">OF",
            ">MEAN",
            ">GROWS",
            ">ALERTS",
        ];
        if names_jobs {
            headings.insert(0, "JOB");
            for (row, series) in rows.iter_mut().zip(&report.series) {
                row.insert(0, Cell::new(series.place.job_id.as_deref().unwrap_or_default()));
            }
        }
        table::write(&mut &mut *out, &headings, &rows)?;
    }
    for cross in &report.cross_rank {
        write_ranks(out, cross)?;
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        writeln!(out, "{DIM}note{DIM:#}  {}", runlore_core::text::printable(note))?;
    }
    Ok(())
}

fn row(series: &SeriesSummary) -> Vec<Cell> {
    let size = |size: Option<u64>| Cell::new(&size.map(bytes).unwrap_or_default());
    let device = match series.place.device_id {
        Some(..0) | None => "processor".to_owned(),
        Some(device) => device.to_string(),
    };
    let slope = series.slope_bytes_per_sec.map(|slope| format!("{}/s", change(slope as i64)));
    let mean = series.mean_utilization_ratio.map(|ratio| percent(ratio * 100.0));
    vec![
        Cell::new(&series.place.rank.unwrap_or_default().to_string()),
        Cell::new(&device),
        Cell::new(series.place.host.as_deref().unwrap_or_default()),
        Cell::new(&count(series.samples)),
        size(series.peak_allocated_bytes),
        size(series.peak_reserved_bytes),
        size(series.peak_used_bytes),
        size(series.total_bytes),
        Cell::new(&mean.unwrap_or_default()),
        Cell::new(&slope.unwrap_or_default()),
        Cell::new(&if series.alerts > 0 { count(series.alerts) } else { String::new() }),
    ]
}

fn write_ranks(out: &mut dyn Write, cross: &CrossRank) -> io::Result<()> {
    let job = cross.job_id.as_deref().map_or_else(String::new, |job| format!(" of {job}"));
    let ranks = cross.participating_ranks.len();
    writeln!(
        out,
        "\n{BOLD}{ranks} of {}{job}{BOLD:#} {DIM}on one clock{DIM:#}",
        counted(cross.world_size, "rank", "ranks")
    )?;
    if let Some(onset) = cross.cluster_onset_timestamp_ns {
        writeln!(out, "  from {} on more than one rank grew", local_time(onset as f64 / 1e9))?;
    }
    let rows: Vec<Vec<Cell>> = cross
        .first_cause_suspects
        .iter()
        .map(|suspect| {
            let confidence: Value = json!(suspect.confidence);
            vec![
                Cell::new(&format!("  {}", suspect.rank)),
                Cell::new(&suspect.device_id.to_string()),
                Cell::new(&bytes(suspect.peak_delta_bytes)),
                Cell::new(&crate::units::nanoseconds(suspect.lead_over_cluster_onset_ns)),
                Cell::new(confidence.as_str().unwrap_or_default()),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let headings = ["  SUSPECT", ">DEVICE", ">GREW BY", ">AHEAD BY", "CONFIDENCE"];
        table::write(&mut &mut *out, &headings, &rows)?;
    }
    for note in &cross.notes {
        writeln!(out, "  {DIM}note{DIM:#}  {}", runlore_core::text::printable(note))?;
    }
    Ok(())
}
