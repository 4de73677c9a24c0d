//! Summaries of float slices.
//!
//! The compiler turns the loop over lanes into vector instructions, those of AVX2 if the CPU has it.
#![allow(unsafe_code)]

use super::slice::{Number, Summary};

/// Returns the bytes of a slice of numbers.
pub(super) fn bytes<T: Number>(items: &[T]) -> &[u8] {
    // SAFETY: `Number` is implemented for primitive numbers only: no padding, every byte
    // initialised.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// With this many lanes, the compiler keeps them in registers. With fewer, it does not.
const LANES: usize = 16;

macro_rules! float_summary {
    ($type:ident, $in_lanes:ident, $with_avx2:ident) => {
        pub(super) fn $type(items: &[$type]) -> Summary<$type> {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has AVX2.
                return unsafe { $with_avx2(items) };
            }
            $in_lanes(items)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $with_avx2(items: &[$type]) -> Summary<$type> {
            $in_lanes(items)
        }

        #[inline(always)]
        fn $in_lanes(items: &[$type]) -> Summary<$type> {
            let mut min = [$type::INFINITY; LANES];
            let mut max = [$type::NEG_INFINITY; LANES];
            let mut sum = [0.0_f64; LANES];
            let (blocks, rest) = items.as_chunks::<LANES>();
            let mut add = |lane: usize, item: $type| {
                // No comparison with NaN holds, so NaN changes only the sum.
                min[lane] = if item < min[lane] { item } else { min[lane] };
                max[lane] = if item > max[lane] { item } else { max[lane] };
                sum[lane] += f64::from(item);
            };
            for block in blocks {
                for lane in 0..LANES {
                    add(lane, block[lane]);
                }
            }
            for (lane, &item) in rest.iter().enumerate() {
                add(lane, item);
            }
            let (mut sum, mut not_numbers) = (sum.iter().sum::<f64>(), 0);
            if sum.is_nan() {
                // Rare, so the loop above has no code for it.
                let numbers = items.iter().filter(|item| !item.is_nan());
                not_numbers = items.len() - numbers.clone().count();
                sum = numbers.copied().map(f64::from).sum();
            }
            Summary {
                min: min.into_iter().fold($type::INFINITY, $type::min),
                max: max.into_iter().fold($type::NEG_INFINITY, $type::max),
                mean: sum / (items.len() - not_numbers) as f64,
                not_numbers: not_numbers as u64,
            }
        }
    };
}

float_summary!(f64, f64_in_lanes, f64_with_avx2);
float_summary!(f32, f32_in_lanes, f32_with_avx2);

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: f64, b: f64) -> bool {
        a == b || a.is_nan() && b.is_nan()
    }

    /// The summary, item by item.
    macro_rules! plain {
        ($type:ident, $items:expr) => {{
            let mut plain = Summary {
                min: $type::INFINITY,
                max: $type::NEG_INFINITY,
                mean: 0.0,
                not_numbers: 0,
            };
            for &item in &$items {
                if item.is_nan() {
                    plain.not_numbers += 1;
                } else {
                    plain.min = if item < plain.min { item } else { plain.min };
                    plain.max = if item > plain.max { item } else { plain.max };
                    plain.mean += f64::from(item);
                }
            }
            plain.mean /= ($items.len() as u64 - plain.not_numbers) as f64;
            plain
        }};
    }

    #[test]
    fn wide_and_plain_summaries_agree() {
        for length in [1, 3, 15, 16, 17, 100, 1000, 1027] {
            let mut items: Vec<f64> =
                (0..length).map(|i| f64::from(i * 7919 % 1013) - 500.0).collect();
            let last = items.len() - 1;
            for odd in [None, Some(f64::INFINITY), Some(f64::NAN)] {
                if let Some(odd) = odd {
                    items[last] = -odd;
                    items[last / 2] = odd;
                    items[0] = odd;
                }
                let short: Vec<f32> = items.iter().map(|&x| x as f32).collect();
                let (wide, plain) = (f64(&items), plain!(f64, items));
                assert_eq!(
                    (wide.min, wide.max, wide.not_numbers),
                    (plain.min, plain.max, plain.not_numbers)
                );
                assert!((wide.mean - plain.mean).abs() < 1e-9 || same(wide.mean, plain.mean));
                let (wide, plain) = (f32(&short), plain!(f32, short));
                assert_eq!(
                    (wide.min, wide.max, wide.not_numbers),
                    (plain.min, plain.max, plain.not_numbers)
                );
                assert!((wide.mean - plain.mean).abs() < 1e-9 || same(wide.mean, plain.mean));
            }
        }
    }
}
