//! Translates a filter to an SQL condition on the columns of a table.
//!
//! A condition is true for at least the rows whose documents match. It also records whether it is
//! exact, that is, true for no other rows: then SQLite can apply limits and count by itself. NULL
//! counts as false.

use rusqlite::types::Value as SqlValue;
use serde_json::Value;

use super::matching::MATCHES;
use super::read::Table;
use runlore_query::engine::filter::tree::{Node, Predicate, TypeName};
use runlore_query::engine::path::Path;
use runlore_query::query::Filter;

/// The maximum number of values in a condition. More are not worth a statement, and SQLite has
/// limits too.
const MOST_VALUES: usize = 400;

/// The type of the values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Texts,
    Numbers,
}

impl Table {
    /// Returns the columns that have exactly the values of the documents, except in rows that need a
    /// recheck.
    fn columns(self) -> &'static [(&'static str, Shows)] {
        match self {
            Self::Task => &[
                ("task_id", Shows::Texts),
                ("workflow_id", Shows::Texts),
                ("campaign_id", Shows::Texts),
                ("parent_task_id", Shows::Texts),
                ("activity_id", Shows::Texts),
                ("status", Shows::Texts),
                ("started_at", Shows::Numbers),
                ("duration_ns", Shows::Numbers),
            ],
            Self::Workflow => &[("workflow_id", Shows::Texts)],
            Self::Other => &[],
        }
    }

    fn column_of(self, path: &str) -> Option<(&'static str, Shows)> {
        self.columns().iter().copied().find(|(name, _)| *name == path)
    }

    /// Returns the column for a path. `None` if the path has no column.
    pub(super) fn column(self, path: &Path) -> Option<&'static str> {
        self.column_of(path.as_str()).map(|(name, _)| name)
    }
}

/// An SQL condition with its parameter values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<SqlValue>,
    /// Whether it is true for matching documents only.
    pub(super) is_exact: bool,
}

impl Condition {
    /// Translates a filter. `None` if no part of it refers to a column, or if it has too many
    /// values.
    pub(super) fn of(filter: &Filter, table: Table) -> Option<Self> {
        of_node(filter.root(), table).filter(|condition| condition.values.len() <= MOST_VALUES)
    }

    fn exact(sql: impl Into<String>, values: impl Into<Vec<SqlValue>>) -> Self {
        Self { sql: sql.into(), values: values.into(), is_exact: true }
    }

    fn never() -> Self {
        Self::exact("0", [])
    }

    /// Marks the condition as inexact: it may be true for more than the matching rows.
    fn roughly(self) -> Self {
        Self { is_exact: false, ..self }
    }

    fn joined(parts: Vec<Self>, with: &str) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let sql: Vec<String> = parts.iter().map(|part| format!("({})", part.sql)).collect();
        let values = parts.into_iter().flat_map(|part| part.values).collect();
        Self { sql: sql.join(with), values, is_exact }
    }

    /// Negates the condition. `None` if it is not exact, because the matching rows are then
    /// unknown.
    fn negated(self) -> Option<Self> {
        self.is_exact.then(|| Self::exact(format!("({}) IS NOT TRUE", self.sql), self.values))
    }
}

fn of_node(node: &Node, table: Table) -> Option<Condition> {
    match node {
        Node::And(nodes) => {
            let parts: Vec<_> = nodes.iter().filter_map(|node| of_node(node, table)).collect();
            let is_whole = parts.len() == nodes.len();
            match parts.is_empty() {
                true if is_whole => Some(Condition::exact("1", [])),
                true => None,
                false if is_whole => Some(Condition::joined(parts, " AND ")),
                false => Some(Condition::joined(parts, " AND ").roughly()),
            }
        }
        Node::Or(nodes) => any(nodes, table),
        Node::Nor(nodes) => any(nodes, table)?.negated(),
        Node::Field(path, predicate) => {
            let (column, shows) = table.column_of(path.as_str())?;
            of_predicate(column, shows, predicate)
        }
    }
}

fn any(nodes: &[Node], table: Table) -> Option<Condition> {
    // SQLite counts a long chain of operators as nesting depth, which it limits.
    let parts: Option<Vec<_>> =
        nodes.iter().take(MOST_VALUES).map(|node| of_node(node, table)).collect();
    (nodes.len() <= MOST_VALUES).then(|| Some(Condition::joined(parts?, " OR ")))?
}

fn of_predicate(column: &str, shows: Shows, predicate: &Predicate) -> Option<Condition> {
    let there = || Condition::exact(format!("{column} IS NOT NULL"), []);
    match predicate {
        Predicate::Eq(operand) => equal(column, shows, operand),
        Predicate::Ne(operand) => equal(column, shows, operand)?.negated(),
        Predicate::In(operands) => among(column, shows, operands),
        Predicate::Nin(operands) => among(column, shows, operands)?.negated(),
        Predicate::Gt(operand) => ordered(column, shows, ">", operand),
        Predicate::Gte(operand) => ordered(column, shows, ">=", operand),
        Predicate::Lt(operand) => ordered(column, shows, "<", operand),
        Predicate::Lte(operand) => ordered(column, shows, "<=", operand),
        Predicate::Exists(true) => Some(there()),
        Predicate::Exists(false) => Some(Condition::exact(format!("{column} IS NULL"), [])),
        Predicate::Regex(pattern) => Some(match shows {
            Shows::Texts => {
                let written = [pattern.source(), pattern.options()];
                let written = written.map(|text| SqlValue::Text(text.to_owned()));
                Condition::exact(format!("{MATCHES}(?, ?, {column})"), written)
            }
            Shows::Numbers => Condition::never(),
        }),
        Predicate::Not(inner) => all(column, shows, inner)?.negated(),
        Predicate::All(operands) if operands.is_empty() => Some(Condition::never()),
        Predicate::All(operands) => {
            let parts: Option<_> =
                operands.iter().map(|operand| equal(column, shows, operand)).collect();
            Some(Condition::joined(parts?, " AND "))
        }
        // These test arrays, and no column contains an array.
        Predicate::AllMatch(_) | Predicate::ElemMatch(_) | Predicate::Size(_) => {
            Some(Condition::never())
        }
        Predicate::Type(types) => Some(match shows {
            Shows::Texts if types.contains(&TypeName::String) => there(),
            Shows::Numbers if types.contains(&TypeName::Number) => there(),
            Shows::Texts => Condition::never(),
            Shows::Numbers => there().roughly(),
        }),
    }
}

/// Combines several predicates with AND, as `$not` negates them together.
fn all(column: &str, shows: Shows, predicates: &[Predicate]) -> Option<Condition> {
    let parts: Option<_> =
        predicates.iter().map(|predicate| of_predicate(column, shows, predicate)).collect();
    Some(Condition::joined(parts?, " AND "))
}

/// Converts a value to SQL for a column of this type. `Err` if no such column can contain the
/// value, `None` if SQL cannot represent it exactly.
fn value_in(shows: Shows, operand: &Value) -> Option<Result<SqlValue, ()>> {
    match (operand, shows) {
        (Value::String(text), Shows::Texts) => Some(Ok(SqlValue::Text(text.clone()))),
        (Value::Number(number), Shows::Numbers) => match number.as_i64() {
            Some(whole) => Some(Ok(SqlValue::Integer(whole))),
            // SQLite would have to round larger whole numbers.
            None if number.is_f64() => Some(Ok(SqlValue::Real(number.as_f64()?))),
            None => None,
        },
        (Value::Null, _) => Some(Ok(SqlValue::Null)),
        _ => Some(Err(())),
    }
}

fn equal(column: &str, shows: Shows, operand: &Value) -> Option<Condition> {
    Some(match value_in(shows, operand)? {
        Err(()) => Condition::never(),
        Ok(SqlValue::Null) => Condition::exact(format!("{column} IS NULL"), []),
        Ok(value) => Condition::exact(format!("{column} = ?"), [value]),
    })
}

fn among(column: &str, shows: Shows, operands: &[Value]) -> Option<Condition> {
    let mut values = Vec::new();
    let mut parts = Vec::new();
    for operand in operands {
        match value_in(shows, operand)? {
            Err(()) => {}
            Ok(SqlValue::Null) => parts.push(Condition::exact(format!("{column} IS NULL"), [])),
            Ok(value) => values.push(value),
        }
    }
    // One test for null is enough.
    parts.truncate(1);
    let places = vec!["?"; values.len()].join(", ");
    parts.push(match values.is_empty() {
        true => Condition::never(),
        false => Condition::exact(format!("{column} IN ({places})"), values),
    });
    Some(Condition::joined(parts, " OR "))
}

fn ordered(column: &str, shows: Shows, order: &str, operand: &Value) -> Option<Condition> {
    Some(match value_in(shows, operand)? {
        Err(()) => Condition::never(),
        // Null equals a missing value, so `<=` and `>=` match it, and `<` and `>` do not.
        Ok(SqlValue::Null) if order.ends_with('=') => {
            Condition::exact(format!("{column} IS NULL"), [])
        }
        Ok(SqlValue::Null) => Condition::never(),
        Ok(value) => Condition::exact(format!("{column} {order} ?"), [value]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(filter: &str) -> Option<(String, bool)> {
        let condition = Condition::of(&Filter::parse(filter).unwrap(), Table::Task)?;
        Some((condition.sql, condition.is_exact))
    }

    #[test]
    fn what_columns_can_answer_is_asked_of_them() {
        let cases = [
            (r#"{"task_id": "t"}"#, "task_id = ?", true),
            (
                r#"{"activity_id": "a", "status": {"$in": ["x", null, 5]}}"#,
                "(activity_id = ?) AND ((status IS NULL) OR (status IN (?)))",
                true,
            ),
            (r#"{"status": {"$ne": "ERROR"}}"#, "(status = ?) IS NOT TRUE", true),
            (
                r#"{"started_at": {"$gte": 5, "$lt": 6.5}}"#,
                "(started_at >= ?) AND (started_at < ?)",
                true,
            ),
            (r#"{"status": "ERROR", "used.lr": 1}"#, "(status = ?)", false),
            (r#"{"activity_id": {"$regex": "^a"}}"#, "runlore_matches(?, ?, activity_id)", true),
            (r#"{"task_id": 5}"#, "0", true),
            (r#"{}"#, "1", true),
        ];
        for (filter, expected, is_exact) in cases {
            assert_eq!(sql(filter), Some((expected.to_owned(), is_exact)), "{filter}");
        }
    }

    #[test]
    fn what_they_cannot_answer_is_not_asked() {
        let cases = [
            r#"{"used.lr": 1}"#,
            r#"{"$or": [{"status": "ERROR"}, {"used.lr": 1}]}"#,
            r#"{"started_at": 18446744073709551615}"#,
        ];
        for filter in cases {
            assert_eq!(sql(filter), None, "{filter}");
        }
    }
}
