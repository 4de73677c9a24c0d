//! `runlore settings check`: reports everything that is wrong with the settings.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runlore::settings::{Problem, Search, Settings, Severity};
use runlore_core::text::printable;
use serde_json::json;

use crate::Done;
use crate::out::{RED, stdout};

/// Check a settings file, or the settings that a program would use here
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore settings check
  runlore settings check deploy/settings.yaml

Exit codes: 0 no errors (notices are allowed), 1 an error.")]
pub(crate) struct Args {
    /// Check only this file [default: all settings files that apply here, and the environment]
    path: Option<PathBuf>,

    /// Print one JSON object per problem
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let loaded = match &args.path {
        Some(path) => Search::nowhere().path(path).load(),
        None => Settings::load(),
    };
    let mut out = stdout();
    for problem in loaded.problems() {
        if args.json {
            writeln!(out, "{}", as_json(problem))?;
        } else if problem.severity == Severity::Error {
            let text = problem.to_string();
            writeln!(out, "{RED}{}{RED:#}", printable(&text))?;
        } else {
            writeln!(out, "notice: {}", printable(&problem.to_string()))?;
        }
    }
    let fine = loaded.is_fine();
    if fine && !args.json {
        let short = |path: &Path| path.strip_prefix("./").unwrap_or(path).display().to_string();
        let files: Vec<String> = loaded.files().map(short).collect();
        if files.is_empty() && Path::new("settings.yaml").exists() {
            writeln!(
                out,
                "settings.yaml has no section that Runlore knows, so it is ignored and the defaults apply; \
                 `runlore settings check settings.yaml` checks it anyway"
            )?;
        } else if files.is_empty() {
            writeln!(out, "no settings file found; the defaults apply")?;
        } else {
            writeln!(out, "{}: fine", printable(&files.join(", ")))?;
        }
    }
    out.flush()?;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(problem: &Problem) -> serde_json::Value {
    let (line, column) = problem.place.unzip();
    let severity = if problem.severity == Severity::Error { "error" } else { "notice" };
    json!({
        "severity": severity,
        "source": problem.source,
        "line": line,
        "column": column,
        "message": problem.message,
    })
}
