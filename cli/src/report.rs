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

/// Write a report of a run to one self-contained file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore report -o report.html            the newest run, as a page
  runlore report train --format md         Markdown, for example for a pull request
  runlore report a001 -o report.json

An HTML report is one file that needs no network, and shows the same without scripts.")]
pub(crate) struct Args {
    /// The run: its id, the first or last characters of it (at least 4), or its name, which selects
    /// the newest run of that name [default: the newest run]
    run: Option<String>,

    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The format [default: by the extension of the file, else html]
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
                "cannot write {}: name it *.html, *.md or *.json, or add `--format`",
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
