//! Masks that select fields of JSON documents. Other fields are skipped and never built.
//!
//! Skipped fields are still validated: a document that cannot be read as a whole cannot be read in
//! part either, so queries give the same results as with whole documents. A document with anything
//! unusual is read as a whole by `serde_json`, which then reports the error.

use serde_json::{Map, Value};

use super::scan::Scanner;

/// A set of selected fields. There are few of them, and searching a short list is faster than a
/// map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldMask(Vec<Named>);

#[derive(Debug, Clone, PartialEq)]
struct Named {
    digest: u64,
    name: Box<str>,
    part: Selected,
}

#[derive(Debug, Clone, PartialEq)]
enum Selected {
    Whole,
    Inside(FieldMask),
}

impl FieldMask {
    /// Creates a mask of the fields at these paths.
    pub fn paths<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Self {
        let mut wanted = Self::default();
        for path in paths {
            wanted.add(path.as_ref().split('.'));
        }
        wanted
    }

    fn place(&self, name: &str) -> Option<usize> {
        let digest = digest(name);
        self.0.iter().position(|known| known.digest == digest && *known.name == *name)
    }

    fn get(&self, name: &str) -> Option<&Selected> {
        self.place(name).map(|at| &self.0[at].part)
    }

    /// Returns the part to keep of a field. Adds the field, with an empty mask, if it is new.
    fn part(&mut self, name: &str) -> &mut Selected {
        let at = self.place(name).unwrap_or_else(|| {
            let part = Selected::Inside(Self::default());
            self.0.push(Named { digest: digest(name), name: name.into(), part });
            self.0.len() - 1
        });
        &mut self.0[at].part
    }

    /// Returns the mask for the fields inside a field. `None` if the whole field is selected.
    pub fn inside(&mut self, name: &str) -> Option<&mut Self> {
        match self.part(name) {
            Selected::Whole => None,
            Selected::Inside(inside) => Some(inside),
        }
    }

    /// Adds the field at the path of these keys.
    pub fn add<'a>(&mut self, mut keys: impl Iterator<Item = &'a str>) {
        let Some(mut key) = keys.next() else { return };
        let mut here = self;
        loop {
            let next = keys.next();
            match (here.part(key), next) {
                (part, None) => return *part = Selected::Whole,
                (Selected::Whole, _) => return,
                (Selected::Inside(inside), Some(next)) => (here, key) = (inside, next),
            }
        }
    }

    /// Reads the selected fields of a document. The result may contain more: an array on the path
    /// is kept whole.
    pub fn read(&self, text: &str) -> serde_json::Result<Value> {
        whole_text(text, |from| self.pick(from)).map_or_else(|| serde_json::from_str(text), Ok)
    }

    /// Reads the selected fields of a record. Of a task, also keeps every field that is not an
    /// object or array, because these identify records and decide how they are joined. A record
    /// that does not begin as a task is kept whole.
    pub fn read_record(&self, text: &str) -> serde_json::Result<Value> {
        let Some((record, is_whole)) = whole_text(text, |from| self.pick_record(from)) else {
            return serde_json::from_str(text);
        };
        let is = |name: &str, test: &dyn Fn(&str) -> bool| {
            record.get(name).and_then(Value::as_str).is_some_and(test)
        };
        // A missing id is derived from the whole record, and a type may occur twice.
        match is_whole || (is("type", &|kind| kind == "task") && is("task_id", &|_| true)) {
            true => Ok(record),
            false => serde_json::from_str(text),
        }
    }

    /// Reads the selected fields of an object, or the whole value if it is not an object.
    fn pick(&self, from: &mut Scanner<'_>) -> Option<Value> {
        if from.token()? != b'{' {
            return from.value();
        }
        let mut kept = Map::new();
        from.open(b'{')?;
        while let Some(name) = from.name()? {
            match self.get(&name) {
                Some(part) => _ = kept.insert(name.into_owned(), part.pick(from)?),
                None => from.skip()?,
            }
        }
        Some(Value::Object(kept))
    }

    /// Returns what [`read_record`](Self::read_record) needs, and whether that is the whole record.
    fn pick_record(&self, from: &mut Scanner<'_>) -> Option<(Value, bool)> {
        if from.token()? != b'{' {
            return Some((from.value()?, true));
        }
        let mut record = Map::new();
        let (mut is_task, mut is_whole) = (false, true);
        from.open(b'{')?;
        while let Some(name) = from.name()? {
            if !is_task {
                let value = from.value()?;
                is_task = name == "type" && value == "task";
                record.insert(name.into_owned(), value);
            } else if let Some(part) = self.get(&name) {
                is_whole &= matches!(part, Selected::Whole);
                record.insert(name.into_owned(), part.pick(from)?);
            } else if matches!(from.token()?, b'{' | b'[') {
                is_whole = false;
                from.skip()?;
            } else {
                record.insert(name.into_owned(), from.value()?);
            }
        }
        Some((Value::Object(record), is_whole))
    }
}

impl Selected {
    fn pick(&self, from: &mut Scanner<'_>) -> Option<Value> {
        match self {
            Selected::Whole => from.value(),
            Selected::Inside(inside) => inside.pick(from),
        }
    }
}

/// Applies `read` to all of a text. `None` if the scanner does not accept the text.
fn whole_text<'t, T>(text: &'t str, read: impl FnOnce(&mut Scanner<'t>) -> Option<T>) -> Option<T> {
    let mut from = Scanner::new(text);
    let found = read(&mut from)?;
    from.end().map(|()| found)
}

/// Returns a digest that differs for most names: their length and last bytes.
fn digest(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let last = match bytes.last_chunk::<4>() {
        Some(last) => u32::from_le_bytes(*last),
        None => bytes.iter().fold(0, |all, byte| (all << 8) | u32::from(*byte)),
    };
    ((name.len() as u64) << 32) | u64::from(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::record::Record;

    #[test]
    fn a_record_is_told_apart_and_joined_as_if_it_were_whole() {
        let wanted = FieldMask::paths(["used.lr"]);
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
        fn what_cannot_be_read_as_a_whole_cannot_be_read_in_part(
            document in documents(),
            at in any::<prop::sample::Index>(),
            what in prop_oneof![Just("\\ud800"), Just("1e999"), Just("}"), Just("\""), Just("\u{0}"), Just("[[")],
        ) {
            let mut text = format!("{{\"type\":\"task\",\"task_id\":\"t\",\"x\":{document}}}");
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            text.insert_str(*at.get(&places), what);
            let whole = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            let wanted = FieldMask::paths(["used.lr"]);
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
        assert_eq!(FieldMask::default().read(&deep).unwrap_err().to_string(), whole);
    }
}
