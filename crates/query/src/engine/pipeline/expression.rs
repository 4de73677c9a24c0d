//! Expressions over a document: field paths, literals, and objects and arrays of expressions.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::engine::operators::shortened;
use crate::engine::path::Path;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// An expression of `$group` or `$project`.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// `"$used.lr"`
    Field(Path),
    /// `"$$ROOT"`, the whole document.
    Root,
    /// A constant value.
    Literal(Value),
    /// An object whose values are expressions. Missing values are left out.
    Object(Vec<(String, Expression)>),
    /// An array of expressions. Missing values become null.
    Array(Vec<Expression>),
}

impl Expression {
    pub(crate) fn from_syntax(json: Json) -> Result<Self> {
        match json {
            Json::Scalar(Value::String(text)) if text.starts_with('$') => Self::variable(&text),
            Json::Scalar(value) => Ok(Expression::Literal(value)),
            Json::Array(items) => Ok(Expression::Array(
                items.into_iter().map(Self::from_syntax).collect::<Result<_>>()?,
            )),
            object if object.has_operator() => Self::operator(object),
            Json::Object(entries) => {
                let field = |(name, value): (String, Json)| {
                    check_name(&name)?;
                    Ok((name, Self::from_syntax(value)?))
                };
                Ok(Expression::Object(entries.into_iter().map(field).collect::<Result<_>>()?))
            }
        }
    }

    fn variable(text: &str) -> Result<Self> {
        let path = &text[1..];
        let wrong = |sentence| Error::new(ErrorKind::Query, sentence);
        let shown = shortened(text);
        match path.strip_prefix('$') {
            Some("ROOT" | "CURRENT") => Ok(Expression::Root),
            Some(variable) => match variable.split_once('.') {
                Some(("ROOT" | "CURRENT", path)) => Self::variable(&format!("${path}")),
                _ => Err(wrong(format!("there is no variable `{shown}`; valid is `$$ROOT`"))),
            },
            None => {
                Self::check_path(path)?;
                Ok(Expression::Field(Path::checked(path)?))
            }
        }
    }

    /// Returns an error if `path`, given without its dollar, is not a valid field path.
    pub(super) fn check_path(path: &str) -> Result<()> {
        if Path::is_plain(path) {
            return Ok(());
        }
        let shown = shortened(path);
        let sentence = format!("`${shown}` is no path to a field, such as `$used.lr`");
        Err(Error::new(ErrorKind::Query, sentence))
    }

    fn operator(object: Json) -> Result<Self> {
        let Json::Object(mut entries) = object else { unreachable!("it has an operator") };
        let (name, operand) = entries.swap_remove(0);
        let sentence = match name.as_str() {
            "$literal" if entries.is_empty() => {
                return Ok(Expression::Literal(operand.into_value()));
            }
            "$literal" => "`$literal` must be alone in its object".to_owned(),
            other => format!(
                "`{}` cannot be computed; valid are paths such as \"$used.lr\", values, objects and arrays of them, and `$literal`",
                shortened(other)
            ),
        };
        Err(Error::new(ErrorKind::Query, sentence))
    }

    /// Evaluates the expression on a document. `None` if the field is missing.
    pub(crate) fn evaluate(&self, document: &Value) -> Option<Value> {
        match self {
            Expression::Field(path) => path.gather(document),
            Expression::Root => Some(document.clone()),
            Expression::Literal(value) => Some(value.clone()),
            Expression::Object(fields) => {
                let fields = fields.iter();
                let object = fields.filter_map(|(name, expression)| {
                    Some((name.clone(), expression.evaluate(document)?))
                });
                Some(Value::Object(object.collect()))
            }
            Expression::Array(items) => {
                Some(items.iter().map(|item| item.evaluate(document).unwrap_or_default()).collect())
            }
        }
    }
}

/// Returns an error unless `name` is a plain name for a computed field.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.starts_with('$') || name.contains('.') {
        let sentence = format!(
            "`{}` is no name for a field: it must not be empty, begin with `$` or have a dot",
            shortened(name)
        );
        return Err(Error::new(ErrorKind::Query, sentence));
    }
    Ok(())
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Expression::Field(path) => serializer.collect_str(&format_args!("${path}")),
            Expression::Root => serializer.serialize_str("$$ROOT"),
            Expression::Literal(value) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("$literal", value)?;
                map.end()
            }
            Expression::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, field)| (name, field)))
            }
            Expression::Array(items) => serializer.collect_seq(items),
        }
    }
}
