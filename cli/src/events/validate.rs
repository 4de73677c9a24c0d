//! `runlore events validate`: reports what is wrong with each record.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use runlore::events::{Invalid, Problem};
use runlore_core::text::printable;
use serde_json::json;

use super::input::Reading;
use crate::Done;
use crate::failure::{Failure, say};
use crate::out::{RED, stdout};
use crate::units::counted;

/// Check every record of event files and sinks
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events validate run.jsonl
  runlore events validate --no-legacy sink/ old.csv.gz
  runlore events validate --json run.jsonl | jq -r 'select(.reason) | .line'

An incomplete last line is reported, but is not an error.
Exit codes: 0 success, 1 a record is invalid or a file cannot be read.")]
pub(crate) struct Args {
    /// Event files, or folders of sinks
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Print one JSON object per problem and one per file
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut out = stdout();
    let mut is_fine = true;
    for file in &args.files {
        let (mut events, mut wrong, mut torn) = (0_u64, 0_u64, 0_u64);
        let read = args.reading.each(file, |event, _| {
            match event {
                Ok(_) => events += 1,
                Err(problem) => {
                    *(if problem.is_torn() { &mut torn } else { &mut wrong }) += 1;
                    if args.json {
                        writeln!(out, "{}", as_json(&problem))?;
                    } else {
                        let text = problem.to_string();
                        writeln!(out, "{RED}{}{RED:#}", printable(&text))?;
                    }
                }
            }
            Ok(())
        });
        match read {
            Ok(_) => {}
            Err(Failure::Message(message)) => {
                // Continue with the other files.
                say(&message);
                is_fine = false;
                continue;
            }
            Err(closed) => return Err(closed),
        }
        is_fine &= wrong == 0;
        let name = file.display().to_string();
        if args.json {
            writeln!(
                out,
                "{}",
                json!({"path": name, "events": events, "wrong": wrong, "torn": torn})
            )?;
        } else {
            let events = counted(events, "event", "events");
            let found = match wrong {
                0 => "fine".to_owned(),
                _ => counted(wrong, "problem", "problems"),
            };
            writeln!(out, "{}: {events}, {found}", printable(&name))?;
        }
    }
    out.flush()?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(problem: &Problem) -> serde_json::Value {
    json!({
        "path": problem.path(),
        "line": problem.line(),
        "index": problem.index(),
        "field": problem.invalid().map(Invalid::field),
        "reason": problem.reason(),
        "torn": problem.is_torn(),
    })
}
