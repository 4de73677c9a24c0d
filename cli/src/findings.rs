//! Findings, for people: worst first, each with its evidence and what to try.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use runlore::analyze::{FailOn, Finding, Severity, Thresholds};
use runlore::query::text::{printable, rounded};
use serde_json::Value;

use crate::Done;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, RED, local_time, stdout};
use crate::units::{bytes, change, counted, nanoseconds, percent};

/// What every analysis can be asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Asked {
    /// How the report is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// Write the report to a file instead
    #[arg(long, short, value_name = "FILE")]
    output: Option<std::path::PathBuf>,

    /// Findings that make the exit code 2: a severity (info, warning, critical), kinds of findings, or never
    #[arg(long, value_name = "WHAT", default_value = "warning")]
    fail_on: String,

    /// A threshold, as in gap_ratio=0.1; `--thresholds` lists them
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_delimiter = ',')]
    set: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
}

impl Asked {
    pub(crate) fn fail_on(&self) -> Result<FailOn, Failure> {
        Ok(self.fail_on.parse()?)
    }

    pub(crate) fn thresholds(&self) -> Result<Thresholds, Failure> {
        let mut thresholds = Thresholds::default();
        for text in &self.set {
            thresholds.set(text)?;
        }
        Ok(thresholds)
    }

    /// Writes a report as it is wanted; the exit code says whether any finding makes the command fail.
    pub(crate) fn answer(
        &self,
        json: impl FnOnce() -> Value,
        failed: usize,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Done {
        let exit_code: u8 = if failed > 0 { 2 } else { 0 };
        self.write(|out| match self.format {
            ReportFormat::Text => text(out),
            ReportFormat::Json => {
                let mut json = json();
                json["failed"] = failed.into();
                json["exit_code"] = exit_code.into();
                serde_json::to_writer_pretty(&mut *out, &json)?;
                writeln!(out)
            }
        })?;
        Ok(ExitCode::from(exit_code))
    }

    /// Writes a report to where it is wanted.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let Some(path) = &self.output else {
            let mut out = stdout();
            write(&mut out)?;
            return Ok(out.flush()?);
        };
        let written = || {
            // A file has no colours.
            let mut out = BufWriter::new(AutoStream::never(File::create(path)?));
            write(&mut out)?;
            out.flush()
        };
        written().map_err(|error: io::Error| cannot_write(path, &error))
    }
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// `3 findings: 1 critical, 2 warnings`
pub(crate) fn counts(findings: &[Finding]) -> String {
    let of = |severity: Severity| {
        findings.iter().filter(|finding| finding.severity == severity).count() as u64
    };
    let words = |severity: Severity| match severity {
        Severity::Critical => ("critical", "critical"),
        Severity::Warning => ("warning", "warnings"),
        Severity::Info => ("info", "infos"),
    };
    let each: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .filter(|severity| of(*severity) > 0)
        .map(|severity| counted(of(severity), words(severity).0, words(severity).1))
        .collect();
    match each.is_empty() {
        true => "no findings".to_owned(),
        false => {
            let all = counted(findings.len() as u64, "finding", "findings");
            format!("{all}: {}", each.join(", "))
        }
    }
}

pub(crate) fn paint(severity: Severity) -> Style {
    match severity {
        Severity::Critical => RED.bold(),
        Severity::Warning => AnsiColor::Yellow.on_default(),
        Severity::Info => AnsiColor::Cyan.on_default(),
    }
}

pub(crate) fn write(out: &mut (impl Write + ?Sized), findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let style = paint(finding.severity);
        let place = match finding.place.to_string() {
            place if place.is_empty() => place,
            place => format!("  {}", printable(&place)),
        };
        writeln!(
            out,
            "\n{style}{}{style:#} {BOLD}{}{BOLD:#}{place}  {DIM}confidence {}{DIM:#}",
            finding.severity,
            finding.kind,
            percent(finding.confidence * 100.0),
        )?;
        writeln!(out, "  {}", printable(&finding.what))?;
        if let Some(window) = finding.place.window {
            let from = local_time(window.start_ns as f64 / 1e9);
            let length = match window.length_ns() {
                0 => String::new(),
                length => format!(", for {}", nanoseconds(length)),
            };
            writeln!(out, "  {DIM}when{DIM:#}  {from}{length}")?;
        }
        let evidence: Vec<String> =
            finding.evidence.iter().map(|(name, value)| shown(name, value)).collect();
        if !evidence.is_empty() {
            writeln!(out, "  {DIM}seen{DIM:#}  {}", printable(&evidence.join(", ")))?;
        }
        for (at, text) in finding.to_try.iter().enumerate() {
            let label = if at == 0 { "try " } else { "    " };
            writeln!(out, "  {DIM}{label}{DIM:#}  {text}")?;
        }
    }
    Ok(())
}

/// A piece of evidence in the unit that its name tells.
fn shown(name: &str, value: &Value) -> String {
    let words = |name: &str| name.replace('_', " ");
    if let Some(number) = value.as_f64() {
        let ends = ["_timestamp_ns", "_bytes_per_sec", "_bytes", "_ns", "_ratio", "_count"];
        let end = ends.into_iter().find(|end| name.ends_with(end)).unwrap_or_default();
        let text = match end {
            "_timestamp_ns" => local_time(number / 1e9),
            "_bytes_per_sec" => format!("{}/s", change(number as i64)),
            "_bytes" if number < 0.0 => change(number as i64),
            "_bytes" => bytes(number as u64),
            "_ns" => nanoseconds(number.max(0.0) as u64),
            "_ratio" => percent(number * 100.0),
            _ => rounded(number),
        };
        return format!("{} {text}", words(&name[..name.len() - end.len()]));
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts =
                items.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    format!("{} {text}", words(name))
}

/// What the findings are judged by, as a table.
pub(crate) fn write_thresholds() -> crate::Done {
    let mut out = stdout();
    let rows: Vec<Vec<crate::table::Cell>> = Thresholds::default()
        .all()
        .into_iter()
        .map(|(name, value, meaning)| [name, &value, meaning].map(crate::table::Cell::new).into())
        .collect();
    crate::table::write(&mut out, &["THRESHOLD", ">DEFAULT", "MEANING"], &rows)?;
    out.flush()?;
    Ok(std::process::ExitCode::SUCCESS)
}
