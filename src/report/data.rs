//! A picture as the data of a page: small, and every value that is drawn is one that was seen.

use serde_json::{Value, json};

use super::buckets::thinned;
use super::picture::{Line, Picture, Point};
use super::svg::script_json;

/// How many points a page has at most, of all curves together.
const POINTS: usize = 40_000;
/// How large its data may become. A page is to stay below a megabyte.
const MOST_BYTES: usize = 760_000;

/// The data as JSON that can stand in a `script` element.
pub(super) fn of(picture: &Picture) -> String {
    let lines = picture.lines().max(1);
    let mut stretches = (POINTS / 2 / lines).max(8);
    loop {
        let json = script_json(&with(picture, stretches));
        if json.len() <= MOST_BYTES || stretches <= 8 {
            return json;
        }
        stretches /= 2;
    }
}

fn with(picture: &Picture, stretches: usize) -> Value {
    let panels: Vec<Value> = picture
        .panels
        .iter()
        .map(|panel| {
            let lines: Vec<Value> =
                panel.lines.iter().map(|one| line(one, picture.length_ns, stretches)).collect();
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
        .map(|mark| json!([mark.at_ns, mark.end_ns, mark.level, mark.text]))
        .collect();
    json!({
        "start_ms": picture.start_ns as f64 / 1e6,
        "length": picture.length_ns,
        "panels": panels,
        "bars": bars,
        "density": picture.density,
        "marks": marks,
    })
}

/// A curve: times as differences, values as differences where all are whole.
fn line(line: &Line, length_ns: u64, stretches: usize) -> Value {
    let points = thinned(&line.points, length_ns, stretches);
    let mut before = 0;
    let times: Vec<u64> = points
        .iter()
        .map(|point| point.at_ns - std::mem::replace(&mut before, point.at_ns))
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
        "seen": line.points.len(),
        "whole": whole,
        "t": times,
        "v": values,
    })
}
