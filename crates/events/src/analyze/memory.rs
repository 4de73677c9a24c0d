//! Analyses the memory of one device of one rank: whether it ran out, filled up, fragmented, leaked
//! or churned.

use super::finding::{Finding, Severity, Window};
use super::kind::Kind;
use super::math::{Jump, Line, mean_and_deviation};
use super::series::time_until_full;
use super::series::{MarkKind, Sample, Series};
use super::text::{bytes, bytes_a_second, percent};
use super::thresholds::Thresholds;

/// The minimum number of samples for a mean.
const FEWEST: usize = 3;
/// The minimum number of samples to detect churn.
const FEWEST_OF_CHURN: usize = 10;
/// The number of parts of a series whose lowest points are compared to detect a leak.
const PARTS: usize = 8;
/// The last 1 / `LAST_FEW` of the samples are the end of the series, where a drop may be the end of
/// the program.
const LAST_FEW: usize = 50;
/// The fraction of the parts whose lowest point must be above that of the part before.
const RISING: f64 = 0.7;

pub(super) fn find(series: &Series, thresholds: &Thresholds) -> Vec<Finding> {
    let looks = [out_of_memory, utilization, fragmentation, leak, churn];
    looks.into_iter().filter_map(|look| look(series, thresholds)).collect()
}

fn window(first: &Sample, last: &Sample) -> Option<Window> {
    Some(Window { start_ns: first.timestamp_ns, end_ns: last.timestamp_ns })
}

fn out_of_memory(series: &Series, _: &Thresholds) -> Option<Finding> {
    let mut marks = series.marks_of(MarkKind::OutOfMemory);
    let first = marks.next()?;
    let (count, last) = marks.fold((1_u64, first), |(count, _), mark| (count + 1, mark));
    let what = match count {
        1 => format!("memory ran out: {}", first.text),
        _ => format!("memory ran out {count} times, first: {}", first.text),
    };
    let window = Window { start_ns: first.timestamp_ns, end_ns: last.timestamp_ns };
    let finding = Finding::new(Kind::OutOfMemory, Severity::Critical, 1.0, what);
    Some(finding.with("oom_count", count).at(&series.place, Some(window)))
}

fn utilization(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let told = series.samples.iter().filter_map(|sample| {
        let total = sample.total.filter(|total| *total > 0)?;
        Some((sample, sample.used.or(sample.reserved)?, total))
    });
    let told: Vec<(&Sample, u64, u64)> = told.collect();
    let share = |(_, used, total): &&(&Sample, u64, u64)| *used as f64 / *total as f64;
    let peak = told.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let ratio = share(&peak);
    if ratio < thresholds.utilization_ratio {
        return None;
    }
    let high: Vec<_> =
        told.iter().filter(|one| share(one) >= thresholds.utilization_ratio).collect();
    let severity = match ratio >= thresholds.utilization_critical_ratio {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let (used, total) = (bytes(peak.1 as f64), bytes(peak.2 as f64));
    let what = format!("{used} of {total} were in use at the peak ({})", percent(ratio));
    let finding = Finding::new(Kind::HighUtilization, severity, 1.0, what)
        .with("peak_bytes", peak.1)
        .with("total_bytes", peak.2)
        .with("utilization_ratio", ratio)
        .with("peak_timestamp_ns", peak.0.timestamp_ns)
        .with("high_ratio", high.len() as f64 / told.len() as f64);
    Some(finding.at(&series.place, window(high.first()?.0, high.last()?.0)))
}

/// Finds a high mean fraction of reserved memory that cannot be allocated. If the allocator does
/// not report inactive bytes, all unallocated bytes serve as an upper bound.
fn fragmentation(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let reserved = |sample: &Sample| sample.reserved.filter(|bytes| *bytes >= thresholds.min_bytes);
    let exact = series.samples.iter().filter_map(|sample| {
        let ratio = sample.inactive? as f64 / reserved(sample)? as f64;
        Some((sample, ratio))
    });
    let mut told: Vec<(&Sample, f64)> = exact.collect();
    let is_exact = !told.is_empty();
    // For the host, resident memory includes more than the allocator reserves, so there is no
    // bound.
    if !is_exact && series.is_device() {
        let upper = series.samples.iter().filter_map(|sample| {
            let free = reserved(sample)?.saturating_sub(sample.allocated?);
            Some((sample, free as f64 / reserved(sample)? as f64))
        });
        told = upper.collect();
    }
    if told.len() < FEWEST {
        return None;
    }
    let ratio = told.iter().map(|(_, ratio)| ratio).sum::<f64>() / told.len() as f64;
    if ratio < thresholds.fragmentation_ratio {
        return None;
    }
    let (severity, confidence, what) = match is_exact {
        true => {
            let is_critical = ratio > thresholds.fragmentation_critical_ratio;
            let severity = if is_critical { Severity::Critical } else { Severity::Warning };
            let what = format!(
                "{} of what is reserved is in pieces that cannot be handed out",
                percent(ratio)
            );
            (severity, ratio / 0.6, what)
        }
        false => {
            let what = format!(
                "{} of what is reserved is not handed out; how much of that is in pieces the allocator does not tell",
                percent(ratio)
            );
            (Severity::Info, ratio / 1.2, what)
        }
    };
    let finding = Finding::new(Kind::Fragmentation, severity, confidence, what)
        .with("fragmentation_ratio", ratio)
        .with("is_exact", is_exact);
    Some(finding.at(&series.place, window(told.first()?.0, told.last()?.0)))
}

/// Finds memory whose lowest points rise. Memory that iterations take and return does not count.
fn leak(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let mut told: Vec<(&Sample, f64)> =
        series.samples.iter().filter_map(|sample| Some((sample, sample.held()? as f64))).collect();
    told.truncate(before_the_end(&told));
    if told.len() < PARTS * FEWEST {
        return None;
    }
    let part = |at: usize| &told[told.len() * at / PARTS..told.len() * (at + 1) / PARTS];
    let lowest = |at: usize| {
        let lowest = part(at).iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((series.seconds(lowest.0), lowest.1))
    };
    // Skip the first part: everything grows at the start.
    let floors: Vec<(f64, f64)> = (1..PARTS).filter_map(lowest).collect();
    let (first, last) = (floors.first()?.1, floors.last()?.1);
    let growth = last - first;
    let rising = floors.windows(2).filter(|pair| pair[1].1 > pair[0].1).count();
    let line = Line::through(&floors);
    let levels: Vec<f64> = floors.iter().map(|floor| floor.1).collect();
    let is_step = Jump::in_values(&levels, 1).is_some_and(|jump| jump.left < line.left);
    let is_leak = rising as f64 >= RISING * (floors.len() - 1) as f64
        && growth >= (first * thresholds.leak_growth_ratio).max(thresholds.min_bytes as f64)
        && line.slope > 0.0
        && line.explained >= thresholds.leak_fit
        && !is_step;
    if !is_leak {
        return None;
    }
    let (begin, end) = (part(1).first()?.0, told.last()?.0);
    let until_full = time_until_full(end, line.slope);
    let length = window(begin, end)?.length_ns();
    let is_critical = until_full.as_ref().is_some_and(|(nanoseconds, _)| *nanoseconds <= length);
    let severity = if is_critical { Severity::Critical } else { Severity::Warning };
    let mut what = format!(
        "the least that is held grew from {} to {}, by {}",
        bytes(first),
        bytes(last),
        bytes_a_second(line.slope)
    );
    if let Some((_, text)) = &until_full {
        what += &format!("; the device is full {text} after the last sample if that goes on");
    }
    let mut finding = Finding::new(Kind::LeakSuspect, severity, line.explained, what)
        .with("slope_bytes_per_sec", line.slope)
        .with("r_squared", line.explained)
        .with("floor_start_bytes", first)
        .with("floor_end_bytes", last);
    if let Some((nanoseconds, _)) = until_full {
        finding = finding.with("until_full_ns", nanoseconds);
    }
    Some(finding.at(&series.place, window(begin, end)))
}

/// Returns the number of samples before the program began to end. A program that ends frees
/// everything, which says nothing about its run. The last samples may show it half freed.
fn before_the_end(told: &[(&Sample, f64)]) -> usize {
    let last_part = told.len() * (PARTS - 1) / PARTS;
    let last_few = told.len() - (told.len() / LAST_FEW).max(FEWEST).min(told.len());
    let fell = |at: &usize| told[*at].1 < told[*at - 1].1 / 2.0;
    let fell_for_good = |at: &usize| {
        let stays = told[*at..].iter().all(|(_, held)| *held < told[*at - 1].1);
        *at >= last_few && stays
    };
    (last_part.max(1)..told.len()).find(|at| fell(at) || fell_for_good(at)).unwrap_or(told.len())
}

/// Finds a high rate of allocating and freeing, relative to the mean of allocated bytes.
fn churn(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let told: Vec<(&Sample, f64)> = series
        .samples
        .iter()
        .filter_map(|sample| Some((sample, sample.allocated? as f64)))
        .collect();
    let values: Vec<f64> = told.iter().map(|(_, value)| *value).collect();
    let (mean, _) = mean_and_deviation(&values);
    let (first, last) = (told.first()?.0, told.last()?.0);
    let seconds = (last.timestamp_ns - first.timestamp_ns) as f64 / 1e9;
    let moved: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    let rate = moved / mean / seconds;
    let is_churn = told.len() >= FEWEST_OF_CHURN
        && mean >= thresholds.min_bytes as f64
        && rate.is_finite()
        && rate >= thresholds.churn_per_second
        // Growing once and shrinking once is not churn.
        && moved >= 4.0 * values.iter().copied().fold(0.0, f64::max);
    if !is_churn {
        return None;
    }
    let is_high = rate >= thresholds.churn_warning_per_second;
    let severity = if is_high { Severity::Warning } else { Severity::Info };
    let what = format!(
        "{} are handed out or taken back, where {} are held on average",
        bytes_a_second(moved / seconds),
        bytes(mean)
    );
    let confidence = rate / (2.0 * thresholds.churn_per_second);
    let finding = Finding::new(Kind::Churn, severity, confidence, what)
        .with("churn_bytes_per_sec", moved / seconds)
        .with("mean_bytes", mean)
        .with("turnover_per_sec", rate);
    Some(finding.at(&series.place, window(first, last)))
}
