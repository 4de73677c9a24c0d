//! `runlore events sessions`: lists the sessions of a file or a sink.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use runlore::events::{SessionStatus, SessionSummary, Sessions};
use runlore::record::Status;
use runlore_core::text::human_duration;

use super::input::{FileProblems, Reading};
use crate::Done;
use crate::out::{local_time, paint, short_ids, stdout};
use crate::table::{self, Cell};
use crate::units::count;

/// List the sessions, the most useful one first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events sessions sink/
  runlore events sessions --json run.jsonl | jq -r .session_id

Completed sessions come first, then interrupted, incomplete and running ones; in each group the newest comes first.
Invalid records are reported and left out.
Exit codes: 0 success, 1 the file could not be read completely.")]
pub(crate) struct Args {
    /// An event file, or the folder of a sink
    file: PathBuf,

    #[command(flatten)]
    reading: Reading,

    /// Print one JSON object per session: its summary, with the number of its events as `events`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut sessions = Sessions::default();
    let mut kept = FileProblems::default();
    let reader = args.reading.each(&args.file, |event, reader| {
        match event {
            Ok(event) => sessions.add(&event, reader),
            Err(problem) => kept.add(problem),
        }
        Ok(())
    })?;
    let sessions = sessions.finish(&reader);
    let is_whole = kept.tell(&args.file, sessions.len() as u64)?;
    let mut out = stdout();
    if args.json {
        for (summary, events) in &sessions {
            let mut json = serde_json::to_value(summary).unwrap_or_default();
            json["events"] = (*events).into();
            writeln!(out, "{json}")?;
        }
    } else {
        let ids: Vec<&str> = sessions.iter().map(|(summary, _)| &*summary.session_id).collect();
        let rows: Vec<_> = sessions
            .iter()
            .zip(short_ids(&ids))
            .map(|((summary, events), id)| row(summary, *events, id))
            .collect();
        let headings = [
            "SESSION",
            "STATUS",
            "STARTED",
            ">DURATION",
            ">EVENTS",
            "HOST",
            ">PID",
            ">RANK",
            "JOB",
        ];
        table::write(&mut out, &headings, &rows)?;
    }
    out.flush()?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(summary: &SessionSummary, events: u64, id: &str) -> Vec<Cell> {
    let status = match summary.status {
        SessionStatus::Completed => Some(Status::Finished),
        SessionStatus::Running => Some(Status::Running),
        _ => None,
    };
    let duration = summary.ended_at_ns.and_then(|end| {
        let nanoseconds = end.checked_sub(summary.started_at_ns)?;
        u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
    });
    vec![
        Cell::new(id),
        Cell::styled(summary.status.as_str(), paint(status)),
        Cell::new(&local_time(summary.started_at_ns as f64 / 1e9)),
        Cell::new(&duration.map(human_duration).unwrap_or_default()),
        Cell::new(&count(events)),
        Cell::new(&summary.host),
        Cell::new(&summary.pid.to_string()),
        Cell::new(&format!("{}/{}", summary.rank, summary.world_size)),
        Cell::new(summary.job_id.as_deref().unwrap_or_default()),
    ]
}
