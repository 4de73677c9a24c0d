//! The statistics that the analyses share. Results are finite; for empty input, zero or `None`.

/// Returns the mean and the sample standard deviation.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len().max(2) - 1) as f64).sqrt())
}

/// Returns the median. For an even number of values, it is the mean of the middle two.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    if values.is_empty() {
        return 0.0;
    }
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    match is_odd {
        true => upper,
        false => (below.iter().copied().fold(f64::NEG_INFINITY, f64::max) + upper) / 2.0,
    }
}

/// Returns the value at a rank between 0 and 1.
pub fn quantile(values: &[f64], rank: f64) -> f64 {
    let mut values = values.to_vec();
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = (last as f64 * rank).round() as usize;
    *values.select_nth_unstable_by(at.min(last), f64::total_cmp).1
}

/// The median and spread of values, estimated so that a few extreme values do not matter.
#[derive(Debug)]
pub struct Robust {
    median: f64,
    scale: f64,
}

impl Robust {
    pub fn of(values: &[f64]) -> Self {
        let median = self::median(values);
        let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        // If more than half of the values are equal, the median deviation is 0. Use the mean then.
        let scale = match self::median(&deviations) {
            0.0 => 1.253_314 * deviations.iter().sum::<f64>() / deviations.len().max(1) as f64,
            middle => middle / 0.674_5,
        };
        Self { median, scale }
    }

    pub(super) fn median(&self) -> f64 {
        self.median
    }

    /// Returns whether all values are equal.
    pub(super) fn is_flat(&self) -> bool {
        self.scale == 0.0
    }

    pub fn score(&self, value: f64) -> f64 {
        if self.scale > 0.0 { (value - self.median) / self.scale } else { 0.0 }
    }
}

/// A straight line through points, by least squares.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub slope: f64,
    /// The share of the variance that the line explains, from 0 to 1. 0 if there is no variance.
    pub explained: f64,
    /// The residual sum of squares.
    pub left: f64,
}

impl Line {
    pub fn through(points: &[(f64, f64)]) -> Self {
        let count = points.len().max(1) as f64;
        let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            let (x, y) = (x - mean_x, y - mean_y);
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        if xx <= 0.0 || yy <= 0.0 {
            return Self { slope: 0.0, explained: 0.0, left: yy.max(0.0) };
        }
        let slope = xy / xx;
        let left = (yy - slope * xy).max(0.0);
        Self { slope, explained: 1.0 - left / yy, left }
    }
}

/// The best fit of two levels with one jump between them.
#[derive(Debug, Clone, Copy)]
pub struct Jump {
    /// The index of the first value of the second level.
    pub at: usize,
    /// The difference between the second level and the first.
    pub height: f64,
    pub explained: f64,
    pub left: f64,
}

impl Jump {
    /// Finds the best jump such that each level has at least `least` values. `None` if there are
    /// too few values, or if all are equal.
    pub fn in_values(values: &[f64], least: usize) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count.max(1) as f64;
        let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        if total <= 0.0 || least == 0 || count < 2 * least {
            return None;
        }
        // Deviations from the mean sum to zero, so the sum before a split determines what it
        // explains.
        let mut before = 0.0;
        let mut best: Option<(usize, f64, f64)> = None;
        for at in 1..count {
            before += values[at - 1] - mean;
            if at < least || count - at < least {
                continue;
            }
            let (first, second) = (at as f64, (count - at) as f64);
            let explained = before * before * (1.0 / first + 1.0 / second);
            if best.is_none_or(|(_, most, _)| explained > most) {
                best = Some((at, explained, -before / second - before / first));
            }
        }
        let (at, explained, height) = best?;
        let left = (total - explained).max(0.0);
        Some(Self { at, height, explained: 1.0 - left / total, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_are_where_they_should_be() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(quantile(&[5.0, 1.0, 3.0], 0.0), 1.0);
        assert_eq!(quantile(&[5.0, 1.0, 3.0], 1.0), 5.0);
        let (mean, deviation) = mean_and_deviation(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!((mean, (deviation * 1e6).round()), (2.5, 1_290_994.0));
        assert_eq!(mean_and_deviation(&[7.0]), (7.0, 0.0));
    }

    #[test]
    fn a_line_explains_a_line_and_a_jump_a_jump() {
        let ramp: Vec<f64> = (0..20).map(f64::from).collect();
        let step: Vec<f64> = (0..20).map(|at| if at < 12 { 1.0 } else { 5.0 }).collect();
        let line = |values: &[f64]| {
            let points: Vec<(f64, f64)> =
                values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
            Line::through(&points)
        };
        assert!((line(&ramp).slope - 1.0).abs() < 1e-9 && line(&ramp).left < 1e-6);
        let jump = Jump::in_values(&step, 3).unwrap();
        assert_eq!(jump.at, 12);
        assert!((jump.height - 4.0).abs() < 1e-9 && jump.left < 1e-9);
        assert!(jump.left < line(&step).left);
        assert!(Jump::in_values(&ramp, 3).unwrap().left > line(&ramp).left);
        assert!(
            Jump::in_values(&[1.0; 9], 3).is_none() && Jump::in_values(&step[..5], 3).is_none()
        );
    }

    #[test]
    fn what_is_wild_does_not_move_the_scale() {
        let mut values = vec![20.0, 21.0, 22.0, 20.0, 21.0, 22.0, 20.0];
        values.push(2048.0);
        assert!(Robust::of(&values).score(2048.0) > 1000.0);
        assert_eq!(Robust::of(&[4.0; 8]).score(4.0), 0.0);
        let mut flat = vec![0.0; 19];
        flat.push(100.0);
        assert!(Robust::of(&flat).score(100.0) > 10.0);
    }
}
