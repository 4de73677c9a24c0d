//! Fewer points that look the same: of each stretch of time its least and its greatest.

use super::picture::Point;

/// At most two points for each of so many equal stretches from 0 to `length_ns`, and the first and the last of all. Every
/// point that is left is one that was seen.
pub(super) fn thinned(points: &[Point], length_ns: u64, buckets: usize) -> Vec<Point> {
    if points.len() <= buckets.saturating_mul(2) {
        return points.to_vec();
    }
    let of = |point: &Point| {
        let share = u128::from(point.at_ns) * buckets as u128 / u128::from(length_ns.max(1));
        share.min(buckets as u128)
    };
    let mut kept = Vec::with_capacity(buckets * 2 + 2);
    kept.extend(points.first());
    for bucket in points.chunk_by(|one, other| of(one) == of(other)) {
        let by_value = |one: &&Point, other: &&Point| one.value.total_cmp(&other.value);
        let (Some(least), Some(most)) =
            (bucket.iter().min_by(by_value), bucket.iter().max_by(by_value))
        else {
            continue;
        };
        let (first, second) = if least.at_ns <= most.at_ns { (least, most) } else { (most, least) };
        kept.push(*first);
        kept.push(*second);
    }
    kept.extend(points.last());
    kept.dedup();
    kept
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
            prop_assert!(kept.len() <= (buckets + 1) * 2 + 2);
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
}
