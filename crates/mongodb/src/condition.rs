//! Translates a filter to a condition that the server evaluates.
//!
//! A condition is true for at least the documents that match. It also records whether it is exact,
//! that is, true for no others: then the server can count, apply limits and run further stages.
//! Parts that servers evaluate differently are left out, and evaluated here.

use mongodb::bson::{Bson, Document, doc};
use serde_json::Value;

use super::document::{OWN, PLAIN, TEXT, is_shadowed};
use super::value::decimal;
use runlore_query::engine::filter::tree::{Node, Predicate, TypeName};
use runlore_query::engine::find::sort::{Direction, Sort};
use runlore_query::engine::path::Path;
use runlore_query::query::Filter;

/// The form of the documents that a filter is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Documents as they are stored.
    Stored,
    /// Documents in the form of records.
    Record,
}

impl Form {
    /// Returns the path of a field in documents of this form.
    pub(super) fn path(self, path: &Path) -> String {
        let first = path.keys().next().unwrap_or_default();
        match self == Self::Stored && is_shadowed(first) {
            true => format!("{OWN}.{path}"),
            false => path.as_str().to_owned(),
        }
    }
}

/// A condition for the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) document: Document,
    /// Whether it is true for matching documents only.
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

    fn any_of(parts: Vec<Self>) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let documents: Vec<_> = parts.into_iter().map(|part| part.document).collect();
        Self { document: doc! {"$or": documents}, is_exact }
    }

    fn all_of(parts: Vec<Self>) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        Self { document: both(parts.into_iter().map(|part| part.document)), is_exact }
    }

    /// Negates the condition. `None` if it is not exact, because the matching documents are then
    /// unknown.
    fn negated(self) -> Option<Self> {
        self.is_exact.then(|| Self::exact(doc! {"$nor": [self.document]}))
    }
}

/// Returns a condition for the odd documents that may match, that is, documents whose fields do
/// not represent the whole record. These are documents with the record as text, and documents of
/// other programs unless one of their strings rules out a match.
pub(super) fn odd(filter: &Filter) -> Document {
    let mut odd = doc! {PLAIN: null};
    if let Some(foreign) = of_foreign(filter.root()) {
        odd.insert("$or", vec![doc! {TEXT: {"$exists": true}}, foreign]);
    }
    odd
}

/// Returns a condition that all matching documents of other programs meet, and perhaps others.
/// `None` if any of them may match.
fn of_foreign(node: &Node) -> Option<Document> {
    let texts = |path: &Path, values: &[Value]| {
        let name = path.as_str();
        let is_shown = path.keys().len() == 1 && !is_shadowed(name) && can_be_asked(path);
        let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
        let texts = texts.filter(|_| is_shown)?;
        // A value that is not a string may become one in the record: an ObjectId, or a missing id.
        let mut other = doc! {"$not": {"$type": "string"}};
        if !["type", "task_id", "workflow_id"].contains(&name) {
            other.insert("$ne", Bson::Null);
        }
        let item = doc! {format!("{name}.0"): {"$exists": true}};
        Some(doc! {"$or": [{name: {"$in": texts}}, {name: other}, item]})
    };
    match node {
        Node::And(nodes) => {
            let parts: Vec<_> = nodes.iter().filter_map(of_foreign).collect();
            (!parts.is_empty()).then(|| doc! {"$and": parts})
        }
        Node::Or(nodes) => {
            let parts: Option<Vec<_>> = nodes.iter().map(of_foreign).collect();
            Some(doc! {"$or": parts?})
        }
        Node::Field(path, Predicate::Eq(value)) => texts(path, std::slice::from_ref(value)),
        Node::Field(path, Predicate::In(values)) => texts(path, values),
        Node::Nor(_) | Node::Field(..) => None,
    }
}

/// Returns whether the path can be sent to a server. A name with a dollar sign could be taken for
/// an operator.
fn can_be_asked(path: &Path) -> bool {
    path.keys().all(|key| !key.is_empty() && !key.starts_with('$') && !key.contains('\0'))
}

/// Combines conditions with AND. Merges them into one document if possible, because not every
/// server uses an index for conditions inside `$and`.
pub(super) fn both(conditions: impl IntoIterator<Item = Document>) -> Document {
    let mut all = Document::new();
    let mut rest = Vec::new();
    for condition in conditions {
        match condition.keys().any(|key| all.contains_key(key)) {
            true => rest.push(condition),
            false => all.extend(condition),
        }
    }
    if !rest.is_empty() {
        rest.insert(0, all);
        all = doc! {"$and": rest};
    }
    all
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
                _ => Condition::all_of(parts),
            };
            condition.is_exact &= is_whole;
            Some(condition)
        }
        Node::Or(nodes) => any(nodes, form),
        Node::Nor(nodes) => any(nodes, form)?.negated(),
        Node::Field(path, _) if !can_be_asked(path) => None,
        Node::Field(path, predicate) => of_predicate(path, form, predicate),
    }
}

fn any(nodes: &[Node], form: Form) -> Option<Condition> {
    let parts: Option<Vec<_>> = nodes.iter().map(|node| of_node(node, form)).collect();
    Some(Condition::any_of(parts?))
}

fn all(path: &Path, form: Form, predicates: &[Predicate]) -> Option<Condition> {
    let parts: Option<Vec<_>> =
        predicates.iter().map(|predicate| of_predicate(path, form, predicate)).collect();
    Some(Condition::all_of(parts?))
}

fn of_predicate(path: &Path, form: Form, predicate: &Predicate) -> Option<Condition> {
    let one = |operator: &str, operand: Bson| {
        Some(Condition::exact(doc! {form.path(path): {operator: operand}}))
    };
    // Not every server uses a compound index for `$eq`.
    let is = |operand: Bson| Condition::exact(doc! {form.path(path): operand});
    match predicate {
        Predicate::Eq(operand) => Some(is(equal(path, operand)?)),
        Predicate::Ne(operand) => is(equal(path, operand)?).negated(),
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
                operands.iter().map(|operand| Some(is(simple(operand)?))).collect();
            Some(Condition::all_of(parts?))
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

/// Returns whether the pattern means the same in every dialect of regular expressions.
fn is_simple(pattern: &str) -> bool {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-/ :.^$".contains(character);
    pattern.chars().all(is_plain)
}

fn type_names(types: &[TypeName]) -> Option<Vec<Bson>> {
    let mut names = Vec::new();
    for name in types {
        match name {
            // Records contain no dates or other types that JSON lacks.
            TypeName::Foreign(_) => {}
            TypeName::Long => names.extend(["long".into(), "decimal".into()]),
            // Servers differ in whether this tests the array or its items.
            TypeName::Array => return None,
            name => names.push(name.name().into()),
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Converts a value. `None` for null, arrays and objects.
fn simple(value: &Value) -> Option<Bson> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        value => bson_of(value),
    }
}

/// Converts a value to compare with. `None` for null at a nested path, because servers differ in
/// what equals null there, and for arrays and objects.
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

/// Converts a value to its stored form. `None` if it cannot be stored.
pub(super) fn bson_of(value: &Value) -> Option<Bson> {
    Some(match value {
        Value::Null => Bson::Null,
        Value::Bool(yes) => Bson::Boolean(*yes),
        Value::String(text) => Bson::String(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Bson::Int64(number),
            (None, Some(number)) => Bson::Decimal128(decimal(number)),
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

/// Converts a sort order to the server's form.
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
            (r#"{"task_id": "t"}"#, doc! {"task_id": "t"}),
            (r#"{"started_at": {"$gt": 1.5}}"#, doc! {"_runlore.own.started_at": {"$gt": 1.5}}),
            (
                r#"{"finished": {"$exists": true}}"#,
                doc! {"_runlore.own.finished": {"$exists": true}},
            ),
            (r#"{"_id.x": 1}"#, doc! {"_runlore.own._id.x": 1_i64}),
            (r#"{"used.started_at": "$x"}"#, doc! {"used.started_at": "$x"}),
            (
                r#"{"status": "a", "used.x": {"$gt": 1, "$lt": 5}, "type": "task"}"#,
                doc! {"$and": [
                    {"status": "a", "used.x": {"$gt": 1_i64}, "type": "task"},
                    {"used.x": {"$lt": 5_i64}},
                ]},
            ),
            (r#"{"status": {"$ne": "a"}}"#, doc! {"$nor": [{"status": "a"}]}),
            (r#"{}"#, doc! {}),
        ];
        for (filter, expected) in cases {
            assert_eq!(asked(filter), (expected, true), "{filter}");
        }
    }

    #[test]
    fn what_servers_differ_about_is_looked_at_here() {
        let cases = [
            (r#"{"status": "a", "used.x": null}"#, doc! {"status": "a"}),
            (r#"{"used": {"a": 1}}"#, doc! {}),
            (r#"{"used.$x": 1}"#, doc! {}),
            (r#"{"activity_id": {"$regex": "\\w"}}"#, doc! {}),
            (r#"{"$or": [{"status": "a"}, {"tags": {"$elemMatch": {"$eq": 1}}}]}"#, doc! {}),
        ];
        for (filter, expected) in cases {
            assert_eq!(asked(filter), (expected, false), "{filter}");
        }
    }

    #[test]
    fn an_operator_is_no_field() {
        let filter = runlore_query::query::field("$comment")
            .eq("x")
            .and(runlore_query::query::field("a").eq("y"));
        let asked = Condition::of(&filter, Form::Stored);
        assert_eq!((asked.document, asked.is_exact), (doc! {"a": "y"}, false));
    }

    #[test]
    fn what_other_programs_stored_is_left_out_where_a_text_says_so() {
        let odd = |filter: &str| odd(&Filter::parse(filter).unwrap());
        let all = doc! {PLAIN: null};
        for filter in [
            "{}",
            r#"{"workflow_id": {"$ne": "w"}}"#,
            r#"{"started_at": {"$gt": 5}}"#,
            r#"{"_id": "w"}"#,
            r#"{"used.x": "w"}"#,
            r#"{"$or": [{"workflow_id": "w"}, {"used.x": 1}]}"#,
        ] {
            assert_eq!(odd(filter), all, "{filter}");
        }
        let narrow = odd(r#"{"workflow_id": "w", "used.x": 1}"#);
        let texts = doc! {"$or": [
            {"workflow_id": {"$in": ["w"]}}, {"workflow_id": {"$not": {"$type": "string"}}},
            {"workflow_id.0": {"$exists": true}},
        ]};
        let expected = vec![doc! {TEXT: {"$exists": true}}, doc! {"$and": [texts]}];
        assert_eq!(narrow, doc! {PLAIN: null, "$or": expected});
        assert!(odd(r#"{"status": "a"}"#).to_string().contains(r#""$ne": null"#));
    }

    #[test]
    fn values_are_data() {
        let value = serde_json::json!({"b": {"$gt": 1}, "a": u64::MAX});
        let bson = bson_of(&value).unwrap();
        assert_eq!(bson.to_string(), r#"{ "a": 18446744073709551615, "b": { "$gt": 1 } }"#);
        assert_eq!(bson_of(&serde_json::json!({"a\0": 1})), None);
    }
}
