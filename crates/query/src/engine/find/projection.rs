//! Projections: the fields of a document to keep, or the fields to leave out.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::engine::operators::shortened;
use crate::engine::path::Path;
use crate::engine::pipeline::Expression;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// The fields to keep, or the fields to leave out.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Whether fields that are not named are left out.
    pub includes: bool,
    pub fields: Fields,
}

/// Field names with their treatment, in the order they were written.
pub(crate) type Fields = Vec<(String, Field)>;

/// The treatment of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    Include,
    Exclude,
    Compute(Expression),
    /// The treatment of the fields inside this one.
    Inside(Fields),
}

/// The context of a projection, which decides what it may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Find,
    Stage,
}

fn wrong(sentence: String) -> Error {
    Error::new(ErrorKind::Query, sentence)
}

impl Projection {
    /// Parses the projection of a find. `None` if it is empty.
    pub(super) fn of_find(json: Json) -> Result<Option<Self>> {
        match json {
            Json::Object(entries) if entries.is_empty() => Ok(None),
            json => Self::read(json, Context::Find).map(Some),
        }
    }

    /// Parses the projection of a `$project` stage, which may also compute fields.
    pub(crate) fn of_stage(json: Json) -> Result<Self> {
        match json {
            Json::Object(entries) if entries.is_empty() => {
                Err(wrong("`$project` needs at least one field".to_owned()))
            }
            json => Self::read(json, Context::Stage),
        }
    }

    /// Makes a projection that keeps these paths. `None` if there are no paths. A path inside a
    /// field that is kept as a whole has no effect.
    pub(crate) fn of_paths<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Option<Self> {
        let mut fields = Fields::new();
        for path in paths {
            keep(&mut fields, Path::new(path.as_ref()).keys());
        }
        (!fields.is_empty()).then_some(Self { includes: true, fields })
    }

    /// Returns an error if a name is not valid for a field.
    pub(crate) fn check(&self) -> Result<()> {
        check_names(&self.fields)
    }

    fn read(json: Json, context: Context) -> Result<Self> {
        let Json::Object(entries) = json else {
            let kind = json.kind();
            return Err(wrong(format!(
                "a projection must be an object such as {{\"task_id\": 1}}, not {kind}"
            )));
        };
        let mut fields = Fields::new();
        for (name, value) in entries {
            read_field(&mut fields, &name, value, context)?;
        }
        let mut kinds = (false, false);
        // `_id` decides between including and excluding only if it is the only field.
        let deciding = fields.iter().filter(|(name, _)| name != "_id" || fields.len() == 1);
        deciding.for_each(|(_, field)| look(field, &mut kinds));
        let includes = match kinds {
            (true, true) => {
                let sentence =
                    "a projection either includes fields or excludes them, apart from `_id`";
                return Err(wrong(sentence.to_owned()));
            }
            (includes, _) => includes,
        };
        Ok(Self { includes, fields })
    }

    pub(crate) fn apply(&self, document: Value) -> Value {
        let Value::Object(object) = document else { return document };
        if !self.includes {
            return Value::Object(without(object, &self.fields));
        }
        let has_id = self.fields.iter().any(|(name, _)| name == "_id");
        let id = if has_id { None } else { object.get("_id").cloned() };
        let mut kept = match computes(&self.fields) {
            true => {
                let document = Value::Object(object);
                only(&document, &document, &self.fields)
            }
            false => taken(object, &self.fields),
        };
        kept.extend(id.map(|id| ("_id".to_owned(), id)));
        Value::Object(kept)
    }
}

fn check_names(fields: &Fields) -> Result<()> {
    for (name, field) in fields {
        check_path(name)?;
        if let Field::Inside(inside) = field {
            check_names(inside)?;
        }
    }
    Ok(())
}

fn check_path(path: &str) -> Result<()> {
    match Path::is_plain(path) {
        true => Ok(()),
        false => Err(wrong(format!("`{}` is no path for a projection", shortened(path)))),
    }
}

/// Records in `kinds` whether a field is included or computed, and whether one is excluded.
fn look(field: &Field, kinds: &mut (bool, bool)) {
    match field {
        Field::Include | Field::Compute(_) => kinds.0 = true,
        Field::Exclude => kinds.1 = true,
        Field::Inside(fields) => fields.iter().for_each(|(_, field)| look(field, kinds)),
    }
}

fn keep<'a>(fields: &mut Fields, mut keys: impl Iterator<Item = &'a str>) {
    let mut here = fields;
    let Some(mut key) = keys.next() else { return };
    loop {
        let next = keys.next();
        let at = here.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            here.push((key.to_owned(), Field::Inside(Vec::new())));
            here.len() - 1
        });
        let field = &mut here[at].1;
        match (field, next) {
            (field, None) => return *field = Field::Include,
            (Field::Inside(inside), Some(next)) => (here, key) = (inside, next),
            _ => return,
        }
    }
}

fn read_field(fields: &mut Fields, name: &str, value: Json, context: Context) -> Result<()> {
    let shown = shortened(name);
    check_path(name)?;
    let field = match value {
        Json::Scalar(Value::Bool(is)) => included(is),
        Json::Scalar(Value::Number(number)) => included(number.as_f64() != Some(0.0)),
        Json::Object(entries) if entries.is_empty() => {
            return Err(wrong(format!("an empty object cannot be the projection of `{shown}`")));
        }
        object @ Json::Object(_) if !object.has_operator() => {
            let Json::Object(entries) = object else { unreachable!("it is an object") };
            let mut inside = Fields::new();
            for (name, value) in entries {
                read_field(&mut inside, &name, value, context)?;
            }
            Field::Inside(inside)
        }
        expression if context == Context::Stage => {
            Field::Compute(Expression::from_syntax(expression)?)
        }
        _ => {
            let sentence =
                format!("`{shown}` in a projection must be 1 or 0; `$project` computes fields");
            return Err(wrong(sentence));
        }
    };
    let path = Path::checked(name)?;
    insert(fields, path.keys(), field).map_err(|()| {
        wrong(format!(
            "`{shown}` in a projection is named twice, or lies inside another field of it"
        ))
    })
}

fn included(is: bool) -> Field {
    if is { Field::Include } else { Field::Exclude }
}

/// Inserts a field at its path. Fails if the path is already taken.
fn insert<'a>(
    fields: &mut Fields,
    mut keys: impl ExactSizeIterator<Item = &'a str>,
    field: Field,
) -> Result<(), ()> {
    let Some(key) = keys.next() else { return Err(()) };
    let there = fields.iter_mut().find(|(name, _)| name == key).map(|(_, field)| field);
    match (there, keys.len(), field) {
        (None, 0, field) => fields.push((key.to_owned(), field)),
        (None, _, field) => {
            let mut inside = Fields::new();
            insert(&mut inside, keys, field)?;
            fields.push((key.to_owned(), Field::Inside(inside)));
        }
        (Some(Field::Inside(inside)), 0, Field::Inside(more)) => {
            for (name, field) in more {
                insert(inside, std::iter::once(name.as_str()), field)?;
            }
        }
        (Some(Field::Inside(inside)), 1.., field) => insert(inside, keys, field)?,
        _ => return Err(()),
    }
    Ok(())
}

fn without(mut object: Map<String, Value>, fields: &Fields) -> Map<String, Value> {
    for (name, field) in fields {
        match field {
            Field::Exclude => _ = object.remove(name),
            Field::Inside(inside) => {
                if let Some(value) = object.get_mut(name) {
                    leave_out(value, inside);
                }
            }
            Field::Include | Field::Compute(_) => {}
        }
    }
    object
}

fn leave_out(value: &mut Value, fields: &Fields) {
    match value {
        Value::Object(object) => *object = without(std::mem::take(object), fields),
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out(item, fields)),
        _ => {}
    }
}

/// Copies the named fields of `value`, an object. Expressions are evaluated on `root`, the whole
/// document.
fn only(value: &Value, root: &Value, fields: &Fields) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, field) in fields {
        let there = value.get(name);
        let value = match field {
            Field::Include => there.cloned(),
            Field::Exclude => None,
            Field::Compute(expression) => expression.evaluate(root),
            Field::Inside(inside) => only_inside(there, root, inside),
        };
        kept.extend(value.map(|value| (name.clone(), value)));
    }
    kept
}

fn only_inside(value: Option<&Value>, root: &Value, fields: &Fields) -> Option<Value> {
    match value {
        Some(object @ Value::Object(_)) => Some(Value::Object(only(object, root, fields))),
        Some(Value::Array(items)) => {
            Some(items.iter().filter_map(|item| only_inside(Some(item), root, fields)).collect())
        }
        // There is no field to keep here, but a field may be computed.
        _ if computes(fields) => Some(Value::Object(only(&Value::Null, root, fields))),
        _ => None,
    }
}

/// Like `only`, but for fields without expressions: moves the values instead of copying them.
fn taken(mut object: Map<String, Value>, fields: &Fields) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, field) in fields {
        let value = object.get_mut(name).map(Value::take);
        let value = match field {
            Field::Include => value,
            Field::Inside(inside) => value.and_then(|value| taken_inside(value, inside)),
            Field::Exclude | Field::Compute(_) => None,
        };
        kept.extend(value.map(|value| (name.clone(), value)));
    }
    kept
}

fn taken_inside(value: Value, fields: &Fields) -> Option<Value> {
    match value {
        Value::Object(object) => Some(Value::Object(taken(object, fields))),
        Value::Array(items) => {
            Some(items.into_iter().filter_map(|item| taken_inside(item, fields)).collect())
        }
        _ => None,
    }
}

fn computes(fields: &Fields) -> bool {
    fields.iter().any(|(_, field)| match field {
        Field::Compute(_) => true,
        Field::Inside(inside) => computes(inside),
        Field::Include | Field::Exclude => false,
    })
}

impl Serialize for Projection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&self.fields, serializer)
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Include => serializer.serialize_u8(1),
            Field::Exclude => serializer.serialize_u8(0),
            Field::Compute(expression) => expression.serialize(serializer),
            Field::Inside(fields) => write(fields, serializer),
        }
    }
}

fn write<S: Serializer>(fields: &Fields, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    for (name, field) in fields {
        map.serialize_entry(name, field)?;
    }
    map.end()
}
