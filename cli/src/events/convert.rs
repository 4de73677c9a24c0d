//! `runlore events convert`: converts to another format or schema.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runlore::events::{Format, Schema, Target, Writer};
use runlore::{Error, ErrorKind};
use runlore_core::text::printable;

use super::input::{ProblemPrinter, Reading};
use crate::Done;
use crate::failure::Failure;
use crate::out::{create_folder_of, stdout};
use crate::units::counted;

/// Convert the events of a file or a sink to JSON, JSON Lines or CSV
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events convert run.json run.csv
  runlore events convert --schema 4 old.jsonl.gz new.jsonl
  runlore events convert --schema 3 --lossy run-v4.json run-v3.json

The extension of OUT selects the format. Records that cannot be converted are reported and left out. OUT appears only
when it is complete. Exit codes: 0 everything was converted, 1 something was not.")]
pub(crate) struct Args {
    /// An event file, or the folder of a sink
    #[arg(value_name = "IN")]
    from: PathBuf,

    /// The file to write: *.json, *.jsonl or *.csv
    #[arg(value_name = "OUT")]
    to: PathBuf,

    /// The schema to write: 2, 3 or 4 [default: the newest schema in IN]
    #[arg(long, value_name = "N", value_parser = schema)]
    schema: Option<Schema>,

    /// Stop at the first invalid record, and write nothing
    #[arg(long)]
    strict: bool,

    /// Write 0 for unknown counters, which schemas 2 and 3 cannot represent
    #[arg(long)]
    lossy: bool,

    #[command(flatten)]
    reading: Reading,
}

pub(super) fn schema(text: &str) -> Result<Schema, String> {
    let number = text.parse().ok().and_then(Schema::from_number);
    number.ok_or_else(|| "the schemas are 2, 3 and 4".to_owned())
}

pub(crate) fn run(args: &Args) -> Done {
    let Some(format) = Format::of_name(&args.to).filter(|_| !is_packed(&args.to)) else {
        let to = args.to.display();
        return Err(Failure::new(format!(
            "cannot write {to}: name it *.json, *.jsonl or *.csv, because the extension selects the format"
        )));
    };
    let schema = match args.schema {
        Some(schema) => schema,
        None => args.reading.newest_schema(&args.from)?,
    };
    let mut target = Target::from(schema);
    target.lossy = args.lossy;
    // Write to a temporary name until the file is complete, because OUT may be IN, and a partial
    // file must not look complete.
    let part = TemporaryFile::beside(&args.to)?;
    create_folder_of(&args.to)?;
    let file =
        runlore::store::create_file(&part.0).map_err(|error| cannot_write(&args.to, &error))?;
    let file = std::io::BufWriter::with_capacity(256 * 1024, file);
    let mut writer = Writer::new(file, format, target)?;
    let mut told = ProblemPrinter::default();
    let (mut written, mut left_out) = (0_u64, 0_u64);
    args.reading.each(&args.from, |event, _| {
        let problem = match event {
            Ok(event) => match writer.write(&event) {
                Ok(()) => {
                    written += 1;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Record => {
                    format!(
                        "{}: the event at {} ns: {}",
                        args.from.display(),
                        event.timestamp_ns,
                        hint(&error)
                    )
                }
                Err(error) => return Err(error.into()),
            },
            Err(problem) if problem.is_torn() => {
                told.add(&problem);
                return Ok(());
            }
            Err(problem) => problem.to_string(),
        };
        if args.strict {
            return Err(Failure::new(format!("{problem}; nothing was written")));
        }
        told.say(&problem);
        left_out += 1;
        Ok(())
    })?;
    writer.finish()?;
    if left_out > 0 && is_same(&args.from, &args.to) {
        told.finish();
        let lost = counted(left_out, "record", "records");
        return Err(Failure::new(format!(
            "{} would lose {lost} that cannot be converted, so nothing was written; name another file",
            args.to.display()
        )));
    }
    fs::rename(&part.0, &args.to).map_err(|error| cannot_write(&args.to, &error))?;
    told.finish();
    let mut out = stdout();
    let events = counted(written, "event", "events");
    let to = args.to.display().to_string();
    let missing = match left_out {
        0 => String::new(),
        _ => format!(", {} left out", counted(left_out, "record", "records")),
    };
    writeln!(out, "{}: {events} in schema {}{missing}", printable(&to), schema.number())?;
    out.flush()?;
    Ok(if left_out == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether both paths name the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::canonicalize(path).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

fn hint(error: &Error) -> String {
    let text = error.to_string();
    if text.contains("which schema 2 and 3 cannot say") {
        format!("{text}: --schema 4 can, and --lossy writes 0")
    } else {
        text
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "gz" || kind == "zst")
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// A temporary file that is deleted unless it was renamed.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn beside(path: &Path) -> Result<Self, Failure> {
        let Some(name) = path.file_name() else {
            return Err(Failure::new(format!("{} is not a file name", path.display())));
        };
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        Ok(Self(path.with_file_name(name)))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}
