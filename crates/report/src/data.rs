//! Serialises a picture as the data of a page. The data is small, and every point in it is a real
//! sample.

use serde_json::{Value, json};

use super::buckets::thinned;
use super::picture::{Line, Picture, Point};
use super::svg::script_json;

/// Maximum number of points in a page, over all curves.
const POINTS: usize = 40_000;
/// If times are rounded, a picture's length still has at least this many distinct times.
const MOMENTS: u64 = 1_000_000;
/// Minimum number of intervals with which a curve is still recognisable.
const FEWEST: usize = 4;

/// The resolution of the data.
#[derive(Clone, Copy)]
struct Limits {
    /// The number of intervals of a suspect curve.
    suspect: usize,
    /// The number of intervals of any other curve.
    other: usize,
    /// The unit of times, in nanoseconds.
    tick_ns: u64,
}

/// Returns the data as JSON that is safe in a `script` element, with at most about `most_bytes`
/// bytes.
pub(super) fn of(picture: &Picture, most_bytes: usize) -> String {
    let (suspect, other) = picture.stretches(POINTS / 4);
    let mut limits = Limits { suspect: suspect.max(FEWEST), other: other.max(FEWEST), tick_ns: 1 };
    loop {
        let json = script_json(&with(picture, limits));
        if json.len() <= most_bytes || (limits.suspect <= FEWEST && limits.other <= FEWEST) {
            return json;
        }
        // Drop invisible digits of the times before dropping points.
        let coarse = 10_u64.pow((picture.length_ns / MOMENTS).checked_ilog10().unwrap_or(0));
        if limits.tick_ns < coarse {
            limits.tick_ns = coarse;
        } else {
            limits.suspect = (limits.suspect / 2).max(FEWEST);
            limits.other = (limits.other / 2).max(FEWEST);
        }
    }
}

fn with(picture: &Picture, limits: Limits) -> Value {
    let panels: Vec<Value> = picture
        .panels
        .iter()
        .map(|panel| {
            let lines = panel.lines.iter().zip(panel.hidden());
            let lines: Vec<Value> =
                lines.map(|(one, hidden)| line(one, hidden, picture.length_ns, limits)).collect();
            json!({"title": panel.title, "unit": panel.unit, "limit": panel.limit, "lines": lines})
        })
        .collect();
    let bars: Vec<Value> = picture
        .bars
        .iter()
        .map(|bar| json!([bar.start_ns, bar.length_ns, bar.row, bar.state, bar.name]))
        .collect();
    let marks: Vec<Value> = picture
        .marks
        .iter()
        .map(|mark| json!([mark.at_ns, mark.end_ns, mark.level, mark.text, mark.panel]))
        .collect();
    json!({
        "start_ms": picture.start_ns as f64 / 1e6,
        "length": picture.length_ns,
        "tick": limits.tick_ns,
        "panels": panels,
        "bars": bars,
        "density": picture.density,
        "marks": marks,
    })
}

/// Encodes a curve: times as differences, and values as differences if all are integers.
fn line(line: &Line, hidden: usize, length_ns: u64, limits: Limits) -> Value {
    let stretches = if line.is_suspect { limits.suspect } else { limits.other };
    let points = thinned(&line.points, length_ns, stretches);
    let mut before = 0;
    let times: Vec<u64> = points
        .iter()
        .map(|point| {
            let at = point.at_ns / limits.tick_ns;
            at - std::mem::replace(&mut before, at)
        })
        .collect();
    let is_whole = |point: &Point| point.value.fract() == 0.0 && point.value.abs() < 9e15;
    let whole = points.iter().all(is_whole);
    let values: Value = if whole {
        let mut before = 0;
        let value = |point: &Point| {
            let value = point.value as i64;
            value - std::mem::replace(&mut before, value)
        };
        points.iter().map(value).collect::<Vec<i64>>().into()
    } else {
        points.iter().map(|point| point.value).collect::<Vec<f64>>().into()
    };
    json!({
        "name": line.name,
        "suspect": line.is_suspect,
        "step": line.is_step,
        "hides": hidden,
        "whole": whole,
        "t": times,
        "v": values,
    })
}
