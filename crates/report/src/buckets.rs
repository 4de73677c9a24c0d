//! Thins a curve without changing how it looks: each interval keeps its first, last, lowest and
//! highest point, and a jump.

use super::picture::Point;

/// A jump is at least this fraction of the curve's range.
const JUMP: f64 = 0.25;

/// Keeps four points for each of `stretches` equal intervals from 0 to `length_ns`, and two more if
/// the curve jumps there. Every kept point is an original one, and jumps stay as steep as they
/// were.
pub(super) fn thinned(points: &[Point], length_ns: u64, stretches: usize) -> Vec<Point> {
    if points.len() <= stretches.saturating_mul(4) {
        return points.to_vec();
    }
    let of = |point: &Point| {
        let share = u128::from(point.at_ns) * stretches as u128 / u128::from(length_ns.max(1));
        share.min(stretches as u128)
    };
    let values = || points.iter().map(|point| point.value);
    let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
    let mut kept = Vec::with_capacity(stretches * 4 + 4);
    for stretch in points.chunk_by(|one, other| of(one) == of(other)) {
        let mut places = extremes(stretch, range * JUMP);
        places.sort_unstable();
        kept.extend(places.map(|at| stretch[at]));
    }
    kept.dedup();
    // A point between two points of the same value does not change the curve.
    let is_between = |at: usize| {
        at > 0
            && kept.get(at + 1).is_some_and(|next| {
                kept[at - 1].value == kept[at].value && kept[at].value == next.value
            })
    };
    let left = (0..kept.len()).filter(|&at| !is_between(at)).map(|at| kept[at]);
    left.collect()
}

/// Returns the indexes of the first, last, lowest and highest point, and of both sides of the
/// largest step, if it is a jump.
fn extremes(stretch: &[Point], jump: f64) -> [usize; 6] {
    let last = stretch.len() - 1;
    let by_value =
        |&one: &usize, &other: &usize| stretch[one].value.total_cmp(&stretch[other].value);
    let least = (0..=last).min_by(by_value).unwrap_or(0);
    let most = (0..=last).max_by(by_value).unwrap_or(0);
    let height = |at: usize| (stretch[at].value - stretch[at - 1].value).abs();
    let highest = (1..=last).max_by(|&one, &other| height(one).total_cmp(&height(other)));
    let (before, after) = match highest.filter(|&at| height(at) >= jump) {
        Some(at) => (at - 1, at),
        None => (0, last),
    };
    [0, least, most, before, after, last]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extremes_and_order_survive(values in prop::collection::vec(-1e6..1e6_f64, 1..2000), buckets in 1..200_usize) {
            let points: Vec<Point> =
                values.iter().enumerate().map(|(at, &value)| Point { at_ns: at as u64 * 10, value }).collect();
            let kept = thinned(&points, values.len() as u64 * 10, buckets);
            prop_assert!(kept.len() <= (buckets + 1) * 6);
            prop_assert!(kept.iter().all(|point| points.contains(point)));
            prop_assert!(kept.is_sorted_by_key(|point| point.at_ns));
            let range = |points: &[Point]| {
                let values = points.iter().map(|point| point.value);
                (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
            };
            prop_assert_eq!(range(&kept), range(&points));
            prop_assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        }
    }

    #[test]
    fn a_jump_stays_a_jump() {
        // The values also vary around both levels.
        let point = |at: u64| {
            let level = if at < 537 { 2.0 } else { 6.0 };
            Point { at_ns: at * 10, value: level + (at * 7919 % 13) as f64 / 20.0 }
        };
        let points: Vec<Point> = (0..1000).map(point).collect();
        let kept = thinned(&points, 10_000, 5);
        assert!(kept.windows(2).any(|pair| pair == [point(536), point(537)]), "{kept:?}");
        let flat = |at: u64| Point { at_ns: at * 10, value: if at < 537 { 2.0 } else { 6.0 } };
        let points: Vec<Point> = (0..1000).map(flat).collect();
        assert_eq!(thinned(&points, 10_000, 5), [flat(0), flat(536), flat(537), flat(999)]);
    }
}
