//! Numbers as the sentences of findings have them.
#![cfg_attr(not(feature = "events"), allow(dead_code, reason = "only events need all of it"))]

use std::time::Duration;

#[cfg(feature = "events")]
use super::series::Sample;
use crate::query::text::{human_bytes, human_duration};

/// Bytes, perhaps below nought.
pub(super) fn bytes(bytes: f64) -> String {
    let sign = if bytes <= -0.5 { "-" } else { "" };
    format!("{sign}{}", human_bytes(bytes.abs().round() as u64))
}

/// A growth, in the time in which it is neither tiny nor huge.
pub(super) fn bytes_a_second(slope: f64) -> String {
    match slope.abs() {
        1_048_576.0.. => format!("{} a second", bytes(slope)),
        17_476.0.. => format!("{} a minute", bytes(slope * 60.0)),
        _ => format!("{} an hour", bytes(slope * 3600.0)),
    }
}

/// A share in whole percent.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

pub(super) fn duration(nanoseconds: u64) -> String {
    human_duration(Duration::from_nanos(nanoseconds))
}

/// How long after a sample the device is full at this rate, in nanoseconds and in words; none where that is not known or
/// never.
#[cfg(feature = "events")]
pub(super) fn time_until_full(sample: &Sample, slope: f64) -> Option<(u64, String)> {
    let free = sample.total?.checked_sub(sample.used?)?;
    let seconds = free as f64 / slope;
    // Beyond some years nobody cares.
    let taken = (slope > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))?;
    Some((u64::try_from(taken.as_nanos()).ok()?, human_duration(taken)))
}
