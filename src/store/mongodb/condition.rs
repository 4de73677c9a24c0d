//! A filter as one that the server answers.
//!
//! Every condition holds for at least the documents that match. Whether it also holds for no others is known, too: then the
//! server can count, cut off and go on with the answer. What servers are not of one mind about is left out, and looked at
//! here.

use mongodb::bson::{Bson, Decimal128, Document, doc};
use serde_json::Value;

use super::bytes::decimal;
use super::document::{OWN, is_shadowed};
use crate::query::Filter;
use crate::query::filter::tree::{Node, Predicate, TypeName};
use crate::query::find::sort::{Direction, Sort};
use crate::query::path::Path;

/// In which form the documents are that a filter is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are stored.
    Stored,
    /// As records are.
    Record,
}

impl Form {
    /// A path in documents of this form.
    pub(super) fn path(self, path: &Path) -> String {
        let first = path.keys().next().unwrap_or_default();
        match self == Self::Stored && is_shadowed(first) {
            true => format!("{OWN}.{path}"),
            false => path.as_str().to_owned(),
        }
    }
}

/// What the server is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) document: Document,
    /// Whether it holds for matching documents only.
    pub(super) is_exact: bool,
}

impl Condition {
    pub(super) fn of(filter: &Filter, form: Form) -> Self {
        let found = of_node(filter.root(), form);
        found.unwrap_or(Self { document: Document::new(), is_exact: false })
    }

    fn exact(document: Document) -> Self {
        Self { document, is_exact: true }
    }

    fn joined(parts: Vec<Self>, with: &str) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let documents: Vec<_> = parts.into_iter().map(|part| part.document).collect();
        Self { document: doc! {with: documents}, is_exact }
    }

    /// What is left of all documents without these; none where it is not known which these are.
    fn negated(self) -> Option<Self> {
        self.is_exact.then(|| Self::exact(doc! {"$nor": [self.document]}))
    }
}

fn of_node(node: &Node, form: Form) -> Option<Condition> {
    match node {
        Node::And(nodes) => {
            let mut parts: Vec<_> = nodes.iter().filter_map(|node| of_node(node, form)).collect();
            let is_whole = parts.len() == nodes.len();
            let mut condition = match parts.len() {
                0 if is_whole => Condition::exact(Document::new()),
                0 => return None,
                1 => parts.remove(0),
                _ => Condition::joined(parts, "$and"),
            };
            condition.is_exact &= is_whole;
            Some(condition)
        }
        Node::Or(nodes) => any(nodes, form),
        Node::Nor(nodes) => any(nodes, form)?.negated(),
        Node::Field(path, predicate) => of_predicate(path, form, predicate),
    }
}

fn any(nodes: &[Node], form: Form) -> Option<Condition> {
    let parts: Option<Vec<_>> = nodes.iter().map(|node| of_node(node, form)).collect();
    Some(Condition::joined(parts?, "$or"))
}

fn all(path: &Path, form: Form, predicates: &[Predicate]) -> Option<Condition> {
    let parts: Option<Vec<_>> =
        predicates.iter().map(|predicate| of_predicate(path, form, predicate)).collect();
    Some(Condition::joined(parts?, "$and"))
}

fn of_predicate(path: &Path, form: Form, predicate: &Predicate) -> Option<Condition> {
    let one = |operator: &str, operand: Bson| {
        Some(Condition::exact(doc! {form.path(path): {operator: operand}}))
    };
    match predicate {
        Predicate::Eq(operand) => one("$eq", equal(path, operand)?),
        Predicate::Ne(operand) => one("$eq", equal(path, operand)?)?.negated(),
        Predicate::In(operands) => one("$in", several(path, operands)?.into()),
        Predicate::Nin(operands) => one("$in", several(path, operands)?.into())?.negated(),
        Predicate::Gt(operand) => one("$gt", ordered(operand)?),
        Predicate::Gte(operand) => one("$gte", ordered(operand)?),
        Predicate::Lt(operand) => one("$lt", ordered(operand)?),
        Predicate::Lte(operand) => one("$lte", ordered(operand)?),
        Predicate::Exists(wanted) => one("$exists", (*wanted).into()),
        Predicate::Not(inner) => all(path, form, inner)?.negated(),
        Predicate::All(operands) if operands.is_empty() => one("$in", Bson::Array(Vec::new())),
        Predicate::All(operands) => {
            let parts: Option<Vec<_>> =
                operands.iter().map(|operand| one("$eq", simple(operand)?)).collect();
            Some(Condition::joined(parts?, "$and"))
        }
        Predicate::Regex(pattern)
            if pattern.options().is_empty() && is_simple(pattern.source()) =>
        {
            one("$regex", pattern.source().into())
        }
        Predicate::Type(types) => one("$type", Bson::Array(type_names(types)?)),
        Predicate::Size(size) => one("$size", i64::try_from(*size).ok()?.into()),
        Predicate::Regex(_) | Predicate::AllMatch(_) | Predicate::ElemMatch(_) => None,
    }
}

/// Characters that mean the same in every dialect of regular expressions.
fn is_simple(pattern: &str) -> bool {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-/ :.^$".contains(character);
    pattern.chars().all(is_plain)
}

fn type_names(types: &[TypeName]) -> Option<Vec<Bson>> {
    let mut names = Vec::new();
    for name in types {
        match name {
            // Dates and the like are in no record.
            TypeName::Foreign(_) => {}
            TypeName::Long => names.extend(["long".into(), "decimal".into()]),
            // Of these, arrays and their items are told apart differently.
            TypeName::Array => return None,
            name => names.push(name.name().into()),
        }
    }
    (!names.is_empty()).then_some(names)
}

/// A value that is neither null nor made of others.
fn simple(value: &Value) -> Option<Bson> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        value => bson_of(value),
    }
}

/// A value to be equal to. Where a path leads through others, servers differ about what is null.
fn equal(path: &Path, value: &Value) -> Option<Bson> {
    match value {
        Value::Null if path.keys().len() > 1 => None,
        Value::Null => Some(Bson::Null),
        value => simple(value),
    }
}

fn several(path: &Path, values: &[Value]) -> Option<Vec<Bson>> {
    values.iter().map(|value| equal(path, value)).collect()
}

fn ordered(value: &Value) -> Option<Bson> {
    simple(value)
}

/// A value as it is stored; none where it cannot be.
pub(super) fn bson_of(value: &Value) -> Option<Bson> {
    Some(match value {
        Value::Null => Bson::Null,
        Value::Bool(yes) => Bson::Boolean(*yes),
        Value::String(text) => Bson::String(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Bson::Int64(number),
            (None, Some(number)) => Bson::Decimal128(Decimal128::from_bytes(decimal(number))),
            (None, None) => Bson::Double(number.as_f64()?),
        },
        Value::Array(items) => Bson::Array(items.iter().map(bson_of).collect::<Option<_>>()?),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let mut document = Document::new();
            for (key, value) in entries.into_iter().filter(|(key, _)| !key.contains('\0')) {
                document.insert(key, bson_of(value)?);
            }
            (document.len() == map.len()).then_some(Bson::Document(document))?
        }
    })
}

/// An order as the server keeps it.
pub(super) fn order_of(sort: &Sort, form: Form) -> Document {
    let keys = sort.keys().iter().map(|(path, direction)| {
        let direction = if *direction == Direction::Ascending { 1 } else { -1 };
        (form.path(path), Bson::Int32(direction))
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(filter: &str) -> (Document, bool) {
        let condition = Condition::of(&Filter::parse(filter).unwrap(), Form::Stored);
        (condition.document, condition.is_exact)
    }

    #[test]
    fn what_a_record_has_itself_is_asked_among_its_own() {
        let cases = [
            (r#"{"task_id": "t"}"#, doc! {"task_id": {"$eq": "t"}}),
            (r#"{"started_at": {"$gt": 1.5}}"#, doc! {"_runlore.own.started_at": {"$gt": 1.5}}),
            (
                r#"{"finished": {"$exists": true}}"#,
                doc! {"_runlore.own.finished": {"$exists": true}},
            ),
            (r#"{"_id.x": 1}"#, doc! {"_runlore.own._id.x": {"$eq": 1_i64}}),
            (r#"{"used.started_at": "$x"}"#, doc! {"used.started_at": {"$eq": "$x"}}),
            (r#"{"status": {"$ne": "a"}}"#, doc! {"$nor": [{"status": {"$eq": "a"}}]}),
            (r#"{}"#, doc! {}),
        ];
        for (filter, expected) in cases {
            assert_eq!(asked(filter), (expected, true), "{filter}");
        }
    }

    #[test]
    fn what_servers_differ_about_is_looked_at_here() {
        let cases = [
            (r#"{"status": "a", "used.x": null}"#, doc! {"status": {"$eq": "a"}}),
            (r#"{"used": {"a": 1}}"#, doc! {}),
            (r#"{"activity_id": {"$regex": "\\w"}}"#, doc! {}),
            (r#"{"$or": [{"status": "a"}, {"tags": {"$elemMatch": {"$eq": 1}}}]}"#, doc! {}),
        ];
        for (filter, expected) in cases {
            assert_eq!(asked(filter), (expected, false), "{filter}");
        }
    }

    #[test]
    fn values_are_data() {
        let value = serde_json::json!({"b": {"$gt": 1}, "a": u64::MAX});
        let bson = bson_of(&value).unwrap();
        assert_eq!(bson.to_string(), r#"{ "a": 18446744073709551615, "b": { "$gt": 1 } }"#);
        assert_eq!(bson_of(&serde_json::json!({"a\0": 1})), None);
    }
}
