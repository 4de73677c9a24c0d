//! A JSON parser that keeps the order of keys and reports the position of an error.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::operators::shortened;
use runlore_core::error::{Error, ErrorKind, Result};

/// The maximum nesting depth of a query.
pub(super) const MAX_DEPTH: usize = 100;

/// JSON whose objects keep the order of their keys, because a sort depends on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Scalar(Value),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses `text`. `what` names it in errors: a filter, a pipeline.
    pub(super) fn parse(text: &str, what: &str) -> Result<Json> {
        let json = serde_json::from_str(text).map_err(|error| {
            let is_json = error.is_data();
            let sentence =
                format!("the {what} {}", if is_json { "cannot be used" } else { "is not JSON" });
            Error::new(ErrorKind::Query, sentence).with_source(SyntaxError::new(text, &error))
        })?;
        check_depth(&json, MAX_DEPTH, what)?;
        Ok(json)
    }

    pub(super) fn from_value(value: &Value, what: &str) -> Result<Json> {
        check_depth_of_value(value, MAX_DEPTH, what)?;
        Ok(copied(value))
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Json::Scalar(value) => value,
            Json::Array(items) => items.into_iter().map(Json::into_value).collect(),
            Json::Object(entries) => Value::Object(
                entries.into_iter().map(|(key, value)| (key, value.into_value())).collect(),
            ),
        }
    }

    /// Describes the value in errors about an unexpected type.
    pub(super) fn kind(&self) -> String {
        match self {
            Json::Scalar(Value::String(_)) => "a string".to_owned(),
            Json::Scalar(value) => value.to_string(),
            Json::Array(_) => "an array".to_owned(),
            Json::Object(_) => "an object".to_owned(),
        }
    }

    /// Returns whether this is an object whose first key is an operator.
    pub(super) fn has_operator(&self) -> bool {
        let Json::Object(entries) = self else { return false };
        entries.first().is_some_and(|(key, _)| key.starts_with('$'))
    }

    /// Returns the value if it is a non-negative whole number. `2.0` counts as whole.
    pub(super) fn as_count(&self) -> Option<u64> {
        let Json::Scalar(Value::Number(number)) = self else { return None };
        number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            // Above 2⁵³ a float cannot represent every whole number, and nothing has as many items.
            let is_count = float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float);
            is_count.then_some(float as u64)
        })
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Json::Scalar(value) => value.as_str(),
            _ => None,
        }
    }
}

fn copied(value: &Value) -> Json {
    match value {
        Value::Array(items) => Json::Array(items.iter().map(copied).collect()),
        Value::Object(map) => {
            Json::Object(map.iter().map(|(key, value)| (key.clone(), copied(value))).collect())
        }
        scalar => Json::Scalar(scalar.clone()),
    }
}

fn too_deep(what: &str) -> Error {
    let sentence = format!("the {what} is nested more than {MAX_DEPTH} levels deep");
    Error::new(ErrorKind::Query, sentence)
}

fn check_depth(json: &Json, left: usize, what: &str) -> Result<()> {
    let left = left.checked_sub(1).ok_or_else(|| too_deep(what))?;
    match json {
        Json::Scalar(_) => Ok(()),
        Json::Array(items) => items.iter().try_for_each(|item| check_depth(item, left, what)),
        Json::Object(entries) => {
            entries.iter().try_for_each(|(_, value)| check_depth(value, left, what))
        }
    }
}

fn check_depth_of_value(value: &Value, left: usize, what: &str) -> Result<()> {
    let left = left.checked_sub(1).ok_or_else(|| too_deep(what))?;
    match value {
        Value::Array(items) => {
            items.iter().try_for_each(|item| check_depth_of_value(item, left, what))
        }
        Value::Object(map) => {
            map.values().try_for_each(|value| check_depth_of_value(value, left, what))
        }
        _ => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct AsWritten;

        impl<'de> Visitor<'de> for AsWritten {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> std::result::Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut access: A,
            ) -> std::result::Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(item);
                }
                Ok(Json::Array(items))
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut access: A,
            ) -> std::result::Result<Json, A::Error> {
                let mut entries: Vec<(String, Json)> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(key) = access.next_key::<String>()? {
                    if !seen.insert(key.clone()) {
                        return Err(de::Error::custom(format_args!(
                            "the key `{}` is there twice",
                            shortened(&key)
                        )));
                    }
                    entries.push((key, access.next_value()?));
                }
                Ok(Json::Object(entries))
            }
        }

        deserializer.deserialize_any(AsWritten)
    }
}

/// The position at which a text stops being valid JSON.
///
/// It is the [source](Error::get_ref) of an [`Error`] that parsing returned.
///
/// ```
/// use runlore::query::{Filter, SyntaxError};
///
/// let error = Filter::parse(r#"{"status": ERROR}"#).unwrap_err();
/// assert_eq!(error.to_string(), "the filter is not JSON: a value is expected at line 1, column 12");
///
/// let place = error.get_ref().unwrap().downcast_ref::<SyntaxError>().unwrap();
/// assert_eq!(place.offset(), 11);
/// assert_eq!(place.caret(), "\
/// {\"status\": ERROR}
///            ^");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    what: String,
    line: usize,
    column: usize,
    offset: usize,
    text: String,
}

impl SyntaxError {
    fn new(text: &str, error: &serde_json::Error) -> Self {
        let start = match error.line() {
            0 | 1 => 0,
            line => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1),
        };
        let line = text[start..].split('\n').next().unwrap_or_default();
        // If the text ends too early, point behind its last character.
        let behind = usize::from(!error.is_eof());
        let mut column = error.column().saturating_sub(behind).min(line.len());
        while !line.is_char_boundary(column) {
            column -= 1;
        }
        let what = match error.to_string().split(" at line ").next().unwrap_or_default() {
            _ if error.is_eof() => "it ends too early".to_owned(),
            "expected value" => "a value is expected".to_owned(),
            "expected ident" => "true, false or null is expected".to_owned(),
            "key must be a string" => "a key in double quotes is expected".to_owned(),
            "trailing characters" => "there is more after its end".to_owned(),
            "recursion limit exceeded" => "it is nested too deep".to_owned(),
            other => other.to_owned(),
        };
        Self {
            what,
            line: error.line().max(1),
            column: line[..column].chars().count() + 1,
            offset: start + column,
            text: line.trim_end_matches('\r').to_owned(),
        }
    }

    /// Returns the line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the character within the line, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns the byte offset within the whole text, counted from 0.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the line, or the part of it around the error, with a caret below the position.
    pub fn caret(&self) -> String {
        const AROUND: usize = 60;
        let skipped = (self.column - 1).saturating_sub(AROUND);
        let part = self.text.chars().skip(skipped).take(2 * AROUND);
        // The width of a tab depends on the terminal, so show a space instead.
        let part: String =
            part.map(|character| if character.is_control() { ' ' } else { character }).collect();
        format!("{}\n{:>width$}", part.trim_end(), '^', width = self.column - skipped)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.what, self.line, self.column)
    }
}

impl std::error::Error for SyntaxError {}
