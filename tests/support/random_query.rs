//! Random documents, filters, sorts and projections, for comparing one engine with another.
//!
//! Names, values and operands come from small sets, so that a filter often finds something. Filters are JSON text that
//! [`Filter::parse`](runlore::query::Filter::parse) accepts.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const NAMES: &[&str] = &["a", "b", "c", "d"];

/// Values that are neither objects nor arrays.
pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    let numbers = vec![
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(1.0),
        json!(1.5),
        json!(-0.0),
        json!(1_i64 << 53),
        json!((1_i64 << 53) + 1),
        json!((1_i64 << 53) as f64),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1_u64 << 63),
        json!(u64::MAX),
        json!(9.223_372_036_854_776e18),
        json!(1e300),
    ];
    let texts = ["", "a", "b", "ab", "A", "é", "1", "a\nb", "x.y", "%", "_", "'", "\"", "\u{0}"];
    prop_oneof![
        2 => Just(Value::Null),
        5 => select(numbers),
        4 => select(texts.to_vec()).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
    ]
}

/// Values of any type, up to three levels deep.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        let name = select(vec!["a", "b", "c", "0", "1", ""]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name, inner), 0..4).prop_map(object),
        ]
    })
}

/// Objects of such values.
pub(crate) fn document() -> impl Strategy<Value = Value> {
    prop::collection::vec((select(NAMES.to_vec()), value()), 0..5).prop_map(object)
}

/// Some documents, each with an `_id` that no other has.
pub(crate) fn documents() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(document(), 0..30).prop_map(|mut documents| {
        for (id, document) in documents.iter_mut().enumerate() {
            document["_id"] = id.into();
        }
        documents
    })
}

/// Paths that lead somewhere now and then.
pub(crate) fn path() -> impl Strategy<Value = String> {
    let rest = prop::collection::vec(select(vec!["a", "b", "c", "0", "1", "2"]), 0..3);
    (select(NAMES.to_vec()), rest).prop_map(|(first, rest)| {
        rest.iter().fold(first.to_owned(), |path, name| format!("{path}.{name}"))
    })
}

/// A filter document.
pub(crate) fn filter() -> impl Strategy<Value = Value> {
    filter_of(2).boxed()
}

/// A sort that leaves nothing undecided.
pub(crate) fn sort() -> impl Strategy<Value = Vec<(String, i32)>> {
    let key = (path(), select(vec![1, -1]));
    prop::collection::vec(key, 0..3).prop_map(|mut keys| {
        keys.dedup_by(|left, right| left.0 == right.0);
        if keys.len() == 2 && keys[0].0 == keys[1].0 {
            keys.pop();
        }
        keys.push(("_id".to_owned(), 1));
        keys
    })
}

fn filter_of(depth: u32) -> BoxedStrategy<Value> {
    let field =
        (path(), condition(depth)).prop_map(|(path, condition)| object([(path, condition)]));
    if depth == 0 {
        return field.boxed();
    }
    let two = (path(), condition(depth), path(), condition(depth))
        .prop_map(|(first, one, second, two)| object([(first, one), (second, two)]));
    let nodes = prop::collection::vec(filter_of(depth - 1), 1..4);
    let logic = (select(vec!["$and", "$or", "$nor"]), nodes)
        .prop_map(|(operator, nodes)| object([(operator, Value::from(nodes))]));
    prop_oneof![4 => field, 1 => two, 2 => logic, 1 => Just(json!({}))].boxed()
}

/// What is asked of one field: a value or operators.
fn condition(depth: u32) -> BoxedStrategy<Value> {
    let operators = prop_oneof![
        4 => operator(depth),
        1 => (operator(depth), operator(depth)).prop_map(|(one, two)| merged(one, two)),
    ];
    prop_oneof![1 => value(), 4 => operators].boxed()
}

fn operator(depth: u32) -> BoxedStrategy<Value> {
    let one = |name: &'static str, operand: Value| object([(name, operand)]);
    let compare = select(vec!["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
    let several = select(vec!["$in", "$nin", "$all"]);
    let types = select(vec![
        "double", "string", "object", "array", "bool", "null", "int", "long", "number", "date",
    ]);
    let patterns = select(vec!["^a", "b$", ".", "^$", "[ab]", "A", "a.b", r"\d", r"^\w+$"]);
    let leaf = prop_oneof![
        8 => (compare, value()).prop_map(move |(name, operand)| one(name, operand)),
        4 => (several, prop::collection::vec(value(), 0..4))
            .prop_map(move |(name, operands)| one(name, operands.into())),
        2 => any::<bool>().prop_map(move |wanted| one("$exists", wanted.into())),
        2 => (0..4_u32).prop_map(move |size| one("$size", size.into())),
        2 => types.prop_map(move |name| one("$type", name.into())),
        2 => (patterns, select(vec!["", "i", "s", "m"]))
            .prop_map(|(pattern, options)| json!({"$regex": pattern, "$options": options})),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = operator(depth - 1);
    let element = prop_oneof![operator(depth - 1), filter_of(depth - 1)];
    prop_oneof![
        6 => leaf,
        1 => inner.prop_map(move |inner| one("$not", inner)),
        1 => element.prop_map(move |inner| one("$elemMatch", inner)),
    ]
    .boxed()
}

fn merged(one: Value, two: Value) -> Value {
    let (Value::Object(mut one), Value::Object(two)) = (one, two) else { unreachable!() };
    one.extend(two);
    Value::Object(one)
}

fn object<K: Into<String>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
    let entries = entries.into_iter().map(|(name, value)| (name.into(), value));
    Value::Object(Map::from_iter(entries))
}
