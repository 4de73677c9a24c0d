//! Summaries of float slices, computed with AVX2 if the CPU has it.
#![allow(unsafe_code)]

use super::slice::Summary;

/// Returns the bytes of a slice of numbers.
pub(super) fn bytes<T: super::slice::Number>(items: &[T]) -> &[u8] {
    // SAFETY: `Number` is implemented for primitive numbers only: no padding, every byte
    // initialised.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

macro_rules! float_summary {
    ($type:ident, $avx2:ident, $portable:ident) => {
        pub(super) fn $type(items: &[$type]) -> Summary<$type> {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                let summary = unsafe { avx2::$type::<false>(items) };
                if !summary.mean.is_nan() {
                    return summary;
                }
                // SAFETY: as above.
                return unsafe { avx2::$type::<true>(items) };
            }
            $portable(items)
        }

        fn $portable(items: &[$type]) -> Summary<$type> {
            let (mut min, mut max) = ($type::INFINITY, $type::NEG_INFINITY);
            let (mut sum, mut not_numbers) = (0.0, 0);
            for &item in items {
                if item.is_nan() {
                    not_numbers += 1;
                } else {
                    min = if item < min { item } else { min };
                    max = if item > max { item } else { max };
                    sum += f64::from(item);
                }
            }
            finish(items.len(), min, max, sum, not_numbers)
        }
    };
}

float_summary!(f64, f64_avx2, f64_portable);
float_summary!(f32, f32_avx2, f32_portable);

fn finish<T>(length: usize, min: T, max: T, sum: f64, not_numbers: u64) -> Summary<T> {
    let mean = sum / (length as u64 - not_numbers) as f64;
    Summary { min, max, mean, not_numbers }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Summary, finish};

    // `WITH_NAN` is set only after a first pass whose sum is NaN. Counting and skipping NaN is
    // extra work and needs registers, so that the sums would spill to memory.

    /// How many registers are processed at a time, to hide the latency of the additions.
    const UNROLL: usize = 4;

    #[target_feature(enable = "avx2")]
    pub(super) fn f64<const WITH_NAN: bool>(items: &[f64]) -> Summary<f64> {
        const LANES: usize = 4;
        let mut min = [_mm256_set1_pd(f64::INFINITY); UNROLL];
        let mut max = [_mm256_set1_pd(f64::NEG_INFINITY); UNROLL];
        let mut sum = [_mm256_setzero_pd(); UNROLL];
        let mut nan = [_mm256_setzero_si256(); UNROLL];
        let blocks = items.chunks_exact(LANES * UNROLL);
        let rest = blocks.remainder();
        for block in blocks {
            for lane in 0..UNROLL {
                // SAFETY: the block holds LANES * UNROLL floats.
                let x = unsafe { _mm256_loadu_pd(block.as_ptr().add(lane * LANES)) };
                // min and max return their second operand if the first is NaN.
                min[lane] = _mm256_min_pd(x, min[lane]);
                max[lane] = _mm256_max_pd(x, max[lane]);
                if WITH_NAN {
                    let is_nan = _mm256_cmp_pd::<_CMP_UNORD_Q>(x, x);
                    sum[lane] = _mm256_add_pd(sum[lane], _mm256_andnot_pd(is_nan, x));
                    nan[lane] = _mm256_sub_epi64(nan[lane], _mm256_castpd_si256(is_nan));
                } else {
                    sum[lane] = _mm256_add_pd(sum[lane], x);
                }
            }
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut total, mut not_numbers) = (0.0, 0);
        for lane in 0..UNROLL {
            let mut floats = [0.0; LANES];
            let mut counts = [0_u64; LANES];
            // SAFETY: each array is as large as one register.
            unsafe {
                _mm256_storeu_pd(floats.as_mut_ptr(), min[lane]);
                low = floats.iter().fold(low, |a, &b| if b < a { b } else { a });
                _mm256_storeu_pd(floats.as_mut_ptr(), max[lane]);
                high = floats.iter().fold(high, |a, &b| if b > a { b } else { a });
                _mm256_storeu_pd(floats.as_mut_ptr(), sum[lane]);
                total += floats.iter().sum::<f64>();
                _mm256_storeu_si256(counts.as_mut_ptr().cast(), nan[lane]);
                not_numbers += counts.iter().sum::<u64>();
            }
        }
        for &item in rest {
            if WITH_NAN && item.is_nan() {
                not_numbers += 1;
            } else {
                low = if item < low { item } else { low };
                high = if item > high { item } else { high };
                total += item;
            }
        }
        finish(items.len(), low, high, total, not_numbers)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn f32<const WITH_NAN: bool>(items: &[f32]) -> Summary<f32> {
        const LANES: usize = 8;
        // Each register of `f32` needs two sums, so half as many registers at a time.
        const UNROLL: usize = 2;
        let mut min = [_mm256_set1_ps(f32::INFINITY); UNROLL];
        let mut max = [_mm256_set1_ps(f32::NEG_INFINITY); UNROLL];
        // The sums are `f64`, because a million `f32` would lose digits otherwise.
        let mut sum = [[_mm256_setzero_pd(); 2]; UNROLL];
        let mut not_numbers = 0_u64;
        let blocks = items.chunks_exact(LANES * UNROLL);
        let rest = blocks.remainder();
        for block in blocks {
            for lane in 0..UNROLL {
                // SAFETY: the block holds LANES * UNROLL floats.
                let x = unsafe { _mm256_loadu_ps(block.as_ptr().add(lane * LANES)) };
                min[lane] = _mm256_min_ps(x, min[lane]);
                max[lane] = _mm256_max_ps(x, max[lane]);
                let mut kept = x;
                if WITH_NAN {
                    let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
                    kept = _mm256_andnot_ps(is_nan, x);
                    not_numbers += u64::from(_mm256_movemask_ps(is_nan).count_ones());
                }
                let halves = [_mm256_castps256_ps128(kept), _mm256_extractf128_ps::<1>(kept)];
                for half in 0..2 {
                    sum[lane][half] = _mm256_add_pd(sum[lane][half], _mm256_cvtps_pd(halves[half]));
                }
            }
        }
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        let mut total = 0.0;
        for lane in 0..UNROLL {
            let mut floats = [0.0_f32; LANES];
            let mut sums = [0.0_f64; 4];
            // SAFETY: each array is as large as one register.
            unsafe {
                _mm256_storeu_ps(floats.as_mut_ptr(), min[lane]);
                low = floats.iter().fold(low, |a, &b| if b < a { b } else { a });
                _mm256_storeu_ps(floats.as_mut_ptr(), max[lane]);
                high = floats.iter().fold(high, |a, &b| if b > a { b } else { a });
                for half in sum[lane] {
                    _mm256_storeu_pd(sums.as_mut_ptr(), half);
                    total += sums.iter().sum::<f64>();
                }
            }
        }
        for &item in rest {
            if WITH_NAN && item.is_nan() {
                not_numbers += 1;
            } else {
                low = if item < low { item } else { low };
                high = if item > high { item } else { high };
                total += f64::from(item);
            }
        }
        finish(items.len(), low, high, total, not_numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: f64, b: f64) -> bool {
        a == b || a.is_nan() && b.is_nan()
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
                let (wide, plain) = (f64(&items), f64_portable(&items));
                assert_eq!(
                    (wide.min, wide.max, wide.not_numbers),
                    (plain.min, plain.max, plain.not_numbers)
                );
                assert!((wide.mean - plain.mean).abs() < 1e-9 || same(wide.mean, plain.mean));
                let (wide, plain) = (f32(&short), f32_portable(&short));
                assert_eq!(
                    (wide.min, wide.max, wide.not_numbers),
                    (plain.min, plain.max, plain.not_numbers)
                );
                assert!((wide.mean - plain.mean).abs() < 1e-9 || same(wide.mean, plain.mean));
            }
        }
    }
}
