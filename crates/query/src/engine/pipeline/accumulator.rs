//! The accumulators of `$group`.

use std::collections::HashSet;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::expression::Expression;
use super::sum::Sum;
use crate::engine::operators::{ACCUMULATORS, shortened, unknown};
use crate::engine::order;
use crate::engine::order::Key;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// An accumulator with the expression that it accumulates.
#[derive(Debug, Clone, PartialEq)]
pub enum Accumulator {
    Sum(Expression),
    Avg(Expression),
    Min(Expression),
    Max(Expression),
    First(Expression),
    Last(Expression),
    Push(Expression),
    AddToSet(Expression),
    Count,
    /// Percentiles, given as shares from 0 to 1: that share of the values lies at or below the
    /// result.
    Percentile(Expression, Vec<f64>),
}

fn wrong(sentence: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Query, sentence)
}

impl Accumulator {
    /// Parses the accumulator of a field: `{"$avg": "$duration_ns"}`.
    pub(super) fn from_syntax(field: &str, json: Json) -> Result<Self> {
        let (name, operand) = match json {
            Json::Object(mut entries) if entries.len() == 1 => entries.remove(0),
            _ => {
                return Err(wrong(format!(
                    "`{}` in `$group` must be an object with one accumulator, such as {{\"$sum\": 1}}",
                    shortened(field)
                )));
            }
        };
        match name.as_str() {
            "$count" => match operand {
                Json::Object(entries) if entries.is_empty() => return Ok(Accumulator::Count),
                _ => return Err(wrong("`$count` in `$group` takes an empty object")),
            },
            "$percentile" => return percentile(operand),
            _ => {}
        }
        let make = match name.as_str() {
            "$sum" => Accumulator::Sum,
            "$avg" => Accumulator::Avg,
            "$min" => Accumulator::Min,
            "$max" => Accumulator::Max,
            "$first" => Accumulator::First,
            "$last" => Accumulator::Last,
            "$push" => Accumulator::Push,
            "$addToSet" => Accumulator::AddToSet,
            other => return Err(unknown("accumulator", other, ACCUMULATORS)),
        };
        if matches!(&operand, Json::Array(items) if items.len() != 1) {
            return Err(wrong(format!("`{name}` in `$group` takes one expression, not an array")));
        }
        // An array with one operand means that operand.
        let operand = match operand {
            Json::Array(mut items) => items.remove(0),
            operand => operand,
        };
        Ok(make(Expression::from_syntax(operand)?))
    }

    pub(super) fn begin(&self) -> State {
        match self {
            Accumulator::Sum(_) | Accumulator::Count => State::Sum(Sum::default()),
            Accumulator::Avg(_) => State::Avg(Sum::default(), 0),
            Accumulator::Percentile(..) => State::Numbers(Vec::new()),
            Accumulator::Push(_) => State::List(Vec::new()),
            Accumulator::AddToSet(_) => State::Set(Vec::new(), HashSet::new()),
            Accumulator::Min(_)
            | Accumulator::Max(_)
            | Accumulator::First(_)
            | Accumulator::Last(_) => State::One(None),
        }
    }

    pub(super) fn add(&self, document: &Value, state: &mut State) {
        match (self, state) {
            (Accumulator::Count, State::Sum(sum)) => sum.add(&json!(1)),
            (Accumulator::Sum(input), State::Sum(sum)) => {
                if let Some(value) = input.evaluate(document) {
                    sum.add(&value);
                }
            }
            (Accumulator::Avg(input), State::Avg(sum, count)) => {
                if let Some(value) = input.evaluate(document).filter(Value::is_number) {
                    sum.add(&value);
                    *count += 1;
                }
            }
            (Accumulator::Min(input), State::One(best)) => {
                better(best, input.evaluate(document), std::cmp::Ordering::is_lt);
            }
            (Accumulator::Max(input), State::One(best)) => {
                better(best, input.evaluate(document), std::cmp::Ordering::is_gt);
            }
            (Accumulator::First(input), State::One(first)) => {
                if first.is_none() {
                    *first = Some(input.evaluate(document).unwrap_or_default());
                }
            }
            (Accumulator::Last(input), State::One(last)) => *last = input.evaluate(document),
            (Accumulator::Push(input), State::List(list)) => list.extend(input.evaluate(document)),
            (Accumulator::AddToSet(input), State::Set(list, seen)) => {
                if let Some(value) = input.evaluate(document)
                    && seen.insert(Key(value.clone()))
                {
                    list.push(value);
                }
            }
            (Accumulator::Percentile(input, _), State::Numbers(numbers)) => {
                numbers.extend(input.evaluate(document).and_then(|value| value.as_f64()));
            }
            _ => unreachable!("a state is made by its own accumulator"),
        }
    }

    pub(super) fn end(&self, state: State) -> Value {
        match state {
            State::Sum(sum) => sum.total(),
            State::Avg(_, 0) => Value::Null,
            State::Avg(sum, count) => (sum.as_f64() / count as f64).into(),
            State::One(value) => value.unwrap_or_default(),
            State::List(list) | State::Set(list, _) => list.into(),
            State::Numbers(numbers) => match self {
                Accumulator::Percentile(_, shares) => percentiles(numbers, shares),
                _ => unreachable!("a state is made by its own accumulator"),
            },
        }
    }

    /// Returns the expression that is evaluated on each document. `None` for `$count`.
    pub(super) fn input(&self) -> Option<&Expression> {
        match self {
            Accumulator::Count => None,
            Accumulator::Sum(input)
            | Accumulator::Avg(input)
            | Accumulator::Min(input)
            | Accumulator::Max(input)
            | Accumulator::First(input)
            | Accumulator::Last(input)
            | Accumulator::Push(input)
            | Accumulator::AddToSet(input)
            | Accumulator::Percentile(input, _) => Some(input),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Accumulator::Sum(_) => "$sum",
            Accumulator::Avg(_) => "$avg",
            Accumulator::Min(_) => "$min",
            Accumulator::Max(_) => "$max",
            Accumulator::First(_) => "$first",
            Accumulator::Last(_) => "$last",
            Accumulator::Push(_) => "$push",
            Accumulator::AddToSet(_) => "$addToSet",
            Accumulator::Count => "$count",
            Accumulator::Percentile(..) => "$percentile",
        }
    }
}

/// The intermediate state of an accumulator.
#[derive(Debug)]
pub(super) enum State {
    Sum(Sum),
    Avg(Sum, u64),
    One(Option<Value>),
    List(Vec<Value>),
    /// The values in the order they came, and an index of them.
    Set(Vec<Value>, HashSet<Key>),
    Numbers(Vec<f64>),
}

/// Replaces `best` if `value` is better. Ignores null and missing values.
fn better(best: &mut Option<Value>, value: Option<Value>, wanted: fn(std::cmp::Ordering) -> bool) {
    let Some(value) = value.filter(|value| !value.is_null()) else { return };
    if best.as_ref().is_none_or(|best| wanted(order::compare(&value, best))) {
        *best = Some(value);
    }
}

fn percentile(operand: Json) -> Result<Accumulator> {
    let Json::Object(entries) = operand else {
        return Err(wrong(
            "`$percentile` takes {\"input\": …, \"p\": [0.5], \"method\": \"approximate\"}",
        ));
    };
    let (mut input, mut shares, mut method) = (None, None, None);
    for (name, value) in entries {
        match name.as_str() {
            "input" => input = Some(Expression::from_syntax(value)?),
            "p" => shares = Some(shares_of(value)?),
            "method" => method = Some(value),
            other => {
                return Err(unknown("option of `$percentile`", other, &["input", "p", "method"]));
            }
        }
    }
    if method.as_ref().and_then(Json::as_str) != Some("approximate") {
        return Err(wrong("`$percentile` needs \"method\": \"approximate\", as MongoDB does"));
    }
    match (input, shares) {
        (Some(input), Some(shares)) => Ok(Accumulator::Percentile(input, shares)),
        _ => Err(wrong("`$percentile` needs `input` and `p`")),
    }
}

fn shares_of(json: Json) -> Result<Vec<f64>> {
    let share = |item: &Json| match item {
        Json::Scalar(value) => value.as_f64().filter(|share| (0.0..=1.0).contains(share)),
        _ => None,
    };
    match json {
        Json::Array(items) if !items.is_empty() => items.iter().map(share).collect(),
        _ => None,
    }
    .ok_or_else(|| wrong("`p` of `$percentile` must be an array of numbers from 0 to 1"))
}

/// Returns percentiles by nearest rank: the smallest number such that at least this share of the
/// numbers does not exceed it.
pub fn percentiles(mut numbers: Vec<f64>, shares: &[f64]) -> Value {
    numbers.sort_unstable_by(f64::total_cmp);
    let count = numbers.len();
    let at = |share: &f64| {
        let rank = (share * count as f64).ceil() as usize;
        numbers.get(rank.clamp(1, count.max(1)) - 1).copied()
    };
    shares.iter().map(|share| at(share).map_or(Value::Null, Value::from)).collect()
}

impl Serialize for Accumulator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Accumulator::Sum(input)
            | Accumulator::Avg(input)
            | Accumulator::Min(input)
            | Accumulator::Max(input)
            | Accumulator::First(input)
            | Accumulator::Last(input)
            | Accumulator::Push(input)
            | Accumulator::AddToSet(input) => match input {
                // A bare array would be parsed as a list of operands.
                Expression::Array(_) => map.serialize_entry(self.name(), &[input])?,
                input => map.serialize_entry(self.name(), input)?,
            },
            Accumulator::Count => map.serialize_entry(self.name(), &json!({}))?,
            Accumulator::Percentile(input, shares) => {
                map.serialize_entry(
                    self.name(),
                    &Percentile { input, p: shares, method: "approximate" },
                )?;
            }
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct Percentile<'a> {
    input: &'a Expression,
    p: &'a [f64],
    method: &'static str,
}
