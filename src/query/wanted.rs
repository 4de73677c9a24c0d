//! Which parts of documents a question looks at: what nobody looks at is read over, and never made.
//!
//! What is read over is still looked at closely enough that a document which could not be read as a whole cannot be read in
//! part either: every answer is the one that whole documents give. A document in which anything is odd is read as a whole.

use std::fmt;

use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Find;
use super::filter::tree::Node;
use super::find::projection::{Field, Fields};
use super::path::Path;

/// The parts that are wanted, by name. They are few, and told apart by their lengths mostly: a list is searched faster than a map.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wanted(Vec<(Box<str>, Part)>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Whole,
    Inside(Wanted),
}

impl Wanted {
    /// What these paths lead to.
    pub(crate) fn paths<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Self {
        let mut wanted = Self::default();
        for path in paths {
            wanted.add(path.as_ref().split('.'));
        }
        wanted
    }

    /// What a question looks at, or gives as its answer; none where that is everything.
    pub(crate) fn of(find: &Find) -> Option<Self> {
        let projection = find.projection.as_ref().filter(|projection| projection.includes)?;
        let mut wanted = Self::paths(["_id"]);
        wanted.add_fields(&projection.fields)?;
        wanted.add_node(find.filter.root());
        for (path, _) in find.sort.keys() {
            wanted.add_path(path);
        }
        Some(wanted)
    }

    fn add_fields(&mut self, fields: &Fields) -> Option<()> {
        for (name, field) in fields {
            match field {
                Field::Include => self.add([&**name].into_iter()),
                Field::Exclude => {}
                Field::Compute(_) => return None,
                Field::Inside(inside) => {
                    if let Part::Inside(wanted) = self.part(name) {
                        wanted.add_fields(inside)?;
                    }
                }
            }
        }
        Some(())
    }

    fn get(&self, name: &str) -> Option<&Part> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, part)| part)
    }

    /// What is wanted of a name; nothing so far, where it is new.
    fn part(&mut self, name: &str) -> &mut Part {
        let at = self.0.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
            self.0.push((name.into(), Part::Inside(Self::default())));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn add_node(&mut self, node: &Node) {
        match node {
            Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
                nodes.iter().for_each(|node| self.add_node(node));
            }
            Node::Field(path, _) => self.add_path(path),
        }
    }

    fn add_path(&mut self, path: &Path) {
        self.add(path.keys());
    }

    fn add<'a>(&mut self, mut keys: impl Iterator<Item = &'a str>) {
        let Some(mut key) = keys.next() else { return };
        let mut here = self;
        loop {
            let next = keys.next();
            match (here.part(key), next) {
                (part, None) => return *part = Part::Whole,
                (Part::Whole, _) => return,
                (Part::Inside(inside), Some(next)) => (here, key) = (inside, next),
            }
        }
    }

    /// What is wanted of a document. It may have more: an array on the way is kept as it is.
    #[cfg(any(test, feature = "sqlite"))]
    pub(crate) fn read(&self, text: &str) -> serde_json::Result<Value> {
        whole_text(text, Picked(self)).or_else(|_| serde_json::from_str(text))
    }

    /// What is wanted of the record in a line, and of a task all that is no object or array, for records are told apart and
    /// joined by that. What is not known to be a task by its beginning is kept whole.
    pub(crate) fn read_record(&self, text: &str) -> serde_json::Result<Value> {
        let Ok((record, is_whole)) = whole_text(text, PickedRecord(self)) else {
            return serde_json::from_str(text);
        };
        let is = |name: &str, test: &dyn Fn(&str) -> bool| {
            record.get(name).and_then(Value::as_str).is_some_and(test)
        };
        // An id that is missing is made from the whole record, and a type may be given twice.
        match is_whole || (is("type", &|kind| kind == "task") && is("task_id", &|_| true)) {
            true => Ok(record),
            false => serde_json::from_str(text),
        }
    }
}

/// Reads a text to its end.
fn whole_text<'t, S: DeserializeSeed<'t>>(text: &'t str, seed: S) -> serde_json::Result<S::Value> {
    let mut from = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut from)?;
    from.end().map(|()| value)
}

/// What a visitor makes of a value that is neither an object nor an array.
macro_rules! scalars {
    ($make:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok($make(|| value.into()))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok($make(|| value.into()))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok($make(|| value.into()))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            Ok($make(|| value.into()))
        }

        fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
            Ok($make(|| value.into()))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($make(|| Value::Null))
        }
    };
}

/// Reads over a value. One that might be refused if it were kept is refused here.
struct Skipped;

impl<'de> DeserializeSeed<'de> for Skipped {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let text = <&RawValue>::deserialize(from)?.get();
        if is_ordinary(text.as_bytes()) {
            return Ok(());
        }
        let value: Value = serde_json::from_str(text).map_err(D::Error::custom)?;
        if is_deeper(&value, SURELY_KEPT) {
            return Err(D::Error::custom("it may be too deep"));
        }
        Ok(())
    }
}

/// Parts inside each other that are kept wherever they stand: half of what a reader allows.
const SURELY_KEPT: usize = 64;

/// Whether well-formed JSON can surely be kept: it has no escape, which may be half a character, no number that may be too
/// large, and few parts.
fn is_ordinary(json: &[u8]) -> bool {
    // Without a branch, so that many bytes are looked at together.
    let odd = |(before, byte): (&u8, &u8)| {
        (*byte == b'\\') | (before.is_ascii_digit() & (byte | 0x20 == b'e'))
    };
    let is_odd = json.iter().zip(&json[1..]).fold(false, |any, pair| any | odd(pair));
    let parts = json.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    !is_odd && parts < SURELY_KEPT && !has_long_number(json)
}

/// Whether there may be three hundred digits in a row.
fn has_long_number(json: &[u8]) -> bool {
    let mut row = 0;
    json.iter().step_by(64).any(|byte| {
        row = if byte.is_ascii_digit() { row + 1 } else { 0 };
        row == 4
    })
}

fn is_deeper(value: &Value, than: usize) -> bool {
    match value {
        Value::Array(items) => than == 0 || items.iter().any(|item| is_deeper(item, than - 1)),
        Value::Object(entries) => than == 0 || entries.values().any(|it| is_deeper(it, than - 1)),
        _ => false,
    }
}

/// Keeps what is wanted of an object, and anything else as it is.
struct Picked<'a>(&'a Wanted);

impl<'de> DeserializeSeed<'de> for Picked<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Picked<'_> {
    type Value = Value;

    scalars!(made);

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        all_items(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = entries.next_key_seed(Name { wanted: Some(self.0), keeps: false })? {
            match key {
                Named::Wanted(name, Part::Whole) => _ = kept.insert(name, entries.next_value()?),
                Named::Wanted(name, Part::Inside(inside)) => {
                    kept.insert(name, entries.next_value_seed(Picked(inside))?);
                }
                Named::Other(_) => entries.next_value_seed(Skipped)?,
            }
        }
        Ok(Value::Object(kept))
    }
}

fn made(make: impl FnOnce() -> Value) -> Value {
    make()
}

fn all_items<'de, A: SeqAccess<'de>>(mut items: A) -> Result<Value, A::Error> {
    let mut all = Vec::new();
    while let Some(item) = items.next_element()? {
        all.push(item);
    }
    Ok(Value::Array(all))
}

/// Reads the record of a line; tells whether all of it is there.
struct PickedRecord<'a>(&'a Wanted);

impl<'de> DeserializeSeed<'de> for PickedRecord<'_> {
    type Value = (Value, bool);

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PickedRecord<'_> {
    type Value = (Value, bool);

    scalars!(whole);

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Ok((all_items(items)?, true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut record = Map::new();
        let (mut is_task, mut is_whole) = (false, true);
        loop {
            let name = Name { wanted: is_task.then_some(self.0), keeps: true };
            let Some(key) = entries.next_key_seed(name)? else { break };
            match key {
                Named::Wanted(name, Part::Whole) => _ = record.insert(name, entries.next_value()?),
                Named::Wanted(name, Part::Inside(inside)) => {
                    is_whole = false;
                    record.insert(name, entries.next_value_seed(Picked(inside))?);
                }
                Named::Other(name) if is_task => match entries.next_value_seed(Scalar)? {
                    Some(value) => _ = record.insert(name, value),
                    None => is_whole = false,
                },
                Named::Other(name) => {
                    let value: Value = entries.next_value()?;
                    is_task = name == "type" && value == "task";
                    record.insert(name, value);
                }
            }
        }
        Ok((Value::Object(record), is_whole))
    }
}

fn whole(make: impl FnOnce() -> Value) -> (Value, bool) {
    (make(), true)
}

/// Keeps what is neither an object nor an array.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Option<Value>;

    scalars!(some);

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element_seed(Skipped)?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        while entries.next_key_seed(Skipped)?.is_some() {
            entries.next_value_seed(Skipped)?;
        }
        Ok(None)
    }
}

fn some(make: impl FnOnce() -> Value) -> Option<Value> {
    Some(make())
}

/// A name, and what is wanted of what it names.
enum Named<'a> {
    Wanted(String, &'a Part),
    /// The name is empty where it is not kept.
    Other(String),
}

struct Name<'a> {
    wanted: Option<&'a Wanted>,
    /// Whether a name of which nothing is wanted is kept all the same.
    keeps: bool,
}

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Named<'a>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Named<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let part = self.wanted.and_then(|wanted| wanted.get(name));
        Ok(match part {
            Some(part) => Named::Wanted(name.to_owned(), part),
            None if self.keeps => Named::Other(name.to_owned()),
            None => Named::Other(String::new()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::query::field;
    use crate::record::Record;

    #[test]
    fn only_what_is_asked_for_is_kept() {
        let find = Find::new()
            .filter(field("status").eq("ERROR"))
            .sort("-at.start")
            .fields(["name", "used.lr"]);
        let wanted = Wanted::of(&find).unwrap();
        let text = r#"{"name": {"all": 1}, "status": "ERROR", "used": {"lr": 2, "x": [3]}, "at": {"start": 4, "end": 5}, "y": [6]}"#;
        let kept =
            json!({"name": {"all": 1}, "status": "ERROR", "used": {"lr": 2}, "at": {"start": 4}});
        assert_eq!(wanted.read(text).unwrap(), kept);
        assert_eq!(Wanted::of(&Find::new()), None);
    }

    #[test]
    fn a_record_is_told_apart_and_joined_as_if_it_were_whole() {
        let wanted = Wanted::paths(["used.lr"]);
        let read = |text: &str| wanted.read_record(text).unwrap();
        assert_eq!(
            read(
                r#"{"type":"task","task_id":"t","used":{"lr":1,"x":2},"big":[1],"status":"ERROR"}"#
            ),
            json!({"type": "task", "task_id": "t", "used": {"lr": 1}, "status": "ERROR"})
        );
        for whole in [
            r#"{"task_id":"t","big":[1],"type":"task"}"#,
            r#"{"type":"workflow","workflow_id":"w","big":[1]}"#,
            r#"{"type":"task","big":[1]}"#,
            r#"{"type":"task","task_id":7,"big":[1]}"#,
            r#"{"type":"task","task_id":"t","big":[1],"type":"workflow"}"#,
            "[{}]",
            "3",
        ] {
            assert_eq!(read(whole), serde_json::from_str::<Value>(whole).unwrap(), "{whole}");
        }
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300_f64).prop_map(Value::from),
            "[ab\\u{e9}\"\\\\]{0,4}".prop_map(Value::from),
        ];
        let names = prop_oneof![Just("a"), Just("b"), Just("type"), Just("task_id"), Just("0")];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let entry = (names.clone(), inner.clone());
            let entries = prop::collection::vec(entry, 0..5).prop_map(|entries| {
                entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            });
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
                entries.prop_map(Value::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_answer_is_that_of_whole_documents(
            documents in prop::collection::vec(documents(), 1..4),
            fields in prop::collection::vec("[ab0](\\.[ab0]){0,2}", 1..4),
            by in "-?[ab](\\.[ab0]){0,2}",
            at in "[ab](\\.[ab0]){0,2}",
        ) {
            let find = Find::new().filter(field(&at).exists(true).or(field("b").gt(1))).sort(&by).fields(fields);
            let wanted = Wanted::of(&find).unwrap();
            let read = |document: &Value| wanted.read(&document.to_string()).unwrap();
            let parts: Vec<Value> = documents.iter().map(read).collect();
            let answer = |documents: Vec<Value>| find.apply(documents).collect::<Vec<_>>();
            prop_assert_eq!(answer(parts), answer(documents));
        }

        #[test]
        fn what_cannot_be_read_as_a_whole_cannot_be_read_in_part(
            document in documents(),
            at in any::<prop::sample::Index>(),
            what in prop_oneof![Just("\\ud800"), Just("1e999"), Just("}"), Just("\""), Just("\u{0}"), Just("[[")],
        ) {
            let mut text = format!("{{\"type\":\"task\",\"task_id\":\"t\",\"x\":{document}}}");
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            text.insert_str(*at.get(&places), what);
            let whole = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            let wanted = Wanted::paths(["used.lr"]);
            let part = wanted.read(&text).map_err(|error| error.to_string());
            prop_assert_eq!(part.err(), whole.as_ref().err().cloned());
            let record = wanted.read_record(&text).map_err(|error| error.to_string());
            prop_assert_eq!(record.as_ref().err(), whole.as_ref().err());
            if let (Ok(record), Ok(whole)) = (record, whole) {
                let id = |json: Value| Record::from_json_at(json, 3).map(|it| it.as_task().map(|it| it.task_id.clone())).ok();
                prop_assert_eq!(id(record), id(whole));
            }
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused_where_it_is_not_wanted_too() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let whole = serde_json::from_str::<Value>(&deep).unwrap_err().to_string();
        assert_eq!(Wanted::default().read(&deep).unwrap_err().to_string(), whole);
    }
}
