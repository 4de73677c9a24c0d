//! Evaluates a filter on a document, without allocating.

use std::cmp::Ordering;

use serde_json::Value;

use super::tree::{ElemMatch, Node, Predicate};
use crate::engine::order;
use crate::engine::path::{AtEnd, Path};

impl Node {
    pub(super) fn matches(&self, document: &Value) -> bool {
        match self {
            Node::And(nodes) => nodes.iter().all(|node| node.matches(document)),
            Node::Or(nodes) => nodes.iter().any(|node| node.matches(document)),
            Node::Nor(nodes) => !nodes.iter().any(|node| node.matches(document)),
            Node::Field(path, predicate) => predicate.holds_at(path, document),
        }
    }
}

impl Predicate {
    /// Returns whether the predicate holds for any value that the path leads to. A negation holds
    /// if the negated predicate does not.
    fn holds_at(&self, path: &Path, document: &Value) -> bool {
        let any = |at_end, test: &dyn Fn(Option<&Value>) -> bool| path.any(document, at_end, test);
        match self {
            Predicate::Ne(operand) => !any(AtEnd::Items, &|value| is_equal(value, operand)),
            Predicate::Nin(operands) => !any(AtEnd::Items, &|value| is_among(value, operands)),
            Predicate::Exists(false) => !any(AtEnd::Whole, &|value| value.is_some()),
            Predicate::Not(inner) => !inner.iter().all(|inner| inner.holds_at(path, document)),
            Predicate::All(operands) => {
                let each =
                    |operand| any(AtEnd::Items, &|value: Option<&Value>| is_equal(value, operand));
                !operands.is_empty() && operands.iter().all(each)
            }
            Predicate::AllMatch(all) => {
                all.iter().all(|one| any(AtEnd::Whole, &|value| one.holds_in(value)))
            }
            Predicate::Exists(true) | Predicate::ElemMatch(_) | Predicate::Size(_) => {
                path.any(document, AtEnd::Whole, |value| self.holds_for(value))
            }
            _ => path.any(document, AtEnd::Items, |value| self.holds_for(value)),
        }
    }

    /// Returns whether the predicate holds for this one value. An array counts as a whole.
    fn holds_for(&self, value: Option<&Value>) -> bool {
        match self {
            Predicate::Eq(operand) => is_equal(value, operand),
            Predicate::Ne(operand) => !is_equal(value, operand),
            Predicate::Gt(operand) => is_ordered(value, operand, Ordering::is_gt),
            Predicate::Gte(operand) => is_ordered(value, operand, Ordering::is_ge),
            Predicate::Lt(operand) => is_ordered(value, operand, Ordering::is_lt),
            Predicate::Lte(operand) => is_ordered(value, operand, Ordering::is_le),
            Predicate::In(operands) => is_among(value, operands),
            Predicate::Nin(operands) => !is_among(value, operands),
            Predicate::Exists(wanted) => value.is_some() == *wanted,
            Predicate::Regex(pattern) => {
                value.and_then(Value::as_str).is_some_and(|text| pattern.is_match(text))
            }
            Predicate::Not(inner) => !inner.iter().all(|inner| inner.holds_for(value)),
            Predicate::All(operands) => {
                !operands.is_empty() && operands.iter().all(|operand| is_equal(value, operand))
            }
            Predicate::AllMatch(all) => all.iter().all(|one| one.holds_in(value)),
            Predicate::ElemMatch(one) => one.holds_in(value),
            Predicate::Size(size) => {
                value.and_then(Value::as_array).is_some_and(|items| items.len() as u64 == *size)
            }
            Predicate::Type(types) => {
                value.is_some_and(|value| types.iter().any(|wanted| wanted.is_of(value)))
            }
        }
    }
}

impl ElemMatch {
    /// Returns whether `value` is an array with a matching item.
    fn holds_in(&self, value: Option<&Value>) -> bool {
        let Some(Value::Array(items)) = value else { return false };
        items.iter().any(|item| match self {
            ElemMatch::Document(node) => {
                (item.is_object() || item.is_array()) && node.matches(item)
            }
            ElemMatch::Value(predicates) => {
                predicates.iter().all(|predicate| predicate.holds_for(Some(item)))
            }
        })
    }
}

/// A missing value equals null.
fn is_equal(value: Option<&Value>, operand: &Value) -> bool {
    match value {
        Some(value) => order::equal(value, operand),
        None => operand.is_null(),
    }
}

fn is_among(value: Option<&Value>, operands: &[Value]) -> bool {
    operands.iter().any(|operand| is_equal(value, operand))
}

/// Only values of the same type are ordered here.
fn is_ordered(value: Option<&Value>, operand: &Value, wanted: fn(Ordering) -> bool) -> bool {
    let value = value.unwrap_or(&Value::Null);
    order::rank(value) == order::rank(operand) && wanted(order::compare(value, operand))
}
