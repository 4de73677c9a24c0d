//! Finds memory that collective operations took outside the allocator: briefly, on several ranks at
//! once, and near an event that names such an operation.

use std::collections::BTreeSet;

use super::finding::{Finding, Severity, Window};
use super::kind::Kind;
use super::math::Robust;
use super::ranks::CrossRank;
use super::series::{MarkKind, Series};
use super::text::bytes;
use super::thresholds::Thresholds;

/// The minimum number of samples to detect outliers.
const FEWEST: usize = 6;
/// The maximum time between an episode and an event that names a collective operation.
const WORDS_NS: u64 = 150_000_000;
/// The maximum time between simultaneous episodes of different ranks, and the margin around the
/// samples of a finding.
const AROUND_NS: u64 = 120_000_000;

/// Consecutive samples in which the hidden memory of a series is unusually large.
struct Episode<'a> {
    series: &'a Series,
    /// On the clock of the rank.
    window: Window,
    offset: i64,
    peak: f64,
    total: Option<f64>,
    score: f64,
    words: usize,
}

impl Episode<'_> {
    fn rank(&self) -> u64 {
        self.series.place.rank.unwrap_or_default()
    }

    /// Returns the start and the end on the shared clock.
    fn aligned(&self) -> (u64, u64) {
        let on_shared = |at: u64| at.saturating_add_signed(self.offset.saturating_neg());
        (on_shared(self.window.start_ns), on_shared(self.window.end_ns))
    }
}

/// Analyses the series of one job.
pub(super) fn find(
    series: &[&Series],
    cross: Option<&CrossRank>,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut episodes: Vec<Episode<'_>> = Vec::new();
    for one in series.iter().filter(|one| one.is_device()) {
        let offset = cross
            .and_then(|cross| cross.alignment_offsets_ns.get(&one.place.rank.unwrap_or_default()));
        episodes.extend(episodes_of(one, offset.copied().unwrap_or(0), thresholds));
    }
    let expected = series.iter().map(|one| one.world_size).max().unwrap_or(1).max(1);
    let ranks = ranks_beside(&episodes);
    let both = episodes.iter().zip(ranks);
    both.filter_map(|(episode, ranks)| told(episode, ranks, expected, thresholds)).collect()
}

/// Returns for each episode the number of ranks with an episode at the same time.
///
/// Episodes of one series do not overlap, so binary search finds those around a given time. A job
/// with many ranks has too many episodes to compare each pair.
fn ranks_beside(episodes: &[Episode<'_>]) -> Vec<u64> {
    let mut by_series: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
    for same in episodes.chunk_by(|one, next| std::ptr::eq(one.series, next.series)) {
        by_series.push((same[0].rank(), same.iter().map(Episode::aligned).collect()));
    }
    let beside = |(start, end): (u64, u64)| {
        let around = start.saturating_sub(AROUND_NS)..=end.saturating_add(AROUND_NS);
        let ranks: BTreeSet<u64> = by_series
            .iter()
            .filter(|(_, windows)| {
                let first = windows.partition_point(|(_, end)| end < around.start());
                windows.get(first).is_some_and(|(start, _)| start <= around.end())
            })
            .map(|(rank, _)| *rank)
            .collect();
        ranks.len() as u64
    };
    episodes.iter().map(Episode::aligned).map(beside).collect()
}

fn episodes_of<'a>(series: &'a Series, offset: i64, thresholds: &Thresholds) -> Vec<Episode<'a>> {
    let told: Vec<(u64, f64, Option<f64>)> = series
        .samples
        .iter()
        .filter_map(|sample| {
            let total = sample.total.filter(|total| *total > 0).map(|total| total as f64);
            Some((sample.timestamp_ns, sample.gap()?, total))
        })
        .collect();
    if told.len() < FEWEST {
        return Vec::new();
    }
    let usual = Robust::of(&told.iter().map(|(_, gap, _)| *gap).collect::<Vec<f64>>());
    let mut episodes: Vec<Episode<'_>> = Vec::new();
    for (at, gap, total) in told {
        let bytes = thresholds.collective_bytes as f64;
        let least = total.map_or(bytes, |total| bytes.min(total * thresholds.collective_ratio));
        let score = usual.score(gap);
        if gap < least || score < thresholds.collective_score {
            continue;
        }
        match episodes.last_mut() {
            Some(last) if at.saturating_sub(last.window.end_ns) <= 2 * AROUND_NS => {
                last.window.end_ns = at;
                last.peak = last.peak.max(gap);
                last.score = last.score.max(score);
            }
            _ => episodes.push(Episode {
                series,
                window: Window { start_ns: at, end_ns: at },
                offset,
                peak: gap,
                total,
                score,
                words: 0,
            }),
        }
    }
    for episode in &mut episodes {
        let Window { start_ns, end_ns } = episode.window;
        let near = start_ns.saturating_sub(WORDS_NS)..=end_ns.saturating_add(WORDS_NS);
        let words = series.marks_of(MarkKind::Collective);
        episode.words = words.filter(|mark| near.contains(&mark.timestamp_ns)).count();
    }
    episodes
}

/// Converts an episode to a finding, if there is enough evidence for a collective operation.
fn told(
    episode: &Episode<'_>,
    ranks: u64,
    expected: u64,
    thresholds: &Thresholds,
) -> Option<Finding> {
    let synchrony = ranks as f64 / expected as f64;
    let is_together = ranks > 1 && synchrony >= thresholds.synchrony_ratio;
    let mut reasons = vec!["allocator_device_divergence", "gap_spike_statistical_outlier"];
    // Hidden memory is by definition outside the allocator, so the first reason always applies.
    let enough = 2.0 * thresholds.collective_score.max(f64::MIN_POSITIVE);
    let mut score = 0.16 + 0.16 * (episode.score / enough).min(1.0);
    if episode.words > 0 {
        score += 0.34;
        reasons.push("marker_collective_token");
    } else {
        score -= 0.15;
    }
    if is_together {
        score += 0.34;
        reasons.push("cross_rank_synchrony");
    } else if ranks == 1 {
        score -= 0.15;
    }
    if episode.total.is_none() {
        score -= 0.05;
    }
    if score < thresholds.collective_confidence {
        return None;
    }
    let class = match score {
        0.8.. => "collective_confident",
        0.6.. => "collective_likely",
        _ => "collective_possible",
    };
    let peak = bytes(episode.peak);
    let others = match (is_together, episode.words > 0) {
        (true, true) => {
            format!("on {ranks} of {expected} ranks at once, where events name a collective")
        }
        (true, false) => format!("on {ranks} of {expected} ranks at once"),
        _ => "where events name a collective".to_owned(),
    };
    let window = Window {
        start_ns: episode.window.start_ns.saturating_sub(AROUND_NS),
        end_ns: episode.window.end_ns.saturating_add(AROUND_NS),
    };
    let what = format!("{peak} outside of the allocator came and went {others}");
    let mut finding = Finding::new(Kind::Collective, Severity::Info, score, what)
        .with("classification", class)
        .with("reason_codes", reasons)
        .with("marker_hits", episode.words)
        .with("synchronized_ranks", ranks)
        .with("expected_world_size", expected)
        .with("synchrony_ratio", synchrony)
        .with("peak_gap_bytes", episode.peak)
        .with("robust_zscore", episode.score);
    if let Some(total) = episode.total {
        finding = finding.with("peak_gap_ratio", episode.peak / total);
    }
    Some(finding.at(&episode.series.place, Some(window)))
}
