//! How a typed field is taken out of a JSON object and put back without losing anything.
//!
//! A value of another type than the field's stays in `extra` under its own name. A value that can be
//! read but would be written differently (an unknown status word, a whole number where a float is
//! meant) is read *and* stays in `extra`; writing prefers the original as long as it still reads as what
//! the field holds, so that whoever changes the field gets what they wrote.

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap};
use serde_json::{Map, Value};

use super::{CaptureObject, CodeObject, ErrorObject, Status, ThreadObject};

/// What a JSON value is to a field of type `T`.
pub(super) enum Taken<T> {
    /// Exactly this; writing it gives the same JSON.
    Exact(T),
    /// This, but writing it gives other JSON than the original.
    Near(T, Value),
    /// Not a value of this type.
    Not(Value),
}

pub(super) trait Field: Sized + PartialEq + Serialize {
    fn take(value: Value) -> Taken<Self>;

    /// Whether JSON has a form for it.
    fn has_json(&self) -> bool {
        true
    }

    /// The JSON that writing it gives.
    fn into_json(self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Puts `value` into the field `name`; what does not fit goes to `extra`.
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

/// Writes the field `name`, or the original of it that `extra` kept.
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

/// The same into an object: nothing is copied.
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

/// What `extra` kept of a field, if it still reads as what the field holds.
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
            // Ids are numbers in some people's records.
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

/// An inner object: read by its own rules, and only trusted to replace the original where it writes the
/// same.
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
        // Boxed, for few records have one and many records are held.
        impl Field for Box<$object> {
            fn take(value: Value) -> Taken<Self> {
                take_object(value)
            }
        }
    )*};
}

object_fields!(ErrorObject, CodeObject, ThreadObject, CaptureObject);

/// Declares a record: an id that is always there, optional typed fields each under its own name, and
/// `extra` for the rest; with the lenient reading and the lossless writing of this module.
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
            /// Everything else in the record, by name.
            pub extra: ::serde_json::Map<String, ::serde_json::Value>,
        }

        impl $name {
            /// The names that are fields; anything else is in `extra`.
            pub(crate) const FIELDS: &'static [&'static str] =
                &["type", stringify!($id), $(stringify!($field)),*];

            /// Reads an object whose type is known; `line` tells apart equal records without an id.
            pub(super) fn from_object(
                mut map: ::serde_json::Map<String, ::serde_json::Value>,
                line: u64,
            ) -> Self {
                map.retain(|_, value| !value.is_null());
                map.remove("type");
                let $id = $crate::record::fill::id(&mut map, stringify!($id), $kind, line);
                let mut record = Self { $id, ..Self::default() };
                // One pass over what is there: most records have a few of the many fields.
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

            /// The record as JSON, as writing it gives; nothing is copied.
            pub(super) fn into_json(self) -> ::serde_json::Value {
                let mut extra = self.extra;
                let mut out = ::serde_json::Map::new();
                out.insert("type".to_owned(), $kind.into());
                let id = $crate::record::fill::original_id(stringify!($id), &self.$id, &extra);
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

            /// Takes every field that is not set here from `other`.
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
                $crate::record::fill::write_id(&mut out, stringify!($id), &self.$id, &self.extra)?;
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
