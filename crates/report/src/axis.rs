//! The ticks of an axis, and their labels.

use std::time::Duration;

use super::picture::Unit;
use runlore_core::text::{human_bytes, human_duration, rounded};

const SECOND: f64 = 1e9;

/// Formats a value with its unit.
pub(super) fn label(value: f64, unit: Unit) -> String {
    let signed = |text: String| if value < 0.0 { format!("-{text}") } else { text };
    match unit {
        Unit::Bytes => signed(human_bytes(value.abs() as u64)),
        Unit::BytesPerSecond => signed(format!("{}/s", human_bytes(value.abs() as u64))),
        Unit::Percent => format!("{} %", rounded(value)),
        Unit::Watts => format!("{} W", rounded(value)),
        Unit::Celsius => format!("{} °C", rounded(value)),
        Unit::Count => rounded(value),
    }
}

/// Formats the time since the start.
pub(super) fn elapsed(ns: u64) -> String {
    if ns == 0 {
        return "0".to_owned();
    }
    let text = human_duration(Duration::from_nanos(ns)).replace(".0 s", " s");
    let nothing_more =
        [" 0 s", " 0 min", " 0 h"].into_iter().find_map(|end| text.strip_suffix(end));
    nothing_more.map(str::to_owned).unwrap_or(text)
}

/// Formats a time in Unix nanoseconds, to the second.
pub(super) fn utc(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns));
    time.map_or_else(|_| ns.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Returns about `count` ticks, from the last one at or below `bottom` to the first one at or above
/// `top`.
pub(super) fn ticks(bottom: f64, top: f64, unit: Unit, count: usize) -> Vec<f64> {
    let range = (top - bottom).max(f64::MIN_POSITIVE);
    if !range.is_finite() {
        return vec![0.0];
    }
    let rough = range / count.max(1) as f64;
    let step = match unit {
        Unit::Bytes | Unit::BytesPerSecond => nice_bytes(rough),
        _ => nice(rough),
    };
    let first = (bottom / step).floor();
    let last = (top / step).ceil().max(first + 1.0);
    (0..=(last - first).min(64.0) as usize).map(|at| (first + at as f64) * step).collect()
}

/// Returns the ticks of a time axis, up to its end.
pub(super) fn time_ticks(length_ns: u64, count: usize) -> Vec<u64> {
    let rough = length_ns as f64 / count.max(1) as f64;
    let step = match rough / SECOND {
        ..20.0 => nice(rough),
        seconds => {
            const NICE: [f64; 14] = [
                30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0,
                43200.0, 86400.0, 172_800.0,
            ];
            let found = NICE.into_iter().find(|nice| *nice >= seconds);
            found.unwrap_or_else(|| nice(seconds / 86400.0) * 86400.0) * SECOND
        }
    };
    let step = (step as u64).max(1);
    (0..=length_ns / step).map(|at| at * step).collect()
}

/// Rounds up to one of 1, 2, 5, 10, 20, 50, ….
fn nice(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power);
    steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(power * 10.0)
}

/// Rounds up like [`nice`] for bytes, but to quarters or halves of the next unit instead of to
/// hundreds.
fn nice_bytes(rough: f64) -> f64 {
    let mut unit = 1.0;
    while rough >= unit * 1024.0 {
        unit *= 1024.0;
    }
    let steps = [128.0, 256.0, 512.0, 1024.0];
    let step = steps.into_iter().find(|step| rough > unit * 50.0 && *step >= rough / unit * 0.999);
    unit * step.unwrap_or_else(|| nice(rough / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_their_unit() {
        let texts = |ticks: Vec<f64>, unit| -> Vec<String> {
            ticks.into_iter().map(|tick| label(tick, unit)).collect()
        };
        assert_eq!(
            texts(ticks(0.0, 15.0 * 1_073_741_824.0, Unit::Bytes, 4), Unit::Bytes),
            ["0 B", "5 GiB", "10 GiB", "15 GiB"]
        );
        assert_eq!(
            texts(ticks(0.0, 1.8 * 1_073_741_824.0, Unit::Bytes, 4), Unit::Bytes),
            ["0 B", "512 MiB", "1 GiB", "1.5 GiB", "2 GiB"]
        );
        assert_eq!(
            texts(ticks(0.0, 87.0, Unit::Percent, 4), Unit::Percent),
            ["0 %", "50 %", "100 %"]
        );
        assert_eq!(
            texts(ticks(-3.0, 3.0, Unit::Count, 3), Unit::Count),
            ["-4", "-2", "0", "2", "4"]
        );
        assert_eq!(ticks(0.0, 0.0, Unit::Count, 4).len(), 2);
    }

    #[test]
    fn time_has_ticks_that_people_count_in() {
        let texts = |length: f64| -> Vec<String> {
            time_ticks((length * SECOND) as u64, 5).into_iter().map(elapsed).collect()
        };
        assert_eq!(texts(0.004), ["0", "1 ms", "2 ms", "3 ms", "4 ms"]);
        assert_eq!(texts(45.0), ["0", "10 s", "20 s", "30 s", "40 s"]);
        assert_eq!(texts(600.0), ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]);
    }
}
