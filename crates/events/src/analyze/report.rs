//! The report of everything that was found in events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::finding::{self, Finding, Place, Severity, Window};
use super::kind::Kind;
use super::math::{Line, mean_and_deviation, median};
use super::ranks::CrossRank;
use super::series::{MarkKind, Sample, Series, Timelines};
use super::thresholds::Thresholds;
use super::{collective, gap, host, memory, ranks};

/// The results of analysing events.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EventReport {
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
    /// The summary of each series.
    pub series: Vec<SeriesSummary>,
    /// Comparisons of the ranks of jobs with several ranks.
    pub cross_rank: Vec<CrossRank>,
    /// What could not be analysed, and why.
    pub notes: Vec<String>,
}

impl EventReport {
    /// Adds findings from elsewhere. Skips those of a kind that the same session already has.
    pub fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        let known: Vec<(Kind, Option<String>)> = self
            .findings
            .iter()
            .map(|finding| (finding.kind, finding.place.session_id.clone()))
            .collect();
        let is_new =
            |finding: &Finding| !known.contains(&(finding.kind, finding.place.session_id.clone()));
        self.findings.extend(findings.into_iter().filter(is_new));
        finding::sort(&mut self.findings);
    }

    /// Returns the highest severity of all findings. `None` if there are none.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// The summary of a series. Values that its samples do not provide are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SeriesSummary {
    /// The origin of the series and its time window. `where` in JSON.
    #[serde(rename = "where")]
    pub place: Place,
    /// The number of samples.
    pub samples: u64,
    /// The median time between two samples.
    pub interval_ns: Option<u64>,
    /// The peak of allocated bytes.
    pub peak_allocated_bytes: Option<u64>,
    /// The peak of reserved bytes.
    pub peak_reserved_bytes: Option<u64>,
    /// The peak of used bytes of the device.
    pub peak_used_bytes: Option<u64>,
    /// The size of the device's memory in bytes.
    pub total_bytes: Option<u64>,
    /// The mean fraction of the device's memory in use.
    pub mean_utilization_ratio: Option<f64>,
    /// The growth of held memory per second, from a line through all samples.
    pub slope_bytes_per_sec: Option<f64>,
    /// The largest amount of hidden memory.
    pub max_gap_bytes: Option<i64>,
    /// The mean fraction of reserved bytes that were not allocated.
    pub unused_reserved_ratio: Option<f64>,
    /// The number of alerts of the collector, including those about memory that ran out.
    pub alerts: u64,
}

impl SeriesSummary {
    /// Returns the peak of held memory: allocated, or else in use.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.peak_allocated_bytes.or(self.peak_used_bytes)
    }

    pub(super) fn of(series: &Series) -> Self {
        let most = |of: fn(&Sample) -> Option<u64>| series.samples.iter().filter_map(of).max();
        let mean = |of: fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = series.samples.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| mean_and_deviation(&values).0)
        };
        let held: Vec<(f64, f64)> = series
            .samples
            .iter()
            .filter_map(|sample| Some((series.seconds(sample), sample.held()? as f64)))
            .collect();
        let gaps: Vec<f64> = series
            .samples
            .windows(2)
            .map(|pair| (pair[1].timestamp_ns - pair[0].timestamp_ns) as f64)
            .collect();
        let max_gap = series.samples.iter().filter_map(Sample::gap).reduce(f64::max);
        let is_alert = |kind: MarkKind| matches!(kind, MarkKind::Alert(_) | MarkKind::OutOfMemory);
        Self {
            place: Place { window: series.window(), ..series.place.clone() },
            samples: series.samples.len() as u64,
            interval_ns: (!gaps.is_empty()).then(|| median(&gaps) as u64),
            peak_allocated_bytes: most(|sample| sample.allocated),
            peak_reserved_bytes: most(|sample| sample.reserved),
            peak_used_bytes: most(|sample| sample.used),
            total_bytes: most(|sample| sample.total),
            mean_utilization_ratio: mean(|sample| {
                let total = sample.total.filter(|total| *total > 0)?;
                Some(sample.used? as f64 / total as f64)
            }),
            slope_bytes_per_sec: (held.len() > 1).then(|| Line::through(&held).slope),
            max_gap_bytes: max_gap.map(|gap| gap as i64),
            unused_reserved_ratio: mean(|sample| {
                let reserved = sample.reserved.filter(|reserved| *reserved > 0)?;
                Some(reserved.saturating_sub(sample.allocated?) as f64 / reserved as f64)
            }),
            alerts: series.marks.iter().filter(|mark| is_alert(mark.kind)).count() as u64,
        }
    }
}

impl Timelines {
    /// Runs all analyses: of each series, then of the ranks of each job together.
    pub fn analyze(&self, thresholds: &Thresholds) -> EventReport {
        let mut report = EventReport::default();
        let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for series in self.series() {
            let mut note = |what: String| {
                notes.entry(what).or_default().push(series.place.to_string());
            };
            if series.samples.is_empty() {
                note("there are no samples".to_owned());
            } else if series.is_device() {
                match gap::find(series, thresholds) {
                    Ok(found) => report.findings.extend(found),
                    Err(why) => note(why),
                }
            }
            report.findings.extend(memory::find(series, thresholds));
            report.findings.extend(host::find(series, thresholds));
            let degraded = series.marks_of(MarkKind::Degraded).count();
            if degraded > 0 {
                let times =
                    if degraded == 1 { "once".to_owned() } else { format!("{degraded} times") };
                note(format!("the collector could not read all it should, {times}"));
            }
            report.series.push(SeriesSummary::of(series));
        }
        let mut jobs: BTreeMap<Option<&str>, Vec<&Series>> = BTreeMap::new();
        for series in self.series() {
            jobs.entry(series.place.job_id.as_deref()).or_default().push(series);
        }
        for series in jobs.values() {
            let compared = ranks::compare(series, thresholds);
            let (cross, found) =
                compared.map_or((None, Vec::new()), |(cross, found)| (Some(cross), found));
            report.findings.extend(found);
            report.findings.extend(collective::find(series, cross.as_ref(), thresholds));
            report.cross_rank.extend(cross);
        }
        report.notes = notes.into_iter().map(|(what, places)| told(&what, &places)).collect();
        finding::sort(&mut report.findings);
        report
    }

    /// Returns the time from the first to the last sample of all series.
    pub fn window(&self) -> Option<Window> {
        let windows = self.series().iter().filter_map(Series::window);
        windows.reduce(Window::with)
    }
}

/// Formats a note with the series that it applies to.
fn told(what: &str, places: &[String]) -> String {
    match places {
        [one] => format!("{one}: {what}"),
        [first, ..] => format!("{first} and {} more: {what}", places.len() - 1),
        [] => what.to_owned(),
    }
}
