//! Writes findings into a page: what, where and when, how certain, the evidence, and what to try.

use super::axis;
use super::html::table;
use super::svg::Markup;
use runlore_core::text::thousands;
use runlore_query::analyze::text::duration;
use runlore_query::analyze::{Finding, Kind, Place, Severity};

/// Maximum number of kinds of findings, and of critical findings, that are shown unfolded.
const SHOWN: usize = 6;
const CRITICAL: usize = 20;
/// Up to `IN_FULL` further findings are shown with their evidence. Beyond that, each gets one line,
/// up to `IN_A_LINE` lines.
const IN_FULL: usize = 60;
const IN_A_LINE: usize = 300;

/// Formats the counts as `2 critical, 1 warning`. `None` if there are no findings.
pub(super) fn counts(findings: &[Finding]) -> Option<String> {
    let of = |severity: Severity| findings.iter().filter(|it| it.severity == severity).count();
    let told = |severity: Severity| match (of(severity), severity) {
        (0, _) => None,
        (1, severity) => Some(format!("1 {severity}")),
        (many, Severity::Critical) => Some(format!("{many} critical")),
        (many, severity) => Some(format!("{many} {severity}s")),
    };
    let all: Vec<String> = Severity::ALL.into_iter().rev().filter_map(told).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A finding, and the number of its mark in the picture.
type Numbered<'a> = (&'a Finding, Option<usize>);

/// Writes the findings: suspected first causes come first, then the worst of each kind, because
/// many findings are often similar. The rest is folded. Times are relative to `start_ns`, if it is
/// given.
pub(super) fn write(
    to: &mut Markup,
    findings: &[Finding],
    start_ns: Option<u64>,
    numbers: &[Option<usize>],
) {
    let names_jobs = Place::are_of_several_jobs(findings.iter().map(|finding| &finding.place));
    let place = |finding: &Finding| match names_jobs {
        true => format!("{:#}", finding.place),
        false => finding.place.to_string(),
    };
    let numbers = numbers.iter().copied().chain(std::iter::repeat(None));
    let mut all: Vec<Numbered<'_>> = findings.iter().zip(numbers).collect();
    all.sort_by_key(|(finding, _)| finding.kind != Kind::FirstCause);
    let mut kinds = Vec::new();
    let mut criticals = 0;
    let (shown, more): (Vec<Numbered<'_>>, Vec<Numbered<'_>>) =
        all.into_iter().partition(|(finding, _)| {
            let is_new = !kinds.contains(&finding.kind);
            criticals += usize::from(finding.severity == Severity::Critical);
            let is_shown = match finding.severity {
                Severity::Critical => criticals <= CRITICAL,
                _ => is_new && kinds.len() < SHOWN,
            };
            if is_shown && is_new {
                kinds.push(finding.kind);
            }
            is_shown
        });
    list(to, &shown, start_ns, &place);
    if more.is_empty() {
        return;
    }
    to.raw("<details class=\"more\">");
    to.element("summary", &[], format!("{} more, of these kinds or milder", more.len()));
    match more.len() {
        0..=IN_FULL => list(to, &more, start_ns, &place),
        _ => lines(to, &more, start_ns, &place),
    }
    to.raw("</details>");
}

fn list(
    to: &mut Markup,
    findings: &[Numbered<'_>],
    start_ns: Option<u64>,
    place: &dyn Fn(&Finding) -> String,
) {
    to.open("ol", &[("class", &"findings")]);
    for (finding, number) in findings {
        one(to, finding, &place(finding), start_ns, *number);
    }
    to.close("ol");
}

/// Writes one line per finding.
fn lines(
    to: &mut Markup,
    findings: &[Numbered<'_>],
    start_ns: Option<u64>,
    place: &dyn Fn(&Finding) -> String,
) {
    let row = |(finding, _): &Numbered<'_>| {
        let since = finding.place.window.zip(start_ns);
        let since = since.map(|(window, start)| window.start_ns.saturating_sub(start));
        vec![
            finding.kind.as_str().replace('_', " "),
            finding.severity.to_string(),
            place(finding),
            since.map(axis::elapsed).unwrap_or_default(),
            finding.what.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = findings.iter().take(IN_A_LINE).map(row).collect();
    table(to, &["what", "severity", "where", ">after", ""], &rows);
    if let Some(more @ 1..) = findings.len().checked_sub(IN_A_LINE) {
        let told =
            format!("and {} more: `--format json` tells all of them", thousands(more as u64));
        to.quiet(told);
    }
}

fn one(
    to: &mut Markup,
    finding: &Finding,
    place: &str,
    start_ns: Option<u64>,
    number: Option<usize>,
) {
    let level = finding.severity.as_str();
    let name = finding.kind.as_str().replace('_', " ");
    to.open("li", &[("class", &level)]);
    to.open("p", &[]);
    if let Some(number) = number {
        to.element("span", &[("class", &format!("number-of {level}"))], number);
        to.raw(" ");
    }
    to.element("span", &[("class", &format!("level {level}"))], level);
    to.raw(" ");
    to.element("strong", &[], name);
    if !place.is_empty() {
        to.element("span", &[("class", &"quiet")], format!(" · {place}"));
    }
    to.close("p");
    to.element("p", &[], &finding.what);
    if let Some(first) = finding.to_try.first() {
        to.open("p", &[]);
        to.element("span", &[("class", &"quiet")], "Try: ");
        to.escaped(first);
        to.close("p");
    }
    to.raw("<details><summary>Evidence</summary><dl class=\"evidence\">");
    if let Some(window) = finding.place.window {
        entry(to, "when", &when(window.start_ns, window.length_ns(), start_ns));
    }
    for (name, told) in finding.evidence_in_words(axis::utc) {
        entry(to, &name, &told);
    }
    entry(to, "confidence", &format!("{:.0} %", finding.confidence * 100.0));
    to.raw("</dl>");
    if finding.to_try.len() > 1 {
        to.quiet("Also worth trying:");
        to.open("ul", &[]);
        for what in &finding.to_try[1..] {
            to.element("li", &[], what);
        }
        to.close("ul");
    }
    to.raw("</details>");
    to.close("li");
}

fn entry(to: &mut Markup, name: &str, told: &str) {
    to.open("div", &[]);
    to.element("dt", &[], name);
    to.element("dd", &[], told);
    to.close("div");
}

fn when(at_ns: u64, length_ns: u64, start_ns: Option<u64>) -> String {
    let length = match length_ns {
        0 => String::new(),
        length => format!(", for {}", duration(length)),
    };
    let since = start_ns.and_then(|start| at_ns.checked_sub(start));
    let since = since
        .map_or_else(String::new, |since| format!("{} after the start · ", axis::elapsed(since)));
    format!("{since}{}{length}", axis::utc(at_ns))
}
