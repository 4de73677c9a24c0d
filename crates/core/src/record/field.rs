//! Lossless conversion between a typed field and a JSON object.
//!
//! A value that does not have the field's type stays in `extra` under the field's name.
//!
//! Some values can be read but would be written differently, such as an unknown status word, or an
//! integer in a float field. Such a value is read *and* its original stays in `extra`. Writing uses
//! the original only while it still reads as the field's current value, so a changed field is
//! written as changed.

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap};
use serde_json::{Map, Value};

use super::{CaptureObject, CodeObject, ErrorObject, Status, ThreadObject};

/// The result of reading a JSON value as a `T`.
pub(super) enum Taken<T> {
    /// A value that is written as the same JSON.
    Exact(T),
    /// A value that is written as different JSON than the original, and the original.
    Near(T, Value),
    /// The original, which is not a `T`.
    Not(Value),
}

pub(super) trait Field: Sized + PartialEq + Serialize {
    fn take(value: Value) -> Taken<Self>;

    /// Whether JSON can represent the value.
    fn has_json(&self) -> bool {
        true
    }

    /// Converts the value into the JSON that serializing it gives.
    fn into_json(self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Reads `value` into the field `name`. If it does not fit exactly, the original goes to `extra`.
pub(super) fn read<T: Field>(
    field: &mut Option<T>,
    name: String,
    value: Value,
    extra: &mut Map<String, Value>,
) {
    match T::take(value) {
        Taken::Exact(value) => *field = Some(value),
        Taken::Near(value, original) => {
            *field = Some(value);
            extra.insert(name, original);
        }
        Taken::Not(original) => {
            extra.insert(name, original);
        }
    }
}

/// Serializes the field `name`, or its original from `extra`.
pub(super) fn write<T: Field, M: SerializeMap>(
    out: &mut M,
    name: &'static str,
    value: Option<&T>,
    extra: &Map<String, Value>,
) -> Result<(), M::Error> {
    if let Some(original) = original_of(name, value, extra) {
        return out.serialize_entry(name, original);
    }
    match value {
        Some(value) if value.has_json() => out.serialize_entry(name, value),
        _ => Ok(()),
    }
}

/// Moves the field `name`, or its original from `extra`, into the object `out`. Copies nothing.
pub(super) fn put<T: Field>(
    out: &mut Map<String, Value>,
    name: &'static str,
    value: Option<T>,
    extra: &mut Map<String, Value>,
) {
    let json = match original_of(name, value.as_ref(), extra) {
        Some(_) => extra.get_mut(name).map(Value::take),
        None => value.filter(T::has_json).map(T::into_json),
    };
    out.extend(json.map(|json| (name.to_owned(), json)));
}

/// Returns the field `name` as JSON, or its original from `extra`.
pub(super) fn get<T: Field + Clone>(
    name: &str,
    value: Option<&T>,
    extra: &Map<String, Value>,
) -> Option<Value> {
    let original = original_of(name, value, extra).cloned();
    original.or_else(|| value.filter(|value| value.has_json()).cloned().map(T::into_json))
}

/// Returns the original of a field from `extra`, if it still reads as the field's value.
fn original_of<'a, T: Field>(
    name: &str,
    value: Option<&T>,
    extra: &'a Map<String, Value>,
) -> Option<&'a Value> {
    let original = extra.get(name).filter(|original| !original.is_null())?;
    let read = match T::take(original.clone()) {
        Taken::Exact(read) | Taken::Near(read, _) => Some(read),
        Taken::Not(_) => None,
    };
    (read.as_ref() == value).then_some(original)
}

impl Field for String {
    fn take(value: Value) -> Taken<Self> {
        match value {
            Value::String(text) => Taken::Exact(text),
            // In some records ids are numbers.
            Value::Number(number) => Taken::Near(number.to_string(), Value::Number(number)),
            other => Taken::Not(other),
        }
    }

    fn into_json(self) -> Value {
        Value::String(self)
    }
}

impl Field for f64 {
    fn take(value: Value) -> Taken<Self> {
        match value.as_f64() {
            Some(number) if value.is_f64() => Taken::Exact(number),
            Some(number) => Taken::Near(number, value),
            None => Taken::Not(value),
        }
    }

    fn has_json(&self) -> bool {
        self.is_finite()
    }
}

impl Field for u64 {
    fn take(value: Value) -> Taken<Self> {
        match value.as_u64() {
            Some(number) => Taken::Exact(number),
            None => Taken::Not(value),
        }
    }
}

impl Field for bool {
    fn take(value: Value) -> Taken<Self> {
        match value {
            Value::Bool(yes) => Taken::Exact(yes),
            other => Taken::Not(other),
        }
    }
}

impl Field for Status {
    fn take(value: Value) -> Taken<Self> {
        match value {
            Value::String(word) => match word.parse() {
                Ok(status) => Taken::Exact(status),
                Err(_) => Taken::Near(Status::Unknown, Value::String(word)),
            },
            other => Taken::Not(other),
        }
    }
}

impl Field for Value {
    fn take(value: Value) -> Taken<Self> {
        Taken::Exact(value)
    }

    fn into_json(self) -> Value {
        self
    }
}

impl Field for Map<String, Value> {
    fn take(value: Value) -> Taken<Self> {
        match value {
            Value::Object(map) => Taken::Exact(map),
            other => Taken::Not(other),
        }
    }

    fn into_json(self) -> Value {
        Value::Object(self)
    }
}

impl Field for Vec<String> {
    fn take(value: Value) -> Taken<Self> {
        match value {
            Value::Array(items) if items.iter().all(Value::is_string) => Taken::Exact(
                items
                    .into_iter()
                    .filter_map(|item| match item {
                        Value::String(text) => Some(text),
                        _ => None,
                    })
                    .collect(),
            ),
            other => Taken::Not(other),
        }
    }
}

/// Reads an inner object. The result is exact only if it serializes to the same JSON.
fn take_object<T: DeserializeOwned + Serialize>(value: Value) -> Taken<T> {
    match T::deserialize(&value) {
        Ok(object) => match serde_json::to_value(&object) {
            Ok(again) if again == value => Taken::Exact(object),
            _ => Taken::Near(object, value),
        },
        Err(_) => Taken::Not(value),
    }
}

macro_rules! object_fields {
    ($($object:ty),*) => {$(
        // Boxed, because many records are kept in memory and few of them have such an object.
        impl Field for Box<$object> {
            fn take(value: Value) -> Taken<Self> {
                take_object(value)
            }
        }
    )*};
}

object_fields!(ErrorObject, CodeObject, ThreadObject, CaptureObject);

/// Declares a record type with the lenient reading and lossless writing of this module.
///
/// The struct has an id, which is always present, optional typed fields, and `extra` for the rest.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident ($kind:literal) {
            $(#[$id_meta:meta])*
            id: $id:ident,
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $(#[$id_meta])*
            pub $id: String,
            $($(#[$field_meta])* pub $field: Option<$type>,)*
            /// All other fields of the record, by name.
            pub extra: ::serde_json::Map<String, ::serde_json::Value>,
        }

        impl $name {
            /// The names of the typed fields. All other fields are in `extra`.
            pub(crate) const FIELDS: &'static [&'static str] =
                &["type", stringify!($id), $(stringify!($field)),*];

            /// Reads an object of this type. `line` distinguishes equal records without an id.
            pub(super) fn from_object(
                mut map: ::serde_json::Map<String, ::serde_json::Value>,
                line: u64,
            ) -> Self {
                map.retain(|_, value| !value.is_null());
                map.remove("type");
                let $id = $crate::record::synthetic_id::id(&mut map, stringify!($id), $kind, line);
                let mut record = Self { $id, ..Self::default() };
                // Iterates over the object, not over the fields: most records have few of the many
                // fields.
                for (name, value) in map {
                    match name.as_str() {
                        $(stringify!($field) => $crate::record::field::read(
                            &mut record.$field, name, value, &mut record.extra,
                        ),)*
                        _ => {
                            record.extra.insert(name, value);
                        }
                    }
                }
                record
            }

            /// Returns a field of the record as JSON, by its name. `None` if the record has no such
            /// field.
            pub fn field(&self, name: &str) -> Option<::serde_json::Value> {
                match name {
                    "type" => Some($kind.into()),
                    stringify!($id) => {
                        let id = $crate::record::synthetic_id::original_id(name, &self.$id, &self.extra);
                        Some(id.cloned().unwrap_or_else(|| self.$id.as_str().into()))
                    }
                    $(stringify!($field) => $crate::record::field::get(
                        name, self.$field.as_ref(), &self.extra,
                    ),)*
                    _ => self.extra.get(name).filter(|value| !value.is_null()).cloned(),
                }
            }

            /// Converts the record into JSON without copying values.
            pub(super) fn into_json(self) -> ::serde_json::Value {
                let mut extra = self.extra;
                let mut out = ::serde_json::Map::new();
                out.insert("type".to_owned(), $kind.into());
                let id = $crate::record::synthetic_id::original_id(stringify!($id), &self.$id, &extra);
                let id = id.cloned().unwrap_or_else(|| self.$id.into());
                out.insert(stringify!($id).to_owned(), id);
                $($crate::record::field::put(
                    &mut out, stringify!($field), self.$field, &mut extra,
                );)*
                for (name, value) in extra {
                    if !value.is_null() && !Self::FIELDS.contains(&name.as_str()) {
                        out.insert(name, value);
                    }
                }
                out.into()
            }

            /// Fills every field that is not set in `self` from `other`.
            pub(crate) fn fill_from(&mut self, mut other: Self) {
                other.extra.remove(stringify!($id));
                $({
                    let original = other.extra.remove(stringify!($field));
                    if self.$field.is_none() && !self.extra.contains_key(stringify!($field)) {
                        self.$field = other.$field;
                        if let Some(original) = original {
                            self.extra.insert(stringify!($field).to_owned(), original);
                        }
                    }
                })*
                for (name, value) in other.extra {
                    self.extra.entry(name).or_insert(value);
                }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap as _;
                let mut out = to.serialize_map(None)?;
                out.serialize_entry("type", $kind)?;
                $crate::record::synthetic_id::write_id(&mut out, stringify!($id), &self.$id, &self.extra)?;
                $($crate::record::field::write(
                    &mut out, stringify!($field), self.$field.as_ref(), &self.extra,
                )?;)*
                for (name, value) in &self.extra {
                    if !value.is_null() && !Self::FIELDS.contains(&name.as_str()) {
                        out.serialize_entry(name, value)?;
                    }
                }
                out.end()
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let map = ::serde_json::Map::deserialize(from)?;
                match map.get("type") {
                    None | Some(::serde_json::Value::Null) => {}
                    Some(kind) if kind == $kind => {}
                    Some(kind) => {
                        return Err(::serde::de::Error::custom(format_args!(
                            "expected a record of type \"{}\", found {kind}", $kind
                        )));
                    }
                }
                Ok(Self::from_object(map, 0))
            }
        }
    };
}
pub(super) use record;
