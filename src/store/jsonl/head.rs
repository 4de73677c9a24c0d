//! The beginning of a line: enough to tell which task it is about, without reading on.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// What the first fields of a task's line say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Head<'a> {
    pub(super) task_id: Cow<'a, str>,
    pub(super) workflow_id: Cow<'a, str>,
    pub(super) started_at: Option<f64>,
}

impl<'a> Head<'a> {
    /// The ids of a task, and when it began where that is wanted; none where the line does not say so in its order: `type`
    /// first, and then these. What comes after them is not looked at.
    pub(super) fn of(line: &'a [u8], wants_start: bool) -> Option<Self> {
        let mut found = Found { wants_start, ..Found::default() };
        let mut from = serde_json::Deserializer::from_slice(line);
        // It ends with an error as soon as all is found.
        _ = (&mut found).deserialize(&mut from);
        if found.is_missing() {
            return None;
        }
        let Found { task_id, workflow_id, started_at, .. } = found;
        Some(Self { task_id: task_id?, workflow_id: workflow_id?, started_at })
    }
}

#[derive(Default)]
struct Found<'a> {
    wants_start: bool,
    task_id: Option<Cow<'a, str>>,
    workflow_id: Option<Cow<'a, str>>,
    started_at: Option<f64>,
}

impl Found<'_> {
    fn is_missing(&self) -> bool {
        let is_missing_start = self.wants_start && self.started_at.is_none();
        self.task_id.is_none() || self.workflow_id.is_none() || is_missing_start
    }
}

impl<'de> DeserializeSeed<'de> for &mut Found<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Found<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let enough = || de::Error::custom("enough");
        let first = entries.next_entry::<Text<'de>, Text<'de>>()?;
        if first.is_none_or(|(name, kind)| name.0 != "type" || kind.0 != "task") {
            return Err(enough());
        }
        while self.is_missing() {
            let Some(Text(name)) = entries.next_key()? else { return Ok(()) };
            match &*name {
                "task_id" => self.task_id = Some(entries.next_value::<Text<'de>>()?.0),
                "workflow_id" => self.workflow_id = Some(entries.next_value::<Text<'de>>()?.0),
                "started_at" => self.started_at = Some(entries.next_value()?),
                _ => _ = entries.next_value::<IgnoredAny>()?,
            }
        }
        Err(enough())
    }
}

/// A text that is not copied where it stands in the line as it is.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_after_what_is_wanted_is_looked_at() {
        let line = br#"{"type":"task","task_id":"a\u00e9","used":{"x":[1]},"workflow_id":"w","started_at":2,"rest": oh no"#;
        let head = Head::of(line, true).unwrap();
        assert_eq!((&*head.task_id, &*head.workflow_id, head.started_at), ("aé", "w", Some(2.0)));
        assert_eq!(Head::of(line, false).unwrap().started_at, None);
    }

    #[test]
    fn what_does_not_say_so_is_read_in_full() {
        for line in [
            &br#"{"task_id":"t","workflow_id":"w","type":"task"}"#[..],
            br#"{"type":"workflow","workflow_id":"w"}"#,
            br#"{"type":"task","task_id":"t"}"#,
            br#"{"type":"task","task_id":7,"workflow_id":"w"}"#,
            br#"{"type":"task","task_id":"t","workflow_id":null}"#,
            br#"{"type":"task","task_id":"t","workflow_id":"torn"#,
            br#"{"type":"task","task_id":"t","x":tru,"workflow_id":"w"}"#,
            b"[]",
            b"",
        ] {
            assert_eq!(Head::of(line, false), None, "{}", line.escape_ascii());
        }
    }
}
