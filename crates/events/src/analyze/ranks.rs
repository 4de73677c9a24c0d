//! Compares the ranks of a job: which of them grew first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::{Finding, Place, Severity, Window};
use super::kind::Kind;
use super::math::median;
use super::series::Series;
use super::text::{bytes, duration};
use super::thresholds::Thresholds;

/// Missing ranks are listed up to this number. The world size in a file may be any number.
const MOST_RANKS: u64 = 65_536;

/// A jump spans at most this many samples, or 1 / `JUMP_SHARE` of all samples if that is more.
const JUMP_SAMPLES: usize = 3;
const JUMP_SHARE: usize = 20;

/// The ranks of a job on one clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CrossRank {
    /// The id of the job. `None` if the events name none.
    pub job_id: Option<String>,
    /// The number of ranks in the job.
    pub world_size: u64,
    /// The ranks with samples.
    pub participating_ranks: Vec<u64>,
    /// The ranks without samples.
    pub missing_ranks: Vec<u64>,
    /// The number of samples of each rank.
    pub rank_sample_counts: BTreeMap<u64, usize>,
    /// The nanoseconds to subtract from the timestamps of each rank to align them: how much later
    /// its first sample is than that of the first rank.
    pub alignment_offsets_ns: BTreeMap<u64, i64>,
    /// The time on the shared clock when the second rank grew suddenly, from which on several ranks
    /// are affected. If only one rank grew, the time when it did.
    pub cluster_onset_timestamp_ns: Option<u64>,
    /// The ranks that grew suddenly up to that time, the earliest first.
    pub first_cause_suspects: Vec<Suspect>,
    /// Reasons why the result is less certain.
    pub notes: Vec<String>,
}

/// A rank that may be the first cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Suspect {
    /// The rank.
    pub rank: u64,
    /// The device that grew.
    pub device_id: i64,
    /// The time of the jump on the rank's own clock.
    pub first_spike_timestamp_ns: u64,
    /// The time of the jump on the shared clock.
    pub aligned_first_spike_timestamp_ns: u64,
    /// The growth in bytes.
    pub peak_delta_bytes: u64,
    /// The number of samples that the jump spans.
    pub spike_window_samples: usize,
    /// The time by which it precedes the second rank.
    pub lead_over_cluster_onset_ns: u64,
    /// The confidence that this rank is the first cause.
    pub confidence: Confidence,
}

/// The confidence that a rank is the first cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Another rank was earlier, or too little is known.
    Low,
    /// It was one of several ranks that were first.
    Medium,
    /// It alone was first, by at least one sampling interval.
    High,
}

/// The series of one rank that are compared, all of one session on one host.
struct Rank<'a> {
    number: u64,
    offset: i64,
    series: Vec<&'a Series>,
}

/// The first sudden growth of a rank.
struct Onset {
    rank: u64,
    device: i64,
    at_ns: u64,
    end_ns: u64,
    aligned_ns: u64,
    growth: u64,
    samples: usize,
}

/// Compares the ranks of one job. `None` if there is only one rank.
pub(super) fn compare(
    series: &[&Series],
    thresholds: &Thresholds,
) -> Option<(CrossRank, Vec<Finding>)> {
    let mut notes = Vec::new();
    let mut ranks = ranks(series, &mut notes);
    if ranks.len() < 2 {
        return None;
    }
    let world_size = series.iter().map(|one| one.world_size).max().unwrap_or(1);
    let interval = median_interval(&ranks);
    align(&mut ranks, interval, &mut notes);
    let present: Vec<u64> = ranks.iter().map(|rank| rank.number).collect();
    let missing: Vec<u64> = (0..world_size.min(MOST_RANKS))
        .filter(|number| present.binary_search(number).is_err())
        .collect();
    if !missing.is_empty() {
        let all: Vec<String> = missing.iter().take(20).map(u64::to_string).collect();
        let more = if missing.len() > all.len() { " and more" } else { "" };
        notes.push(format!("there are no samples of rank {}{more}", all.join(", ")));
    }
    let mut onsets: Vec<Onset> =
        ranks.iter().filter_map(|rank| first_growth(rank, thresholds)).collect();
    onsets.sort_by_key(|onset| (onset.aligned_ns, onset.rank));
    if onsets.len() == 1 {
        notes.push(
            "only one rank grew suddenly, so that nothing tells what followed from it".to_owned(),
        );
    }
    let cluster = onsets.get(1).or(onsets.first()).map(|onset| onset.aligned_ns);
    let suspects = suspects(&onsets, cluster, !missing.is_empty(), interval);
    let job_id = series.first().and_then(|one| one.place.job_id.clone());
    let findings = suspects.iter().filter_map(|suspect| told(suspect, &onsets, &ranks)).collect();
    let counted =
        |rank: &Rank<'_>| (rank.number, rank.series.iter().map(|one| one.samples.len()).sum());
    let cross = CrossRank {
        job_id,
        world_size,
        participating_ranks: present,
        missing_ranks: missing,
        rank_sample_counts: ranks.iter().map(counted).collect(),
        alignment_offsets_ns: ranks.iter().map(|rank| (rank.number, rank.offset)).collect(),
        cluster_onset_timestamp_ns: cluster,
        first_cause_suspects: suspects,
        notes,
    };
    Some((cross, findings))
}

/// Returns the ranks with samples. If a rank has several sessions or hosts, only the last one is
/// compared.
fn ranks<'a>(series: &[&'a Series], notes: &mut Vec<String>) -> Vec<Rank<'a>> {
    let mut all: BTreeMap<u64, Vec<&Series>> = BTreeMap::new();
    for one in series.iter().filter(|one| !one.samples.is_empty()) {
        all.entry(one.place.rank.unwrap_or_default()).or_default().push(one);
    }
    let mut ranks = Vec::new();
    for (number, mut series) in all {
        let begin = |one: &&Series| one.window().map(|window| window.start_ns);
        let last = series.iter().copied().max_by_key(begin);
        let origin = |one: &Series| (one.place.session_id.clone(), one.place.host.clone());
        let last = last.map(origin);
        let before = series.len();
        series.retain(|one| Some(origin(one)) == last);
        if series.len() < before {
            notes.push(format!(
                "rank {number} has several sessions or hosts, of which the last is compared"
            ));
        }
        ranks.push(Rank { number, offset: 0, series });
    }
    ranks
}

fn median_interval(ranks: &[Rank<'_>]) -> u64 {
    let all = ranks.iter().flat_map(|rank| &rank.series).flat_map(|series| {
        series.samples.windows(2).map(|pair| (pair[1].timestamp_ns - pair[0].timestamp_ns) as f64)
    });
    median(&all.collect::<Vec<f64>>()) as u64
}

/// Shifts the ranks so that their first samples coincide.
fn align(ranks: &mut [Rank<'_>], interval: u64, notes: &mut Vec<String>) {
    let first = |rank: &Rank<'_>| {
        let starts = rank.series.iter().filter_map(|one| one.window());
        starts.map(|window| window.start_ns).min().unwrap_or_default()
    };
    let Some(anchor) = ranks.first().map(first) else { return };
    for rank in ranks {
        rank.offset = first(rank).wrapping_sub(anchor) as i64;
        if rank.offset.unsigned_abs() > interval.saturating_mul(5) {
            notes.push(format!(
                "rank {} starts {} from the first rank, so that one clock for both is a guess",
                rank.number,
                duration(rank.offset.unsigned_abs())
            ));
        }
    }
}

/// Finds the first jump of a rank: sufficient growth within a few consecutively rising samples.
fn first_growth(rank: &Rank<'_>, thresholds: &Thresholds) -> Option<Onset> {
    let of_series = |series: &&Series| {
        let told: Vec<(u64, u64)> = series
            .samples
            .iter()
            .filter_map(|sample| {
                let held = match series.is_device() {
                    true => sample.used.or(sample.allocated),
                    false => sample.held(),
                };
                Some((sample.timestamp_ns, held?))
            })
            .collect();
        let most = told.iter().map(|(_, used)| *used).max()? as f64;
        let enough = (most * thresholds.onset_ratio).max(thresholds.min_bytes as f64);
        let values: Vec<u64> = told.iter().map(|(_, used)| *used).collect();
        let (first, last) = first_jump(&values, enough)?;
        let at_ns = told[first].0;
        Some(Onset {
            rank: rank.number,
            device: series.place.device_id.unwrap_or_default(),
            at_ns,
            end_ns: told[last].0,
            aligned_ns: at_ns.saturating_add_signed(rank.offset.saturating_neg()),
            growth: values[last] - values[first - 1],
            samples: last + 1 - first,
        })
    };
    rank.series.iter().filter_map(of_series).min_by_key(|onset| onset.aligned_ns)
}

/// Returns the first and last sample of the first jump. A slow rise before or after it does not
/// belong to it.
fn first_jump(values: &[u64], enough: f64) -> Option<(usize, usize)> {
    let most = (values.len() / JUMP_SHARE).max(JUMP_SAMPLES);
    let step = |at: usize| values[at].saturating_sub(values[at - 1]);
    // The last sample before the rise.
    let mut begin = 0;
    for at in 1..values.len() {
        if step(at) == 0 {
            begin = at;
            continue;
        }
        let from = begin.max(at.saturating_sub(most));
        if ((values[at] - values[from]) as f64) < enough {
            continue;
        }
        let largest = (from + 1..=at).map(step).max().unwrap_or(0);
        let is_part = |at: &usize| step(*at) > largest / 2;
        let first = (from + 1..=at).find(is_part)?;
        let last = (at..values.len()).take_while(is_part).last().unwrap_or(at);
        return Some((first, last));
    }
    None
}

fn suspects(
    onsets: &[Onset],
    cluster: Option<u64>,
    is_incomplete: bool,
    interval: u64,
) -> Vec<Suspect> {
    let (Some(first), Some(cluster)) = (onsets.first(), cluster) else { return Vec::new() };
    let earliest = onsets.iter().filter(|onset| onset.aligned_ns == first.aligned_ns).count();
    let suspect = |onset: &Onset| {
        let lead = cluster - onset.aligned_ns;
        let is_first = onset.aligned_ns == first.aligned_ns;
        let confidence = match (onsets.len() < 2 || is_incomplete, is_first) {
            (true, _) | (_, false) => Confidence::Low,
            _ if earliest == 1 && lead >= interval => Confidence::High,
            _ => Confidence::Medium,
        };
        Suspect {
            rank: onset.rank,
            device_id: onset.device,
            first_spike_timestamp_ns: onset.at_ns,
            aligned_first_spike_timestamp_ns: onset.aligned_ns,
            peak_delta_bytes: onset.growth,
            spike_window_samples: onset.samples,
            lead_over_cluster_onset_ns: lead,
            confidence,
        }
    };
    onsets.iter().filter(|onset| onset.aligned_ns <= cluster).map(suspect).collect()
}

/// Converts a suspect to a finding, unless the confidence is low.
fn told(suspect: &Suspect, onsets: &[Onset], ranks: &[Rank<'_>]) -> Option<Finding> {
    let (severity, confidence) = match suspect.confidence {
        Confidence::Low => return None,
        Confidence::Medium => (Severity::Info, 0.6),
        Confidence::High => (Severity::Warning, 0.9),
    };
    let growth = bytes(suspect.peak_delta_bytes as f64);
    let what = match suspect.confidence {
        Confidence::High => format!(
            "it grew by {growth} before any other rank did, {} ahead of the next",
            duration(suspect.lead_over_cluster_onset_ns)
        ),
        _ => format!("it grew by {growth} at the same time as the first of the others"),
    };
    let onset = onsets.iter().find(|onset| onset.rank == suspect.rank)?;
    let rank = ranks.iter().find(|rank| rank.number == suspect.rank)?;
    let series = rank.series.iter().find(|one| one.place.device_id == Some(suspect.device_id))?;
    let place: &Place = &series.place;
    let window = Window { start_ns: onset.at_ns, end_ns: onset.end_ns };
    let finding = Finding::new(Kind::FirstCause, severity, confidence, what)
        .with("peak_delta_bytes", suspect.peak_delta_bytes)
        .with("lead_ns", suspect.lead_over_cluster_onset_ns)
        .with("grown_ranks_count", onsets.len());
    Some(finding.at(place, Some(window)))
}
