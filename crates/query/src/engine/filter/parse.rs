//! Parses filter documents into a tree of conditions.

use serde_json::Value;

use super::tree::{ElemMatch, Node, Predicate, TypeName};
use crate::engine::operators;
use crate::engine::operators::{shortened, unknown};
use crate::engine::path::Path;
use crate::engine::regex::Pattern;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

fn wrong(sentence: String) -> Error {
    Error::new(ErrorKind::Query, sentence)
}

/// Parses a whole filter document. `what` names it in errors.
pub(crate) fn document(json: Json, what: &str) -> Result<Node> {
    let Json::Object(entries) = json else {
        return Err(wrong(format!(
            "{what} must be an object such as {{\"status\": \"ERROR\"}}, not {}",
            json.kind()
        )));
    };
    let nodes: Vec<Node> =
        entries.into_iter().map(|(key, value)| entry(&key, value)).collect::<Result<_>>()?;
    Ok(Node::all(nodes))
}

fn entry(key: &str, value: Json) -> Result<Node> {
    match key {
        "$and" => Ok(Node::all(documents("$and", value)?)),
        "$or" => Ok(Node::Or(documents("$or", value)?)),
        "$nor" => Ok(Node::Nor(documents("$nor", value)?)),
        operator if operators::OF_FIELDS.contains(&operator) => Err(wrong(format!(
            "`{operator}` stands inside a field, as in {{\"field\": {{\"{operator}\": …}}}}"
        ))),
        operator if operator.starts_with('$') => {
            Err(unknown("operator at the top of a filter", operator, operators::OF_DOCUMENTS))
        }
        _ => field(key, value),
    }
}

fn documents(operator: &str, value: Json) -> Result<Vec<Node>> {
    match value {
        Json::Array(items) if items.is_empty() => {
            Err(wrong(format!("`{operator}` needs at least one filter in its array")))
        }
        Json::Array(items) => {
            let what = format!("each item of `{operator}`");
            items.into_iter().map(|item| document(item, &what)).collect()
        }
        other => {
            Err(wrong(format!("`{operator}` takes an array of filters, not {}", other.kind())))
        }
    }
}

fn field(name: &str, value: Json) -> Result<Node> {
    let path = Path::checked(name)?;
    if !value.has_operator() {
        return Ok(Node::Field(path, Predicate::Eq(value.into_value())));
    }
    let Json::Object(entries) = value else { unreachable!("it has an operator") };
    let predicates = predicates(entries)?;
    Ok(Node::all(predicates.into_iter().map(|predicate| Node::Field(path.clone(), predicate))))
}

/// Parses the operators of one field, in their order. Returns at least one predicate.
fn predicates(entries: Vec<(String, Json)>) -> Result<Vec<Predicate>> {
    let has_regex = entries.iter().any(|(key, _)| key == "$regex");
    let mut options = None;
    if let Some((_, value)) = entries.iter().find(|(key, _)| key == "$options") {
        let text = value
            .as_str()
            .ok_or_else(|| wrong(format!("`$options` takes a string, not {}", value.kind())))?;
        if !has_regex {
            return Err(wrong("`$options` goes with a `$regex`, and there is none".to_owned()));
        }
        options = Some(text.to_owned());
    }
    let options = options.unwrap_or_default();
    entries
        .into_iter()
        .filter(|(key, _)| key != "$options")
        .map(|(operator, operand)| predicate(&operator, operand, &options))
        .collect()
}

fn predicate(operator: &str, operand: Json, options: &str) -> Result<Predicate> {
    let expected = |expected: &str, operand: &Json| {
        wrong(format!("`{operator}` takes {expected}, not {}", operand.kind()))
    };
    Ok(match operator {
        "$eq" => Predicate::Eq(operand.into_value()),
        "$ne" => Predicate::Ne(operand.into_value()),
        "$gt" => Predicate::Gt(operand.into_value()),
        "$gte" => Predicate::Gte(operand.into_value()),
        "$lt" => Predicate::Lt(operand.into_value()),
        "$lte" => Predicate::Lte(operand.into_value()),
        "$in" => Predicate::In(values(operator, operand)?),
        "$nin" => Predicate::Nin(values(operator, operand)?),
        "$exists" => Predicate::Exists(is_truthy(&operand)),
        "$regex" => {
            let source = operand.as_str().ok_or_else(|| expected("a string", &operand))?;
            Predicate::Regex(Pattern::new(source, options)?)
        }
        "$not" => match operand {
            Json::Object(entries) if !entries.is_empty() => Predicate::Not(predicates(entries)?),
            Json::Object(_) => return Err(wrong("`$not` needs an operator inside".to_owned())),
            other => return Err(expected("an object with an operator", &other)),
        },
        "$all" => all(operand)?,
        "$elemMatch" => Predicate::ElemMatch(elem_match(operand)?),
        "$size" => match operand.as_count() {
            Some(size) => Predicate::Size(size),
            None => return Err(expected("a whole number that is not negative", &operand)),
        },
        "$type" => Predicate::Type(types(operand)?),
        operator if operators::OF_DOCUMENTS.contains(&operator) => {
            return Err(wrong(format!(
                "`{operator}` combines whole filters, as in {{\"{operator}\": [{{…}}, {{…}}]}}, and cannot stand inside a field"
            )));
        }
        operator if operator.starts_with('$') => {
            return Err(unknown("operator of a filter", operator, operators::OF_FIELDS));
        }
        key => {
            return Err(wrong(format!(
                "`{}` stands beside operators: an object holds either operators or the fields of a value",
                shortened(key)
            )));
        }
    })
}

fn values(operator: &str, operand: Json) -> Result<Vec<Value>> {
    let Json::Array(items) = operand else {
        return Err(wrong(format!("`{operator}` takes an array, not {}", operand.kind())));
    };
    items
        .into_iter()
        .map(|item| match item.has_operator() {
            true => Err(wrong(format!("`{operator}` takes values, not operators"))),
            false => Ok(item.into_value()),
        })
        .collect()
}

fn all(operand: Json) -> Result<Predicate> {
    let is_match = |item: &Json| matches!(item, Json::Object(entries) if entries.len() == 1 && entries[0].0 == "$elemMatch");
    match operand {
        Json::Array(items) if items.first().is_some_and(is_match) => {
            let mut all = Vec::with_capacity(items.len());
            for item in items {
                let Json::Object(mut entries) = item else {
                    return Err(mixed_all());
                };
                match entries.pop() {
                    Some((key, inner)) if key == "$elemMatch" && entries.is_empty() => {
                        all.push(elem_match(inner)?);
                    }
                    _ => return Err(mixed_all()),
                }
            }
            Ok(Predicate::AllMatch(all))
        }
        operand => Ok(Predicate::All(values("$all", operand)?)),
    }
}

fn mixed_all() -> Error {
    wrong("`$all` takes either values or an `$elemMatch` in each of its items".to_owned())
}

fn elem_match(operand: Json) -> Result<ElemMatch> {
    match operand {
        Json::Object(entries)
            if entries.first().is_some_and(|(key, _)| {
                key.starts_with('$') && !operators::OF_DOCUMENTS.contains(&key.as_str())
            }) =>
        {
            Ok(ElemMatch::Value(predicates(entries)?))
        }
        object @ Json::Object(_) => {
            Ok(ElemMatch::Document(Box::new(document(object, "`$elemMatch`")?)))
        }
        other => {
            let sentence =
                format!("`$elemMatch` takes a filter or operators, not {}", other.kind());
            Err(wrong(sentence))
        }
    }
}

fn types(operand: Json) -> Result<Vec<TypeName>> {
    match operand {
        Json::Array(items) if items.is_empty() => {
            Err(wrong("`$type` needs at least one type in its array".to_owned()))
        }
        Json::Array(items) => items.iter().map(type_name).collect(),
        one => Ok(vec![type_name(&one)?]),
    }
}

fn type_name(json: &Json) -> Result<TypeName> {
    match json {
        Json::Scalar(Value::String(name)) => {
            TypeName::by_name(name).ok_or_else(|| unknown("type", name, &TypeName::names()))
        }
        Json::Scalar(Value::Number(number)) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0);
            whole
                .and_then(|code| TypeName::by_code(code as i64))
                .ok_or_else(|| wrong(format!("`$type` knows no type with the number {number}")))
        }
        other => Err(wrong(format!(
            "`$type` takes the name of a type or its number, not {}",
            other.kind()
        ))),
    }
}

/// Converts the operand of `$exists` as MongoDB does: all but false, zero and null are true.
fn is_truthy(json: &Json) -> bool {
    match json {
        Json::Scalar(Value::Bool(is)) => *is,
        Json::Scalar(Value::Number(number)) => number.as_f64() != Some(0.0),
        Json::Scalar(Value::Null) => false,
        _ => true,
    }
}
