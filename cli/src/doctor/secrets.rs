//! `runlore doctor --secrets FILE`: shows which rule redacts which part of a text.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use runlore::record::find_secrets;
use runlore::settings::Settings;
use serde_json::json;

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// A line that contains a secret.
struct Line {
    number: usize,
    rules: Vec<String>,
    /// The line as it would be recorded.
    shown: String,
}

pub(super) fn run(file: &Path, as_json: bool) -> Done {
    // Apply the names that the settings add and exempt.
    runlore::record::use_redact_settings(&Settings::load().settings);
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let text =
        text.map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    let lines = lines(&text);
    let mut out = stdout();
    if as_json {
        let found: Vec<_> = lines
            .iter()
            .map(|line| json!({"line": line.number, "rules": line.rules, "recorded": line.shown}))
            .collect();
        writeln!(out, "{}", json!({"secrets": found}))?;
    } else {
        for line in &lines {
            writeln!(out, "{}: {}\n    {}", line.number, line.rules.join(", "), line.shown)?;
        }
        let of = text.lines().count();
        writeln!(out, "{} of {of} lines contain secrets", lines.len())?;
    }
    out.flush()?;
    Ok(if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Finds the lines with secrets. A secret of several lines counts for its first line.
fn lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut copied, mut number) = (0, 1);
    for secret in find_secrets(text) {
        let start = text[..secret.range.start].rfind('\n').map_or(0, |at| at + 1);
        number += text[copied..start.max(copied)].matches('\n').count();
        match lines.last_mut().filter(|line| line.number == number) {
            Some(line) => {
                line.shown.push_str(&text[copied..secret.range.start]);
                line.rules.push(secret.rule);
            }
            None => {
                end_line(lines.last_mut(), &text[copied..]);
                let shown = text[start.max(copied)..secret.range.start].to_owned();
                lines.push(Line { number, rules: vec![secret.rule], shown });
            }
        }
        if let Some(line) = lines.last_mut() {
            line.shown.push_str(REDACTED);
        }
        copied = secret.range.end;
        number += text[secret.range].matches('\n').count();
    }
    end_line(lines.last_mut(), &text[copied..]);
    lines
}

/// Appends the text after the last secret of a line.
fn end_line(line: Option<&mut Line>, rest: &str) {
    if let Some(line) = line {
        line.shown.push_str(rest.lines().next().unwrap_or_default());
    }
}
