//! `runlore report`: writes a report of a whole run to one file.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use runlore::report::RunReport;

use crate::failure::Failure;
use crate::out::{stdout, write_file};
use crate::store::Store;
use crate::{Done, select};

/// Write all of a run into one file that opens anywhere
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore report -o report.html            the newest run, as a page
  runlore report train --format md         for a comment on a change
  runlore report a001 -o report.json

HTML is one file with everything in it: it needs no network, and tells the same without scripts.")]
pub(crate) struct Args {
    /// The run: its id, 4 or more characters its id begins or ends with, or its name (the newest of
    /// that name); none: the newest
    run: Option<String>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What to write [default: what the name of the file says, else html]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Html,
    Md,
    Json,
}

impl Args {
    fn format(&self) -> Result<Format, Failure> {
        let Some(path) = self.output.as_ref().filter(|_| self.format.is_none()) else {
            return Ok(self.format.unwrap_or(Format::Html));
        };
        match path.extension().map(|ending| ending.to_string_lossy()).as_deref() {
            None | Some("html" | "htm") => Ok(Format::Html),
            Some("md" | "markdown") => Ok(Format::Md),
            Some("json") => Ok(Format::Json),
            Some(_) => Err(Failure::new(format!(
                "cannot write {}: name it *.html, *.md or *.json, or say which by `--format`",
                path.display()
            ))),
        }
    }
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let format = args.format()?;
    let records = store.open()?;
    let runs = store.listed(&records)?;
    let run = select::run(&runs, args.run.as_deref(), store)?;
    let id = &run.workflow.workflow_id;
    let report = RunReport::builder(&records, id).runs(&runs).build()?;
    store.tell(&records);
    let mut text = match format {
        Format::Html => report.to_html(),
        Format::Md => report.to_markdown(),
        Format::Json => report.to_json(),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match &args.output {
        Some(path) => write_file(path, text.as_bytes())?,
        None => {
            let mut out = stdout();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
