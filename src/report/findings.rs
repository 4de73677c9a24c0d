//! Findings within a page: what, where and when, how sure, the numbers behind it, and what to try.

use std::time::Duration;

use super::axis;
use super::svg::Markup;
use crate::analyze::{Finding, Severity};
use crate::query::text::human_duration;

/// How many of those that are not critical are shown at once.
const SHOWN: usize = 6;

/// `2 critical, 1 warning`; none where there is nothing.
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

/// The number of a finding's mark in the picture beside it.
type Number<'a> = &'a dyn Fn(&Finding) -> Option<usize>;

/// Writes them: the worst of each kind at once, for many are often alike. Times are told from a beginning on, where there is one.
pub(super) fn write(
    to: &mut Markup,
    findings: &[Finding],
    start_ns: Option<u64>,
    number: Number<'_>,
) {
    let mut kinds = Vec::new();
    let (shown, more): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(|finding| {
        let is_shown = finding.severity == Severity::Critical
            || (!kinds.contains(&finding.kind) && kinds.len() < SHOWN);
        if is_shown && !kinds.contains(&finding.kind) {
            kinds.push(finding.kind);
        }
        is_shown
    });
    list(to, &shown, start_ns, number);
    if !more.is_empty() {
        to.raw("<details class=\"more\">");
        to.element("summary", &[], format!("{} more, of these kinds or milder", more.len()));
        list(to, &more, start_ns, number);
        to.raw("</details>");
    }
}

fn list(to: &mut Markup, findings: &[&Finding], start_ns: Option<u64>, number: Number<'_>) {
    to.open("ol", &[("class", &"findings")]);
    for finding in findings {
        one(to, finding, start_ns, number(finding));
    }
    to.close("ol");
}

fn one(to: &mut Markup, finding: &Finding, start_ns: Option<u64>, number: Option<usize>) {
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
    let place = finding.place.to_string();
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
        to.element("p", &[("class", &"quiet")], "Also worth trying:");
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
    let duration = |ns| human_duration(Duration::from_nanos(ns));
    let length = match length_ns {
        0 => String::new(),
        length => format!(", for {}", duration(length)),
    };
    let since = start_ns.and_then(|start| at_ns.checked_sub(start));
    let since = since
        .map_or_else(String::new, |since| format!("{} after the start · ", axis::elapsed(since)));
    format!("{since}{}{length}", axis::utc(at_ns))
}
