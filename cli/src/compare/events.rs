//! `runlore compare --events`: how high memory went and how fast it grew, beside a run that was known to be good.

use std::io::{self, Write};
use std::process::ExitCode;

use runlore::analyze::{Reference, ReferenceChange, ReferenceFigure, ReferenceLimit, Thresholds};
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
    if args.baseline.is_none() && args.save_baseline.is_none() {
        return Err(Failure::new(
            "there is nothing to compare with: name a reference by --baseline FILE, or store one by --save-baseline FILE",
        ));
    }
    if args.baseline.is_none() && !limits.is_empty() {
        return Err(Failure::new("--fail-on needs a reference: name one by --baseline FILE"));
    }
    let read = crate::events::read(&args.events, None)?;
    if !read.is_whole {
        return Err(Failure::new(
            "what could not be read cannot be compared; name the files that can be",
        ));
    }
    let timelines = read.collector.finish();
    crate::events::has_samples(&timelines)?;
    let report = timelines.analyze(&Thresholds::default());
    let reference = args.baseline.as_ref().map(Reference::read).transpose()?;
    let changes = reference.map(|reference| reference.changes(&report)).unwrap_or_default();

    // Checked before anything is written: what cannot be checked is an error.
    let mut exceeded: Vec<(&ReferenceLimit, &ReferenceChange)> = Vec::new();
    for limit in &limits {
        exceeded.extend(limit.check(&changes)?.into_iter().map(|change| (limit, change)));
    }
    if args.baseline.is_some() {
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
    // A run that is worse must not become what the next is measured by.
    if let Some(path) = args.save_baseline.as_ref().filter(|_| exceeded.is_empty()) {
        write_file(path, Reference::of(&report).to_json().as_bytes())?;
    }
    Ok(ExitCode::from(if exceeded.is_empty() { 0 } else { 2 }))
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
