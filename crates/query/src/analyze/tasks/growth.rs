//! Finds processes whose memory grows from iteration to iteration.

use std::collections::BTreeMap;

use super::rows::{Row, Rows};
use crate::analyze::finding::{Finding, Place, Severity, Window};
use crate::analyze::kind::Kind;
use crate::analyze::math::{Jump, Line};
use crate::analyze::text::bytes;
use crate::analyze::thresholds::Thresholds;

/// The minimum number of iterations for a finding.
const FEWEST: usize = 10;
/// The share of iterations to ignore at the beginning, when memory always grows.
const WARM_UP: f64 = 0.2;

/// Reports at most one finding per process: for the activity whose iterations take the longest in
/// total, because the other activities run inside it.
pub(super) fn find(rows: &Rows, thresholds: &Thresholds) -> Vec<Finding> {
    // Iterations of lightweight loops have no memory readings, but the tasks inside them may.
    let telling = || rows.iter().filter(|row| row.rss.is_some() && !row.is_open);
    let has_iterations = telling().any(|row| row.is_iteration);
    let mut groups: BTreeMap<(usize, usize), Vec<&Row>> = BTreeMap::new();
    for row in telling().filter(|row| row.is_iteration || !has_iterations) {
        groups.entry((row.process, row.activity)).or_default().push(row);
    }
    let mut found: BTreeMap<usize, (u64, Finding)> = BTreeMap::new();
    for ((process, activity), mut group) in groups {
        group.sort_by_key(|row| row.end_ns);
        let Some(finding) = growth(&group, thresholds) else { continue };
        let place = Place {
            activity_id: Some(rows.activity(activity).to_owned()),
            host: rows.host(process),
            ..Place::default()
        };
        let window = group.first().zip(group.last()).map(|(first, last)| Window {
            start_ns: first.start_ns.min(last.start_ns),
            end_ns: last.end_ns,
        });
        let total: u64 = group.iter().map(|row| row.length_ns()).sum();
        if found.get(&process).is_none_or(|(most, _)| total > *most) {
            found.insert(process, (total, finding.at(&place, window)));
        }
    }
    found.into_values().map(|(_, finding)| finding).collect()
}

fn growth(iterations: &[&Row], thresholds: &Thresholds) -> Option<Finding> {
    let warm = &iterations[(iterations.len() as f64 * WARM_UP) as usize..];
    if iterations.len() < FEWEST {
        return None;
    }
    let sizes: Vec<f64> = warm.iter().filter_map(|row| row.rss).map(|rss| rss as f64).collect();
    let points: Vec<(f64, f64)> =
        sizes.iter().enumerate().map(|(at, size)| (at as f64, *size)).collect();
    let line = Line::through(&points);
    let (first, last) = (sizes.first()?, sizes.last()?);
    let growth = line.slope * (points.len() - 1) as f64;
    let is_step = Jump::in_values(&sizes, 1).is_some_and(|jump| jump.left < line.left);
    let is_growth = growth
        >= (first * thresholds.leak_growth_ratio).max(thresholds.min_bytes as f64)
        && line.explained >= thresholds.leak_fit
        && !is_step;
    if !is_growth {
        return None;
    }
    let what = format!(
        "the process grew from {} to {}, by {} an iteration",
        bytes(*first),
        bytes(*last),
        bytes(line.slope)
    );
    Some(
        Finding::new(Kind::MemoryGrowth, Severity::Warning, line.explained, what)
            .with("start_bytes", *first)
            .with("end_bytes", *last)
            .with("per_iteration_bytes", line.slope)
            .with("r_squared", line.explained)
            .with("iterations_count", iterations.len()),
    )
}
