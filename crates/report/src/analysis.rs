//! Renders an analysis of events as one HTML file: the findings with their evidence, and the
//! timeline beneath.

use super::findings;
use super::html::{facts, figure, numbers, page, table};
use super::picture::Picture;
use super::svg::Markup;
use super::timeline;
use runlore_core::text::{human_bytes, rounded, thousands};
use runlore_events::analyze::{CrossRank, EventReport, SeriesSummary, Timelines};
use runlore_query::analyze::text::duration;
use runlore_query::analyze::{Finding, Place};

/// Maximum number of devices with a row in the table.
const DEVICES: usize = 300;

/// Renders the report as one HTML file, with the timelines that it was made from. It loads nothing
/// from the network, and all of its content is readable without scripts.
///
/// ```
/// use runlore::analyze::{Thresholds, Timelines};
/// use runlore::events::TelemetryEvent;
/// use runlore::report::events_page;
///
/// let timelines: Timelines = (0..20_u64)
///     .map(|second| TelemetryEvent {
///         timestamp_ns: second * 1_000_000_000,
///         device_used_bytes: Some(14 << 30),
///         device_total_bytes: Some(16 << 30),
///         ..TelemetryEvent::default()
///     })
///     .collect();
/// let page = events_page(&timelines.analyze(&Thresholds::default()), &timelines);
/// assert!(page.contains("14 GiB of 16 GiB were in use at the peak"));
/// ```
pub fn events_page(report: &EventReport, timelines: &Timelines) -> String {
    let (picture, marked) = timeline::drawn(timelines, report);
    let mut to = Markup::default();
    to.open("main", &[]);
    to.element("h1", &[], "What memory did");
    to.quiet(&picture.subtitle);
    facts(&mut to, &facts_of(report, &picture));
    found(&mut to, &report.findings, &picture, &marked);
    devices(report, &mut to);
    for job in &report.cross_rank {
        ranks(&mut to, job);
    }
    if !report.notes.is_empty() {
        to.element("h2", &[], "What could not be told");
        to.open("ul", &[]);
        for note in &report.notes {
            to.element("li", &[], note);
        }
        to.close("ul");
    }
    to.close("main");
    page("What memory did · Runlore", &to.finish())
}

fn facts_of(report: &EventReport, picture: &Picture) -> Vec<(&'static str, String)> {
    let samples: u64 = report.series.iter().map(|series| series.samples).sum();
    let none = || "none".to_owned();
    vec![
        ("findings", findings::counts(&report.findings).unwrap_or_else(none)),
        ("devices", thousands(report.series.len() as u64)),
        ("samples", thousands(samples)),
        ("duration", duration(picture.length_ns)),
    ]
}

fn devices(report: &EventReport, to: &mut Markup) {
    if report.series.is_empty() {
        return;
    }
    to.element("h2", &[("id", &"devices")], "Devices");
    let names_jobs = Place::are_of_several_jobs(report.series.iter().map(|one| &one.place));
    let row = |series: &SeriesSummary| device(series, names_jobs);
    let rows: Vec<Vec<String>> = report.series.iter().take(DEVICES).map(row).collect();
    let headings = [
        "where",
        ">samples",
        ">most allocated",
        ">most reserved",
        ">most in use",
        ">of",
        ">in use on average",
        ">grows by",
        ">alerts",
    ];
    table(to, &headings, &rows);
    if let Some(more @ 1..) = report.series.len().checked_sub(DEVICES) {
        let told = format!("and {} more", thousands(more as u64));
        to.quiet(told);
    }
    let told = "Allocated is what the program was given, reserved what its allocator holds for it, in use what is taken of \
         the device by whomever.";
    to.quiet(told);
}

/// Writes the findings, the picture that shows where they are, and the other marks in it.
pub(super) fn found(
    to: &mut Markup,
    findings: &[Finding],
    picture: &Picture,
    marked: &[Option<usize>],
) {
    to.element("h2", &[("id", &"findings")], "Worth looking at");
    match findings {
        [] => to.element("p", &[], "Nothing stands out."),
        all => findings::write(to, all, Some(picture.start_ns), marked),
    }
    if picture.panels.is_empty() {
        return;
    }
    to.element("h2", &[("id", &"timeline")], "Over time");
    figure(to, picture);
    let told: Vec<usize> = marked.iter().copied().flatten().collect();
    let others = (1..=picture.marks.len()).filter(|number| !told.contains(number));
    marks(to, picture, others);
    for note in &picture.notes {
        to.quiet(note);
    }
    numbers(to, picture);
}

/// Writes the marks of a picture that have the given numbers.
fn marks(to: &mut Markup, picture: &Picture, which: impl Iterator<Item = usize>) {
    let mut which = which.peekable();
    if which.peek().is_none() {
        return;
    }
    to.element("h3", &[], "What collectors told meanwhile");
    to.open("ol", &[("class", &"marks")]);
    for number in which {
        timeline::write_mark(to, number, &picture.marks[number - 1]);
    }
    to.close("ol");
}

fn device(series: &SeriesSummary, names_jobs: bool) -> Vec<String> {
    let size = |size: Option<u64>| size.map(human_bytes).unwrap_or_default();
    let growth = series.slope_bytes_per_sec.filter(|slope| slope.abs() >= 1.0).map(|slope| {
        let sign = if slope < 0.0 { "-" } else { "+" };
        format!("{sign}{}/s", human_bytes(slope.abs() as u64))
    });
    let mean = series.mean_utilization_ratio;
    vec![
        if names_jobs { format!("{:#}", series.place) } else { series.place.to_string() },
        thousands(series.samples),
        size(series.peak_allocated_bytes),
        size(series.peak_reserved_bytes),
        size(series.peak_used_bytes),
        size(series.total_bytes),
        mean.map(|ratio| format!("{} %", rounded(ratio * 100.0))).unwrap_or_default(),
        growth.unwrap_or_default(),
        if series.alerts > 0 { thousands(series.alerts) } else { String::new() },
    ]
}

fn ranks(to: &mut Markup, job: &CrossRank) {
    let name = job.job_id.as_deref().map_or_else(String::new, |job| format!(" of {job}"));
    to.element("h2", &[], format!("Which rank{name} began it"));
    let ranks = job.participating_ranks.len();
    to.quiet(format!("{ranks} of {} ranks, put on one clock.", job.world_size));
    if job.first_cause_suspects.is_empty() {
        to.element("p", &[], "No rank grew suddenly before the others did.");
    } else {
        let rows: Vec<Vec<String>> = job
            .first_cause_suspects
            .iter()
            .map(|suspect| {
                let sure = serde_json::to_value(suspect.confidence).unwrap_or_default();
                vec![
                    format!("rank {}", suspect.rank),
                    suspect.device_id.to_string(),
                    human_bytes(suspect.peak_delta_bytes),
                    duration(suspect.lead_over_cluster_onset_ns),
                    sure.as_str().unwrap_or_default().to_owned(),
                ]
            })
            .collect();
        table(
            to,
            &["suspect", ">device", ">grew by", ">ahead of the next by", "confidence"],
            &rows,
        );
    }
    for note in &job.notes {
        to.quiet(note);
    }
}
