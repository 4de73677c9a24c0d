//! Writes findings as text: worst first, each with its evidence and what to try.

use std::io::{self, Write};
use std::process::ExitCode;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use runlore::analyze::{FailOn, Finding, Place, Severity, Thresholds};
use runlore_core::text::printable;
use serde_json::Value;

use crate::Done;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, RED, local_time, stdout, write_file};
use crate::units::{counted, nanoseconds, percent};

/// The options that all analyses share.
#[derive(Debug, clap::Args)]
pub(crate) struct Asked {
    /// Format of the report [default: by the extension of the file, else text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<ReportFormat>,

    /// Write the report to this file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<std::path::PathBuf>,

    /// Findings that set the exit code to 2: a minimum severity (info, warning, critical), kinds of
    /// findings, or never
    #[arg(long, value_name = "WHAT", default_value = "warning")]
    fail_on: String,

    /// Set a threshold, such as gap_ratio=0.1; `--thresholds` lists them
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_delimiter = ',')]
    set: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    #[value(alias = "txt")]
    Text,
    Json,
    /// A self-contained page for a browser
    #[cfg(feature = "report")]
    Html,
}

impl Asked {
    pub(crate) fn fail_on(&self) -> Result<FailOn, Failure> {
        Ok(self.fail_on.parse()?)
    }

    pub(crate) fn thresholds(&self) -> Result<Thresholds, Failure> {
        thresholds(&self.set)
    }

    fn format(&self) -> ReportFormat {
        let ending = self.output.as_ref().and_then(|path| path.extension()?.to_str());
        self.format.unwrap_or(match ending {
            Some("json") => ReportFormat::Json,
            #[cfg(feature = "report")]
            Some("html" | "htm") => ReportFormat::Html,
            _ => ReportFormat::Text,
        })
    }

    /// Whether the report is an HTML page.
    #[cfg(feature = "report")]
    pub(crate) fn is_page(&self) -> bool {
        self.format() == ReportFormat::Html
    }

    /// Writes an HTML page. The exit code says whether a finding makes the command fail.
    #[cfg(feature = "report")]
    pub(crate) fn answer_page(&self, page: &str, verdict: Verdict) -> Done {
        self.write(|out| out.write_all(page.as_bytes()))?;
        Ok(ExitCode::from(verdict.exit_code()))
    }

    /// Writes a report in the requested format. The exit code says whether a finding makes the
    /// command fail.
    pub(crate) fn answer(
        &self,
        json: impl FnOnce() -> Value,
        verdict: Verdict,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Done {
        self.write(|out| match self.format() {
            ReportFormat::Json => {
                let mut json = json();
                json["failed"] = verdict.failed.into();
                json["exit_code"] = verdict.exit_code().into();
                serde_json::to_writer_pretty(&mut *out, &json)?;
                writeln!(out)
            }
            _ => text(out),
        })?;
        Ok(ExitCode::from(verdict.exit_code()))
    }

    /// Writes a report to its destination. A file is written completely or not at all.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let Some(path) = &self.output else {
            let mut out = stdout();
            write(&mut out)?;
            return Ok(out.flush()?);
        };
        // Strip colours in a file.
        let mut out = AutoStream::never(Vec::new());
        write(&mut out)?;
        write_file(path, &out.into_inner())
    }
}

/// Returns the default thresholds, changed by those on the command line.
pub(crate) fn thresholds(set: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for text in set {
        thresholds.set(text)?;
    }
    Ok(thresholds)
}

/// The result of an analysis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    /// The number of findings that make the command fail.
    pub(crate) failed: usize,
    /// Whether all input could be read. An incomplete check must not pass.
    pub(crate) is_whole: bool,
}

impl Verdict {
    fn exit_code(self) -> u8 {
        match (self.failed, self.is_whole) {
            (1.., _) => 2,
            (0, false) => 1,
            (0, true) => 0,
        }
    }
}

/// Formats the number of findings: `3 findings: 1 critical, 2 warnings`.
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
    if each.is_empty() {
        return "no findings".to_owned();
    }
    let all = counted(findings.len() as u64, "finding", "findings");
    format!("{all}: {}", each.join(", "))
}

pub(crate) fn paint(severity: Severity) -> Style {
    match severity {
        Severity::Critical => RED.bold(),
        Severity::Warning => AnsiColor::Yellow.on_default(),
        Severity::Info => AnsiColor::Cyan.on_default(),
    }
}

pub(crate) fn write(out: &mut (impl Write + ?Sized), findings: &[Finding]) -> io::Result<()> {
    let names_jobs = Place::are_of_several_jobs(findings.iter().map(|finding| &finding.place));
    for finding in findings {
        let style = paint(finding.severity);
        let place = &finding.place;
        let place = match if names_jobs { format!("{place:#}") } else { place.to_string() } {
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
        let evidence = finding.evidence_in_words(|at_ns| local_time(at_ns as f64 / 1e9));
        let evidence: Vec<String> =
            evidence.into_iter().map(|(name, told)| format!("{name} {told}")).collect();
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

/// Writes the thresholds as a table.
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
