//! Measures how many tasks were at work at the same time.

use serde::Serialize;

use crate::analyze::finding::{Finding, Place, Severity, Window};
use crate::analyze::kind::Kind;
use crate::analyze::text::percent;
use crate::analyze::thresholds::Thresholds;

/// The number of parts into which the window is divided.
const PARTS: u64 = 200;
/// The minimum share of a run with several tasks at work. Below it, a single task at work is not
/// worth a finding.
const LEAST_TOGETHER: f64 = 0.05;

/// How many tasks were at work at the same time. A task that waits for the tasks it called does not
/// count.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Parallelism {
    /// The measured time span.
    pub window: Option<Window>,
    /// The mean number of tasks at work.
    pub mean: f64,
    /// The maximum number of tasks at work.
    pub max: u64,
    /// The share of the time with exactly one task at work.
    pub alone_ratio: f64,
    /// The share of the time with no task at work.
    pub idle_ratio: f64,
    /// The mean number of tasks at work in each of the equal parts of the window, for plotting.
    pub parts: Vec<f64>,
}

pub(super) fn measure(own: &[Vec<Window>], window: Window) -> Parallelism {
    // A +1 at each start and a -1 at each end.
    let mut edges: Vec<(u64, i64)> = Vec::new();
    for own in own.iter().flatten() {
        let start = own.start_ns.clamp(window.start_ns, window.end_ns);
        let end = own.end_ns.clamp(window.start_ns, window.end_ns);
        if end > start {
            edges.extend([(start, 1), (end, -1)]);
        }
    }
    // At equal times a -1 sorts before a +1, so tasks that follow each other do not overlap.
    edges.sort_unstable();
    let length = window.length_ns() as f64;
    let part = length / PARTS as f64;
    let mut parts = vec![0.0; PARTS as usize];
    let (mut at_work, mut most) = (0_i64, 0_i64);
    let (mut alone, mut idle, mut sum) = (0.0, 0.0, 0.0);
    let mut last = window.start_ns;
    for (at, change) in edges.into_iter().chain([(window.end_ns, 0)]) {
        let passed = (at - last) as f64;
        sum += passed * at_work as f64;
        match at_work {
            0 => idle += passed,
            1 => alone += passed,
            _ => {}
        }
        if at_work > 0 && passed > 0.0 {
            add(
                &mut parts,
                (last - window.start_ns) as f64 / part,
                (at - window.start_ns) as f64 / part,
                at_work as f64,
            );
        }
        at_work += change;
        most = most.max(at_work);
        last = at;
    }
    Parallelism {
        window: Some(window),
        mean: sum / length,
        max: most.unsigned_abs(),
        alone_ratio: alone / length,
        idle_ratio: idle / length,
        parts,
    }
}

/// Adds `level` to the parts between two positions, weighted by how much of each part is covered.
fn add(parts: &mut [f64], from: f64, to: f64, level: f64) {
    let last = parts.len() - 1;
    for (at, part) in
        parts.iter_mut().enumerate().skip(from as usize).take(to as usize - from as usize + 1)
    {
        let end = if at == last { f64::INFINITY } else { (at + 1) as f64 };
        *part += (to.min(end) - from.max(at as f64)).max(0.0) * level;
    }
}

/// Reports low parallelism and idle time. `recording_ns` is how long the recorder was at work
/// while no task was, which must not count as waiting.
pub(super) fn find(
    measured: &Parallelism,
    recording_ns: u64,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let place = Place::default();
    // Tasks that overlap only a little do not count as parallel.
    let together = 1.0 - measured.alone_ratio - measured.idle_ratio;
    if together >= LEAST_TOGETHER && measured.alone_ratio >= thresholds.alone_ratio {
        let what = format!(
            "for {} of the run a single task was at work, and up to {} at other times",
            percent(measured.alone_ratio),
            measured.max
        );
        let finding = Finding::new(Kind::LowParallelism, Severity::Info, 0.7, what)
            .with("alone_ratio", measured.alone_ratio)
            .with("mean_count", measured.mean)
            .with("max_count", measured.max);
        found.push(finding.at(&place, measured.window));
    }
    let length = measured.window.map_or(0, Window::length_ns) as f64;
    let idle_ns = (measured.idle_ratio * length - recording_ns as f64).max(0.0);
    let idle_ratio = idle_ns / length.max(1.0);
    if idle_ratio >= thresholds.waiting_ratio && idle_ns >= thresholds.waiting_min_seconds * 1e9 {
        let what = format!(
            "for {} of the run no task was at work: what happened then is not recorded",
            percent(idle_ratio)
        );
        let finding =
            Finding::new(Kind::Waiting, Severity::Info, 0.7, what).with("idle_ratio", idle_ratio);
        found.push(finding.at(&place, measured.window));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_ns: u64, end_ns: u64) -> Window {
        Window { start_ns, end_ns }
    }

    #[test]
    fn time_is_counted_once_for_each_that_is_at_work() {
        let own = [vec![window(0, 400)], vec![window(400, 600)], vec![window(500, 600)]];
        let measured = measure(&own, window(0, 1000));
        assert_eq!((measured.max, measured.mean), (2, 0.7));
        assert!((measured.alone_ratio - 0.5).abs() < 1e-9, "{measured:?}");
        assert!((measured.idle_ratio - 0.4).abs() < 1e-9, "{measured:?}");
        assert_eq!((measured.parts[0], measured.parts[110], measured.parts[199]), (1.0, 2.0, 0.0));
        let sum: f64 = measured.parts.iter().sum();
        assert!((sum / 200.0 - 0.7).abs() < 1e-9);
    }

    #[test]
    fn a_window_shorter_than_its_parts_is_fine() {
        let measured = measure(&[vec![window(5, 8)]], window(5, 8));
        assert_eq!((measured.mean, measured.max, measured.idle_ratio), (1.0, 1, 0.0));
        assert!(measured.parts.iter().all(|part| (part - 1.0).abs() < 1e-9));
    }
}
