//! Finds hidden memory: device memory in use beyond what the allocator has reserved. It may be
//! constant, spike, grow, or be taken at one moment and kept.
//!
//! Each device of each rank is analysed separately. Taken together, ranks that start one after the
//! other would look like a drift.

use serde_json::Value;

use super::finding::{Finding, Severity, Window};
use super::kind::Kind;
use super::math::{Jump, Line, mean_and_deviation, quantile};
use super::series::time_until_full;
use super::series::{Sample, Series};
use super::text::{bytes, bytes_a_second, percent};
use super::thresholds::Thresholds;

/// The minimum number of samples for any finding.
const FEWEST: usize = 3;
/// The minimum number of samples of a drift.
const FEWEST_OF_DRIFT: usize = 5;
/// The minimum number of samples on each level of a step. A shorter level is a spike that has not
/// ended.
const FEWEST_OF_LEVEL: usize = 3;

/// The samples with a known gap, and the gap of each.
struct Gap<'a> {
    series: &'a Series,
    samples: Vec<&'a Sample>,
    values: Vec<f64>,
    /// The size of the device's memory.
    total: f64,
}

/// Finds hidden memory in a series. Returns a note if the samples do not show it.
pub(super) fn find(series: &Series, thresholds: &Thresholds) -> Result<Vec<Finding>, String> {
    let gap = Gap::of(series)?;
    let most = gap.values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if most / gap.total < thresholds.gap_ratio {
        return Ok(Vec::new());
    }
    let jump = gap.step(thresholds);
    let mut found = Vec::new();
    found.extend(gap.always(thresholds));
    match jump {
        Some((finding, from)) => {
            // A level that lasts until the end is the step itself, not a spike.
            found.extend(gap.spike(thresholds, from));
            found.push(finding);
        }
        None => {
            found.extend(gap.spike(thresholds, gap.values.len()));
            found.extend(gap.drift(thresholds));
        }
    }
    Ok(found)
}

impl<'a> Gap<'a> {
    fn of(series: &'a Series) -> Result<Self, String> {
        let told =
            |sample: &&Sample| sample.gap().is_some() && sample.total.is_some_and(|it| it > 0);
        let samples: Vec<&Sample> = series.samples.iter().filter(told).collect();
        if samples.len() < FEWEST {
            return Err(format!(
                "hidden memory is not known: it takes {FEWEST} samples that tell what is reserved, what is used and what \
                 the device has, and there are {}",
                samples.len()
            ));
        }
        let values = samples.iter().filter_map(|sample| sample.gap()).collect();
        let total = samples.iter().filter_map(|sample| sample.total).max().unwrap_or(1) as f64;
        Ok(Self { series, samples, values, total })
    }

    fn window(&self, first: usize, last: usize) -> Option<Window> {
        let (first, last) = (self.samples.get(first)?, self.samples.get(last)?);
        Some(Window { start_ns: first.timestamp_ns, end_ns: last.timestamp_ns })
    }

    fn whole(&self) -> Option<Window> {
        self.window(0, self.samples.len() - 1)
    }

    /// Finds memory that is hidden in nearly all samples.
    fn always(&self, thresholds: &Thresholds) -> Option<Finding> {
        let always = quantile(&self.values, 0.1);
        let ratio = always / self.total;
        if ratio < thresholds.gap_ratio {
            return None;
        }
        let severity = match ratio < thresholds.hidden_warning_ratio {
            true => Severity::Info,
            false => Severity::Warning,
        };
        let what = format!(
            "{} of the device, {} of it, are in use all the time and not by this allocator",
            bytes(always),
            percent(ratio)
        );
        let finding = Finding::new(Kind::HiddenMemory, severity, 0.9, what)
            .with("always_gap_bytes", whole(always))
            .with("gap_ratio", ratio);
        Some(finding.at(&self.series.place, self.whole()))
    }

    /// Finds samples before `end` that are far above the mean.
    fn spike(&self, thresholds: &Thresholds, end: usize) -> Option<Finding> {
        let (mean, deviation) = mean_and_deviation(&self.values);
        if deviation <= 0.0 {
            return None;
        }
        let score = |at: usize| (self.values[at] - mean) / deviation;
        let spikes: Vec<usize> =
            (0..end).filter(|at| score(*at) > thresholds.spike_score).collect();
        let worst = *spikes.iter().max_by(|one, other| score(**one).total_cmp(&score(**other)))?;
        let worst = *spikes.iter().find(|at| score(**at) == score(worst))?;
        // The adjacent spike samples around the worst one.
        let is_one = |at: &usize| spikes.binary_search(at).is_ok();
        let first = (0..=worst).rev().take_while(is_one).last().unwrap_or(worst);
        let last = (worst..end).take_while(is_one).last().unwrap_or(worst);
        let most = score(worst);
        let severity = match most > thresholds.spike_critical_score {
            true => Severity::Critical,
            false => Severity::Warning,
        };
        let what = format!(
            "memory outside of the allocator jumped to {} and back, where {} are usual",
            bytes(self.values[worst]),
            bytes(super::math::median(&self.values))
        );
        let finding = Finding::new(Kind::TransientSpike, severity, most / 6.0, what)
            .with("spike_count", spikes.len())
            .with("max_gap_bytes", whole(self.values[worst]))
            .with("max_zscore", most)
            .with("mean_gap_bytes", whole(mean))
            .with("std_gap_bytes", whole(deviation))
            .with("peak_timestamp_ns", self.samples[worst].timestamp_ns);
        Some(finding.at(&self.series.place, self.window(first, last)))
    }

    fn line(&self) -> Line {
        let points: Vec<(f64, f64)> = self
            .samples
            .iter()
            .zip(&self.values)
            .map(|(sample, value)| (self.series.seconds(sample), *value))
            .collect();
        Line::through(&points)
    }

    /// Finds one jump that fits the samples better than a line. Also returns its index.
    fn step(&self, thresholds: &Thresholds) -> Option<(Finding, usize)> {
        let jump = Jump::in_values(&self.values, FEWEST_OF_LEVEL)?;
        let is_step = jump.height / self.total >= thresholds.gap_ratio
            && jump.explained >= thresholds.step_fit
            && jump.left < self.line().left;
        if !is_step {
            return None;
        }
        let what = format!(
            "{} more outside of the allocator were taken at one moment and kept",
            bytes(jump.height)
        );
        let finding = Finding::new(Kind::Step, Severity::Warning, jump.explained, what)
            .with("step_bytes", whole(jump.height))
            .with("explained_ratio", jump.explained);
        // The jump happened between these two samples.
        let window = self.window(jump.at - 1, jump.at);
        Some((finding.at(&self.series.place, window), jump.at))
    }

    /// Finds a rising line that fits the samples.
    fn drift(&self, thresholds: &Thresholds) -> Option<Finding> {
        let line = self.line();
        let (first, last) = (self.values.first()?, self.values.last()?);
        let seconds = self.series.seconds(self.samples.last()?);
        let is_drift = self.values.len() >= FEWEST_OF_DRIFT
            && line.slope > 0.0
            && line.explained >= thresholds.drift_fit
            // A line through nearly constant values is not a drift.
            && line.slope * seconds >= self.total * thresholds.gap_ratio / 5.0;
        if !is_drift {
            return None;
        }
        let severity = match line.explained > thresholds.drift_critical_fit {
            true => Severity::Critical,
            false => Severity::Warning,
        };
        let until_full = self.samples.last().and_then(|sample| time_until_full(sample, line.slope));
        let mut what = format!(
            "memory outside of the allocator grows by {}, from {} to {}",
            bytes_a_second(line.slope),
            bytes(*first),
            bytes(*last)
        );
        if let Some((_, text)) = &until_full {
            what += &format!("; the device is full {text} after the last sample if that goes on");
        }
        let mut finding = Finding::new(Kind::PersistentDrift, severity, line.explained, what)
            .with("slope_bytes_per_sec", line.slope)
            .with("r_squared", line.explained)
            .with("gap_start_bytes", whole(*first))
            .with("gap_end_bytes", whole(*last));
        if let Some((nanoseconds, _)) = until_full {
            finding = finding.with("until_full_ns", nanoseconds);
        }
        Some(finding.at(&self.series.place, self.whole()))
    }
}

/// Rounds bytes to a whole number.
fn whole(bytes: f64) -> Value {
    (bytes.round() as i64).into()
}
