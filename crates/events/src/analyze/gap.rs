//! Hidden memory: what is taken of a device beyond what the allocator holds. Always there, come and gone, grown, or taken at
//! one moment and kept.
//!
//! Each device of each rank is looked at by itself: ranks that start one after the other look like a drift together.

use serde_json::Value;

use super::finding::{Finding, Severity, Window};
use super::kind::Kind;
use super::math::{Jump, Line, mean_and_deviation, quantile};
use super::series::time_until_full;
use super::series::{Sample, Series};
use super::text::{bytes, bytes_a_second, percent};
use super::thresholds::Thresholds;

/// The fewest samples that anything is said about.
const FEWEST: usize = 3;
/// The fewest samples of a drift.
const FEWEST_OF_DRIFT: usize = 5;
/// The fewest samples on each level of a step: less is a spike that has not ended.
const FEWEST_OF_LEVEL: usize = 3;

/// The samples that tell how much is hidden, with that.
struct Gap<'a> {
    series: &'a Series,
    samples: Vec<&'a Sample>,
    values: Vec<f64>,
    /// What the device has.
    total: f64,
}

/// What is hidden in a series; a note instead where that cannot be told.
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
            // What holds until the end is the step itself, and no spike.
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

    /// What nearly all samples agree is hidden.
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

    /// Samples far above the mean, before `end`.
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
        // The samples around the worst that belong to it.
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

    /// One jump that explains more than a line does, and where it is.
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
        // The last sample before it and the first after it: it was in between.
        let window = self.window(jump.at - 1, jump.at);
        Some((finding.at(&self.series.place, window), jump.at))
    }

    /// A line that goes up and explains the samples.
    fn drift(&self, thresholds: &Thresholds) -> Option<Finding> {
        let line = self.line();
        let (first, last) = (self.values.first()?, self.values.last()?);
        let seconds = self.series.seconds(self.samples.last()?);
        let is_drift = self.values.len() >= FEWEST_OF_DRIFT
            && line.slope > 0.0
            && line.explained >= thresholds.drift_fit
            // A line through what hardly changes is none.
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

/// Bytes without a fraction.
fn whole(bytes: f64) -> Value {
    (bytes.round() as i64).into()
}
