//! What was found, held against the bounds: as a table and as JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use crate::compare::{Measured, scratch};
use crate::row::{Bound, Line, Row, Unit};

/// A line of the table with its numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    row: u8,
    what: &'static str,
    unit: &'static str,
    ours: Option<f64>,
    against: Option<&'static str>,
    theirs: Option<f64>,
    ratio: Option<f64>,
    /// The smallest and the largest ratio of one round.
    ratio_range: Option<(f64, f64)>,
    bound: String,
    /// None where there is no bound, or nothing was measured.
    pass: Option<bool>,
    #[serde(skip)]
    line: &'static Line,
}

/// Holds every line of the rows against its bound.
pub(crate) fn judge(rows: &[&'static Row], measured: &Measured) -> Vec<Judged> {
    let lines = rows.iter().flat_map(|row| row.lines.iter().map(move |line| (row.number, line)));
    lines.map(|(row, line)| judge_line(row, line, measured)).collect()
}

fn judge_line(row: u8, line: &'static Line, measured: &Measured) -> Judged {
    let ours = measured.value(row, line.ours);
    let theirs = line.theirs.and_then(|(_, value)| measured.value(row, value));
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
    let ratios = line.theirs.map(|(_, value)| {
        let theirs = measured.rounds(row, value).into_iter();
        measured.rounds(row, line.ours).into_iter().zip(theirs).map(|(a, b)| a / b)
    });
    let ratio_range = ratios.and_then(|ratios| {
        ratios.fold(None, |range: Option<(f64, f64)>, ratio| {
            let (low, high) = range.unwrap_or((ratio, ratio));
            Some((low.min(ratio), high.max(ratio)))
        })
    });
    let pass = match line.bound {
        Bound::AtMost(most) => ratio.map(|ratio| ratio <= most),
        Bound::AtMostOrPlus(most, more) => {
            ours.zip(theirs).map(|(ours, theirs)| ours <= theirs * most || ours <= theirs + more)
        }
        Bound::AtLeast(least) => ratio.map(|ratio| ratio >= least),
        Bound::Below(most) => ours.map(|ours| ours <= most),
        Bound::None => None,
    };
    Judged {
        row,
        what: line.what,
        unit: unit_name(line.unit),
        ours,
        against: line.theirs.map(|(name, _)| name),
        theirs,
        ratio,
        ratio_range,
        bound: bound_text(line),
        pass,
        line,
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Mebibytes => "MiB",
        Unit::PerSecond => "per second",
        Unit::Ratio => "×",
        Unit::Count => "",
    }
}

fn bound_text(line: &Line) -> String {
    match line.bound {
        Bound::AtMost(most) => format!("≤ {most:.2} ×"),
        Bound::AtMostOrPlus(most, more) => {
            format!("≤ {most:.2} × or + {}", number(Some(more), line.unit))
        }
        Bound::AtLeast(least) => format!("≥ {least:.2} ×"),
        Bound::Below(most) => format!("≤ {}", number(Some(most), line.unit)),
        Bound::None => String::new(),
    }
}

fn number(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else { return "not measured".to_owned() };
    match unit {
        Unit::Nanoseconds if value.abs() < 100.0 => format!("{value:.1} ns"),
        Unit::Nanoseconds if value.abs() < 10_000.0 => format!("{value:.0} ns"),
        Unit::Nanoseconds if value.abs() < 1e8 => format!("{:.1} µs", value / 1000.0),
        Unit::Nanoseconds => format!("{:.2} s", value / 1e9),
        Unit::Mebibytes => format!("{value:.2} MiB"),
        Unit::PerSecond => format!("{:.1} k/s", value / 1000.0),
        Unit::Ratio => format!("{value:.4} ×"),
        Unit::Count => format!("{value:.0}"),
    }
}

/// Prints the table.
#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
pub(crate) fn print(lines: &[Judged], measured: &Measured) {
    let mut cells = vec![
        ["row", "what", "ours", "theirs", "against", "ratio", "in one round", "bound", ""]
            .map(str::to_owned),
    ];
    for line in lines {
        let unit = line.line.unit;
        let theirs = line.against.map(|_| number(line.theirs, unit)).unwrap_or_default();
        let verdict = match (line.pass, line.line.bound) {
            (Some(true), _) => "pass",
            (Some(false), _) => "MISS",
            (None, Bound::None) => "",
            (None, _) => "skipped",
        };
        cells.push([
            line.row.to_string(),
            line.what.to_owned(),
            number(line.ours, unit),
            theirs,
            line.against.unwrap_or_default().to_owned(),
            line.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            line.ratio_range.map(|(low, high)| format!("{low:.2}–{high:.2}")).unwrap_or_default(),
            line.bound.clone(),
            verdict.to_owned(),
        ]);
    }
    print!("{}", aligned(&cells));
    for problem in &measured.problems {
        println!("\nnot measured: {problem}");
    }
}

/// A Markdown table that is also one to the eye.
fn aligned(cells: &[[String; 9]]) -> String {
    let widths: Vec<usize> = (0..9)
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (index, row) in cells.iter().enumerate() {
        for (cell, &width) in row.iter().zip(&widths) {
            _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for &width in &widths {
                _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Writes `target/bench/targets.json`: the lines, and every number of every process.
pub(crate) fn save(lines: &[Judged], measured: &Measured) -> std::io::Result<PathBuf> {
    let folder = scratch().with_file_name("bench");
    std::fs::create_dir_all(&folder)?;
    let found: serde_json::Map<_, _> = measured
        .found
        .iter()
        .map(|((row, contender, case), values)| {
            (format!("{row}/{contender}/{case}"), serde_json::json!(values))
        })
        .collect();
    let text = serde_json::to_string_pretty(&serde_json::json!({
        "quick": measured.quick,
        "cpus": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "debug_assertions": cfg!(debug_assertions),
        "lines": lines,
        "measured": found,
        "problems": measured.problems,
    }))?;
    let path = folder.join("targets.json");
    std::fs::write(&path, text + "\n")?;
    Ok(path)
}
