//! Parses only the beginning of a line, which is enough to identify its task.

use std::borrow::Cow;

use crate::json::scan::Scanner;

/// The length of the beginning, which usually contains these fields.
const BEGINNING: usize = 1024;

/// The first fields of a task's line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Head<'a> {
    pub(super) task_id: Cow<'a, str>,
    pub(super) workflow_id: Cow<'a, str>,
    pub(super) started_at: Option<f64>,
}

impl<'a> Head<'a> {
    /// Parses the ids of a task and, if wanted, its start time. The rest of the line is not parsed.
    ///
    /// `None` unless `type` is the first field and the wanted ones come later.
    pub(super) fn of(line: &'a [u8], wants_start: bool) -> Option<Self> {
        let beginning = &line[..line.len().min(BEGINNING)];
        Self::in_text(valid(beginning), wants_start).or_else(|| {
            (line.len() > BEGINNING).then(|| Self::in_text(valid(line), wants_start)).flatten()
        })
    }

    fn in_text(text: &'a str, wants_start: bool) -> Option<Self> {
        let mut from = Scanner::new(text);
        from.open(b'{')?;
        let is_task = from.name()?? == "type" && from.string()? == "task";
        is_task.then_some(())?;
        let (mut task_id, mut workflow_id, mut started_at) = (None, None, None);
        loop {
            match &*from.name()?? {
                "task_id" => task_id = Some(from.string()?),
                "workflow_id" => workflow_id = Some(from.string()?),
                "started_at" => {
                    started_at = Some(from.value()?.as_f64()?);
                    // If the text ends with a number, the line may have more digits of it.
                    from.token()?;
                }
                _ => from.skip()?,
            }
            if task_id.is_some() && workflow_id.is_some() && (started_at.is_some() || !wants_start)
            {
                return Some(Self { task_id: task_id?, workflow_id: workflow_id?, started_at });
            }
        }
    }
}

/// Returns the valid UTF-8 at the beginning of the bytes.
fn valid(bytes: &[u8]) -> &str {
    let end = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    std::str::from_utf8(&bytes[..end]).unwrap_or_default()
}

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
    fn wherever_a_long_line_is_cut_it_says_the_same() {
        for length in 900..1024 {
            let text = "é".repeat(length / 2) + &"x".repeat(length % 2);
            let line = format!(
                r#"{{"type":"task","used":"{text}","task_id":"t","workflow_id":"w","started_at":1234.5}}"#
            );
            let head = Head::of(line.as_bytes(), true).unwrap();
            assert_eq!(
                (&*head.task_id, &*head.workflow_id, head.started_at),
                ("t", "w", Some(1234.5))
            );
        }
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
