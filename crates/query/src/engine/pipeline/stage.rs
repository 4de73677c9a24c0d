//! The stages of a pipeline, and how each is parsed and serialized.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::accumulator::Accumulator;
use super::expression::{Expression, check_name};
use crate::engine::filter::{Filter, parse_document};
use crate::engine::find::{Projection, Sort};
use crate::engine::operators::{STAGES, unknown};
use crate::engine::path::Path;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    Match(Filter),
    Group(Group),
    Sort(Sort),
    Limit(u64),
    Skip(u64),
    Project(Projection),
    Count(String),
    Unwind(Unwind),
}

/// `$group`: merges all documents with the same value of `id` into one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub id: Expression,
    pub fields: Vec<(String, Accumulator)>,
}

/// `$unwind`: replaces a document by one document per item of an array in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Unwind {
    pub(crate) path: Path,
    /// The field that receives the index of the item.
    pub index: Option<Path>,
    /// Whether to keep documents whose array is missing, null or empty.
    pub(crate) keeps_empty: bool,
}

fn wrong(sentence: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Query, sentence)
}

impl Stage {
    pub(super) fn from_syntax(json: Json) -> Result<Self> {
        let (name, value) = match json {
            Json::Object(mut entries) if entries.len() == 1 => entries.remove(0),
            _ => {
                let sentence = "each stage of a pipeline must be an object with one key, such as {\"$match\": {…}}";
                return Err(wrong(sentence));
            }
        };
        Ok(match name.as_str() {
            "$match" => Stage::Match(Filter::from_root(parse_document(value, "`$match`")?)),
            "$group" => Stage::Group(Group::from_syntax(value)?),
            "$sort" => match Sort::from_syntax(value)? {
                sort if sort.is_empty() => return Err(wrong("`$sort` needs at least one field")),
                sort => Stage::Sort(sort),
            },
            "$limit" => match value.as_count() {
                None | Some(0) => return Err(wrong("`$limit` must be a whole number above 0")),
                Some(limit) => Stage::Limit(limit),
            },
            "$skip" => Stage::Skip(
                value
                    .as_count()
                    .ok_or_else(|| wrong("`$skip` must be a whole number that is not negative"))?,
            ),
            "$project" => Stage::Project(Projection::of_stage(value)?),
            "$count" => {
                let name = value.as_str().ok_or_else(|| {
                    wrong("`$count` takes the name of the field that holds the number")
                })?;
                check_name(name)?;
                Stage::Count(name.to_owned())
            }
            "$unwind" => Stage::Unwind(Unwind::from_syntax(value)?),
            other => return Err(unknown("stage", other, STAGES)),
        })
    }
}

impl Group {
    fn from_syntax(json: Json) -> Result<Self> {
        let Json::Object(entries) = json else {
            return Err(wrong(format!(
                "`$group` takes an object such as {{\"_id\": \"$activity_id\"}}, not {}",
                json.kind()
            )));
        };
        let mut id = None;
        let mut fields = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            if name == "_id" {
                id = Some(Expression::from_syntax(value)?);
                continue;
            }
            check_name(&name)?;
            let accumulator = Accumulator::from_syntax(&name, value)?;
            fields.push((name, accumulator));
        }
        let id = id.ok_or_else(|| {
            wrong("`$group` needs an `_id`, which says what a group has in common; null makes one of all")
        })?;
        Ok(Self { id, fields })
    }
}

impl Unwind {
    fn from_syntax(json: Json) -> Result<Self> {
        let mut path = None;
        let mut unwind = Unwind { path: Path::new(""), index: None, keeps_empty: false };
        match json {
            Json::Object(entries) => {
                for (name, value) in entries {
                    match name.as_str() {
                        "path" => path = Some(value),
                        "includeArrayIndex" => {
                            let name = value.as_str().filter(|name| Path::is_plain(name)).ok_or_else(|| {
                                wrong("`includeArrayIndex` of `$unwind` takes the name of a field")
                            })?;
                            unwind.index = Some(Path::checked(name)?);
                        }
                        "preserveNullAndEmptyArrays" => {
                            let Json::Scalar(Value::Bool(keeps)) = value else {
                                return Err(wrong(
                                    "`preserveNullAndEmptyArrays` of `$unwind` takes true or false",
                                ));
                            };
                            unwind.keeps_empty = keeps;
                        }
                        other => {
                            let valid = ["path", "includeArrayIndex", "preserveNullAndEmptyArrays"];
                            return Err(unknown("option of `$unwind`", other, &valid));
                        }
                    }
                }
            }
            text => path = Some(text),
        }
        let path = path.as_ref().and_then(Json::as_str).and_then(|text| text.strip_prefix('$'));
        let path = path
            .filter(|path| Path::is_plain(path))
            .ok_or_else(|| wrong("`$unwind` takes the path of an array, such as \"$tags\""))?;
        unwind.path = Path::checked(path)?;
        Ok(unwind)
    }
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Stage::Match(filter) => map.serialize_entry("$match", filter)?,
            Stage::Group(group) => map.serialize_entry("$group", group)?,
            Stage::Sort(sort) => map.serialize_entry("$sort", sort)?,
            Stage::Limit(limit) => map.serialize_entry("$limit", limit)?,
            Stage::Skip(skip) => map.serialize_entry("$skip", skip)?,
            Stage::Project(projection) => map.serialize_entry("$project", projection)?,
            Stage::Count(name) => map.serialize_entry("$count", name)?,
            Stage::Unwind(unwind) => map.serialize_entry("$unwind", unwind)?,
        }
        map.end()
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len() + 1))?;
        map.serialize_entry("_id", &self.id)?;
        for (name, accumulator) in &self.fields {
            map.serialize_entry(name, accumulator)?;
        }
        map.end()
    }
}

impl Serialize for Unwind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &format!("${}", self.path))?;
        if let Some(index) = &self.index {
            map.serialize_entry("includeArrayIndex", index.as_str())?;
        }
        if self.keeps_empty {
            map.serialize_entry("preserveNullAndEmptyArrays", &true)?;
        }
        map.end()
    }
}
