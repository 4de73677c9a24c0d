//! `runlore events stats`: summarises the events of a file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use runlore::events::Statistics;
use runlore_core::text::printable;

use super::input::{FileProblems, Reading};
use crate::Done;
use crate::failure::Failure;
use crate::out::{BOLD, local_time, stdout};
use crate::table::{self, Cell};
use crate::units::{bytes, count, counted, nanoseconds};

/// Show the number of events and the peaks of each session
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events stats run.jsonl
  runlore events stats --json sink/ | jq .peaks.device_used_bytes.bytes

Invalid records are reported and left out.
Exit codes: 0 success, 1 the file could not be read completely.")]
pub(crate) struct Args {
    /// An event file, or the folder of a sink
    file: PathBuf,

    /// Show only this session: its id, or the end of the id
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    reading: Reading,

    /// Print one JSON object per session
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut sessions: BTreeMap<String, Statistics> = BTreeMap::new();
    let (mut kept, mut events) = (FileProblems::default(), 0_u64);
    args.reading.each(&args.file, |event, _| {
        match event {
            Ok(event) => {
                events += 1;
                if args.session.as_ref().is_none_or(|end| event.session_id.ends_with(&**end)) {
                    match sessions.get_mut(&*event.session_id) {
                        Some(statistics) => statistics.add(&event),
                        None => {
                            sessions.entry(event.session_id.to_string()).or_default().add(&event);
                        }
                    }
                }
            }
            Err(problem) => kept.add(problem),
        }
        Ok(())
    })?;
    let is_whole = kept.tell(&args.file, events)?;
    if let Some(id) = args.session.as_ref().filter(|_| sessions.is_empty()) {
        let file = args.file.display();
        return Err(Failure::new(format!(
            "no events of session {id} in {file}; `runlore events sessions` lists the sessions"
        )));
    }
    let mut out = stdout();
    for (at, (id, statistics)) in sessions.iter().enumerate() {
        if args.json {
            let mut json = serde_json::json!({"session_id": id});
            if let (Some(json), Ok(serde_json::Value::Object(all))) =
                (json.as_object_mut(), serde_json::to_value(statistics))
            {
                json.extend(all);
            }
            writeln!(out, "{json}")?;
            continue;
        }
        if at > 0 {
            writeln!(out)?;
        }
        write(&mut out, id, statistics)?;
    }
    out.flush()?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(out: &mut impl Write, id: &str, statistics: &Statistics) -> std::io::Result<()> {
    let events = counted(statistics.events, "event", "events");
    writeln!(out, "{BOLD}{}{BOLD:#}  {events}", printable(id))?;
    if let (Some(first), Some(last)) = (statistics.first_ns, statistics.last_ns) {
        let from = local_time(first as f64 / 1e9);
        writeln!(out, "  from {from}, for {}", nanoseconds(last - first))?;
    }
    let kinds: Vec<String> = statistics
        .by_type
        .iter()
        .map(|(kind, number)| format!("{} {kind}", count(*number)))
        .collect();
    writeln!(out, "  {}", printable(&kinds.join(", ")))?;
    let places = [
        counted(statistics.hosts.len() as u64, "host", "hosts"),
        counted(statistics.ranks.len() as u64, "rank", "ranks"),
        counted(statistics.devices.len() as u64, "device", "devices"),
        counted(statistics.alerts, "alert", "alerts"),
    ];
    writeln!(out, "  {}", places.join(", "))?;
    let (more, less) = (bytes(statistics.allocated_bytes), bytes(statistics.deallocated_bytes));
    writeln!(out, "  allocated {more}, given back {less}")?;
    let rows: Vec<Vec<Cell>> = statistics
        .peaks
        .iter()
        .map(|(name, peak)| {
            vec![
                Cell::new(&format!("  {name}")),
                Cell::new(&bytes(peak.bytes)),
                Cell::new(&local_time(peak.timestamp_ns as f64 / 1e9)),
                Cell::new(&peak.rank.to_string()),
                Cell::new(&peak.device_id.to_string()),
            ]
        })
        .collect();
    if !rows.is_empty() {
        table::write(out, &["  PEAK OF", ">BYTES", "WHEN", ">RANK", ">DEVICE"], &rows)?;
    }
    Ok(())
}
