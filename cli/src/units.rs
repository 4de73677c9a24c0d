//! Formats and parses numbers with units.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use runlore::record::JoulesObject;
pub(crate) use runlore_core::text::human_bytes as bytes;
pub(crate) use runlore_core::text::thousands as count;
use runlore_core::text::{human_duration, rounded};
use serde_json::Value;

/// Formats a change in bytes, with its sign.
pub(crate) fn change(change: i64) -> String {
    let sign = match change {
        0 => "",
        ..0 => "-",
        _ => "+",
    };
    format!("{sign}{}", bytes(change.unsigned_abs()))
}

/// Formats a number with its noun: `1 task`, `3 tasks`.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// Formats nanoseconds as a duration.
pub(crate) fn nanoseconds(nanoseconds: u64) -> String {
    human_duration(Duration::from_nanos(nanoseconds))
}

/// Formats joules: `850 mJ`, `12.3 J`, `4.2 kJ`.
pub(crate) fn joules(joules: f64) -> String {
    scaled(joules, "J")
}

/// Formats the mean power. `None` if the duration is too short for a meaningful value.
pub(crate) fn watts(joules: f64, duration: Duration) -> Option<String> {
    // Energy meters update about every millisecond.
    (duration >= Duration::from_millis(10)).then(|| scaled(joules / duration.as_secs_f64(), "W"))
}

/// Formats the energy of each meter: `rapl:package-0 3 J, nvml:gpu_0 1 J`. A single meter is only
/// named.
pub(crate) fn measured_by(used: &JoulesObject) -> String {
    let each = used.meters.iter().map(|(meter, counted)| match used.meters.len() {
        1 => meter.clone(),
        _ => format!("{meter} {}", joules(*counted)),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn scaled(number: f64, unit: &str) -> String {
    let (factor, prefix) = match number.abs() {
        0.0 => (1.0, ""),
        ..0.9995e-3 => (1e6, "µ"),
        ..0.9995 => (1e3, "m"),
        ..999.5 => (1.0, ""),
        ..0.9995e6 => (1e-3, "k"),
        _ => (1e-6, "M"),
    };
    format!("{} {prefix}{unit}", rounded(number * factor))
}

pub(crate) fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

/// Formats a value of a record in its unit: `B`, `s`, `ms`, `%`, `MHz`, or none.
pub(crate) fn measured(value: &Value, unit: &str) -> String {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or_default();
            match (unit, number.as_u64()) {
                ("B", Some(number)) => bytes(number),
                ("s", _) => seconds(float).unwrap_or_else(|| format!("{number} s")),
                ("ms", _) => seconds(float / 1e3).unwrap_or_else(|| format!("{number} ms")),
                ("%", _) => percent(float),
                ("", Some(number)) => count(number),
                ("", None) => number.to_string(),
                _ => format!("{} {unit}", rounded(float)),
            }
        }
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        // Show only the names of nested values.
        Value::Object(parts) => parts.keys().cloned().collect::<Vec<_>>().join(", "),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            counted(items.len() as u64, "entry", "entries")
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| measured(item, unit)).collect();
            items.join(if unit.is_empty() { " " } else { ", " })
        }
    }
}

fn seconds(seconds: f64) -> Option<String> {
    if seconds == 0.0 {
        return Some("0 s".to_owned());
    }
    Duration::try_from_secs_f64(seconds).ok().map(human_duration)
}

/// Parses a duration option. `0.5` and `2` are seconds; other units are written as in `500ms`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = match unit {
        "" | "s" => Some(1.0),
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let seconds = number.parse().ok().zip(unit).map(|(number, unit): (f64, f64)| number * unit);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        "give a number of seconds, or a duration such as 500ms, 10s or 5min".to_owned()
    })
}

/// Parses a time option and returns Unix seconds. The time is either relative to now (`90s`, `2h`
/// or `3d` ago) or a local date with or without a time.
pub(crate) fn moment(text: &str) -> Result<f64, String> {
    let now = Timestamp::now();
    let seconds = |moment: Timestamp| moment.as_microsecond() as f64 / 1e6;
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let ago = days.map(|days| Duration::from_secs(86400) * days).or_else(|| time(text).ok());
    if let Some(moment) = ago.and_then(|ago| now.checked_sub(ago).ok()) {
        return Ok(seconds(moment));
    }
    let date = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    let moment = date.and_then(|date| date.to_zoned(TimeZone::system()));
    let moment = moment.map(|moment| moment.timestamp()).or_else(|_| text.parse::<Timestamp>());
    moment.map(seconds).map_err(|_| {
        "give how long ago, such as 30min, 2h or 3d, or a date such as 2026-11-16 or 2026-11-16 18:45".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_are_times_ago_or_dates() {
        let now = Timestamp::now().as_second() as f64;
        for (text, ago) in [("90s", 90.0), ("2h", 7200.0), ("3d", 259_200.0)] {
            assert!((now - ago - moment(text).unwrap()).abs() < 60.0, "{text}");
        }
        let date = moment("2026-11-16").unwrap();
        assert!((moment("2026-11-16 18:45").unwrap() - date - 67_500.0).abs() < 7201.0);
        assert_eq!(moment("2026-11-16T18:45:00Z"), Ok(1_794_854_700.0));
        for wrong in ["", "yesterday", "2026-13-01", "2h ago", "-1h"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        for (text, milliseconds) in
            [("2", 2000), ("0.5", 500), ("0", 0), ("250ms", 250), ("1.5s", 1500), ("5min", 300_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in
            ["", "x", "-1", "1e99", "1 s", "1day", "nan", "inf", "1.2.3", "9".repeat(40).as_str()]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_has_its_sign() {
        assert_eq!(change(-4096), "-4 KiB");
        assert_eq!(change(1 << 30), "+1 GiB");
        assert_eq!(change(0), "0 B");
    }

    #[test]
    fn energy_reads_well_at_every_size() {
        for (number, text) in [
            (0.0, "0 J"),
            (0.000_015_3, "15.3 µJ"),
            (0.999_9, "1 J"),
            (0.85, "850 mJ"),
            (12.34, "12.3 J"),
            (4_200.0, "4.2 kJ"),
            (3_600_000.0, "3.6 MJ"),
        ] {
            assert_eq!(joules(number), text);
        }
        assert_eq!(watts(3.0, Duration::from_millis(100)).as_deref(), Some("30 W"));
        assert_eq!(watts(3.0, Duration::from_millis(1)), None);
    }

    #[test]
    fn values_are_told_in_their_units() {
        for (value, unit, text) in [
            (json!(1_234_567), "", "1,234,567"),
            (json!(0.000_12), "s", "120 µs"),
            (json!(0), "ms", "0 s"),
            (json!(2445.428), "MHz", "2445 MHz"),
            (json!(5.25), "%", "5.2 %"),
            (json!([1.0, null]), "%", "1.0 %, unknown"),
            (json!(["cargo", "run"]), "", "cargo run"),
            (json!([{"user": 1}, {"user": 2}]), "s", "2 entries"),
            (json!({"eth0": {}, "lo": {}}), "", "eth0, lo"),
            (json!(-1.0), "s", "-1.0 s"),
        ] {
            assert_eq!(measured(&value, unit), text, "{value} {unit}");
        }
    }
}
