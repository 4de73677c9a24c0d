//! `runlore compare --events`: compares the peak and the growth of memory with a known good run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runlore::analyze::{
    EventReport, Reference, ReferenceChange, ReferenceFigure, ReferenceLimit, Thresholds,
};
use serde_json::{Value, json};

use super::{Args, number, percent};
use crate::Done;
use crate::columns::Rows;
use crate::failure::{Failure, say};
use crate::out::{stdout, write_file};
use crate::table::{self, Cell};
use crate::units::{bytes, change};

pub(super) fn run(args: &Args) -> Done {
    let limits: Vec<ReferenceLimit> =
        args.fail_on.iter().map(|limit| limit.parse()).collect::<Result<_, _>>()?;
    if args.baseline.is_empty() && args.save_baseline.is_none() {
        return Err(Failure::new(
            "there is no baseline: name one with --baseline FILE, or store one with --save-baseline FILE",
        ));
    }
    if args.baseline.is_empty() && !limits.is_empty() {
        return Err(Failure::new("--fail-on needs a baseline: name one with --baseline FILE"));
    }
    let report = report(&args.events)?;
    let changes = match &args.baseline[..] {
        [] => Vec::new(),
        files => reference(files)?.changes(&report),
    };

    // Check the limits before writing anything, because a limit that cannot be checked is an error.
    let mut exceeded: Vec<(&ReferenceLimit, &ReferenceChange)> = Vec::new();
    for limit in &limits {
        exceeded.extend(limit.check(&changes)?.into_iter().map(|change| (limit, change)));
    }
    if !args.baseline.is_empty() {
        let mut out = stdout();
        write(&mut out, args, &changes)?;
        out.flush()?;
    }
    for (limit, change) in &exceeded {
        let [before, after] =
            [change.change.before, change.change.after].map(|number| told(change.figure, number));
        let device = device(change);
        let percent = percent(change.change);
        say(&format!(
            "`{limit}` is exceeded by {device}: {before} before, {after} after ({percent})"
        ));
    }
    // A run that is worse must not become the next baseline.
    if let Some(path) = args.save_baseline.as_ref().filter(|_| exceeded.is_empty()) {
        write_file(path, Reference::of(&report).to_json().as_bytes())?;
    }
    Ok(ExitCode::from(if exceeded.is_empty() { 0 } else { 2 }))
}

/// Analyses all events of the files.
fn report(files: &[PathBuf]) -> Result<EventReport, Failure> {
    let read = crate::events::read(files, None)?;
    if !read.is_whole {
        return Err(Failure::new(
            "some files could not be read, so nothing was compared; name only files that can be read",
        ));
    }
    let timelines = read.collector.finish();
    crate::events::has_samples(&timelines)?;
    Ok(timelines.analyze(&Thresholds::default()))
}

/// Reads a stored reference, or creates one from files of events.
fn reference(files: &[PathBuf]) -> Result<Reference, Failure> {
    match files {
        [file] if is_reference(file) || !file.exists() => Ok(Reference::read(file)?),
        files => match files.iter().find(|file| is_reference(file)) {
            Some(file) => Err(Failure::new(format!(
                "{} is a stored baseline, and only one can be used; name either that or event files",
                file.display()
            ))),
            None => match report(files) {
                Ok(report) => Ok(Reference::of(&report)),
                Err(Failure::Message(why)) => {
                    let hint = "name event files, or a file written by --save-baseline";
                    Err(Failure::new(format!("--baseline: {why}; {hint}")))
                }
                Err(other) => Err(other),
            },
        },
    }
}

/// Whether a file is a reference, of any version. The format name is near the start of the file.
fn is_reference(file: &Path) -> bool {
    let mut start = Vec::new();
    let opened = File::open(file).and_then(|file| file.take(4096).read_to_end(&mut start));
    opened.is_ok() && String::from_utf8_lossy(&start).contains("\"runlore.reference\"")
}

fn device(change: &ReferenceChange) -> String {
    match change.device_id {
        ..0 => format!("rank {}, processor", change.rank),
        device => format!("rank {}, device {device}", change.rank),
    }
}

fn told(figure: ReferenceFigure, value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match figure {
        ReferenceFigure::Slope => format!("{}/s", change(value as i64)),
        _ => bytes(value as u64),
    }
}

fn write(out: &mut impl Write, args: &Args, changes: &[ReferenceChange]) -> io::Result<()> {
    if !args.form.is_table() {
        let columns = ["rank", "device_id", "figure", "before", "after", "percent"];
        let mut rows = Rows::new(out, args.form, columns.map(str::to_owned).to_vec())?;
        for change in changes {
            let percent = change.change.percent().filter(|percent| percent.is_finite());
            rows.add(json!({
                "rank": change.rank,
                "device_id": change.device_id,
                "figure": change.figure.name(),
                "before": change.change.before.map_or(Value::Null, number),
                "after": change.change.after.map_or(Value::Null, number),
                "percent": percent,
            }))?;
        }
        return rows.finish();
    }
    let rows: Vec<Vec<Cell>> = changes
        .iter()
        .map(|change| {
            let cells = match (change.change.before, change.change.after) {
                (Some(_), None) => "gone".to_owned(),
                (None, Some(_)) => "new".to_owned(),
                _ if change.is_noise && change.change.difference() != Some(0.0) => {
                    "too little to count".to_owned()
                }
                _ => percent(change.change),
            };
            vec![
                Cell::new(&device(change)),
                Cell::new(change.figure.name()),
                Cell::new(&told(change.figure, change.change.before)),
                Cell::new(&told(change.figure, change.change.after)),
                Cell::new(&cells),
            ]
        })
        .collect();
    table::write(out, &["WHERE", "FIGURE", ">BEFORE", ">AFTER", ">CHANGE"], &rows)
}
