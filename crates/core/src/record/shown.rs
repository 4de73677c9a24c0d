//! The status of a run as views display it, with details such as the exit code.

use std::fmt;

use serde_json::Value;

use super::{Status, WorkflowObject};

/// The status of a run as every view displays it. Created by [`WorkflowObject::shown`].
///
/// ```
/// use runlore::record::{Status, WorkflowObject};
/// use serde_json::json;
///
/// let run: WorkflowObject = serde_json::from_value(json!({
///     "type": "workflow", "workflow_id": "w1", "status": "ERROR", "exit_code": 4,
/// }))?;
/// assert_eq!(run.shown().to_string(), "ERROR, exit 4");
/// assert_eq!(run.shown().tone(), Some(Status::Error));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    text: String,
    tone: Option<Status>,
}

impl From<Status> for Shown {
    fn from(status: Status) -> Self {
        Self { text: status.as_str().to_owned(), tone: Some(status) }
    }
}

impl Shown {
    /// The display of a run whose process was killed or ended by a signal, and of its open tasks.
    pub fn interrupted() -> Self {
        Self { text: "INTERRUPTED".to_owned(), tone: Some(Status::Error) }
    }

    /// Returns the status that determines the colour. For a run that finished with failed roots,
    /// this is [`Status::Error`].
    pub fn tone(&self) -> Option<Status> {
        self.tone
    }

    /// Whether the display reports a failure.
    pub fn is_failure(&self) -> bool {
        self.tone == Some(Status::Error)
    }

    /// Adds the number of failed child runs, which this run started directly or indirectly.
    #[must_use]
    pub fn with_failed_children(mut self, count: u64) -> Self {
        self.fail(count, "child run", "child runs");
        self
    }

    fn fail(&mut self, count: u64, one: &str, many: &str) {
        if count == 0 {
            return;
        }
        let separator = if self.text.is_empty() { "" } else { ", " };
        self.text += &format!("{separator}{} failed", counted(count, one, many));
        self.tone = Some(Status::Error);
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl WorkflowObject {
    /// Returns the display of the run: the stored status, and details that need attention.
    ///
    /// | event | display |
    /// |---|---|
    /// | the run finished | `FINISHED` |
    /// | the run finished, but some of its root tasks failed | `FINISHED, 2 roots failed` |
    /// | the run failed or panicked | `ERROR` |
    /// | the run's guard was dropped without `finish()` | `ERROR: dropped without finish()` |
    /// | the process exited with a code other than 0 | `ERROR, exit 4` |
    /// | the process exited with code 0 while the run was open | `FINISHED, left open` |
    /// | the process exited, and the system does not report the code | `ended, code unknown` |
    /// | the process was killed or ended by a signal | `INTERRUPTED` |
    /// | another process that had joined the run failed | as above, plus `, 1 process failed` |
    pub fn shown(&self) -> Shown {
        let Some(status) = self.status else { return Shown::default() };
        // A status word that Runlore does not know is displayed as stored.
        if let Some(word) = self.extra.get("status").and_then(Value::as_str) {
            return Shown { text: word.to_owned(), tone: Some(status) };
        }
        let mut shown = Shown::from(status);
        match status {
            _ if self.is_interrupted() => shown = Shown::interrupted(),
            Status::Unknown => shown.text = "ended, code unknown".to_owned(),
            Status::Error => {
                if self.error_kind() == Some("unfinished") {
                    shown.text += ": dropped without finish()";
                }
                if let Some(code) = self.exit_code {
                    shown.text += &format!(", exit {code}");
                }
            }
            Status::Finished => {
                if self.ended_early == Some(true) {
                    shown.text += ", left open";
                }
                shown.fail(self.total("failed_roots"), "root", "roots");
            }
            _ => {}
        }
        shown.fail(self.total("failed_processes"), "process", "processes");
        shown
    }

    /// Whether the run's process was killed or ended by a signal, so that open tasks never end.
    pub fn is_interrupted(&self) -> bool {
        match self.status {
            Some(Status::Error) => self.error_kind() == Some("signal"),
            Some(Status::Unknown) => {
                let is_reason = |it: &&serde_json::Map<String, Value>| it.contains_key("exit_code");
                self.unavailable.as_ref().filter(is_reason).is_none()
                    && !self.extra.contains_key("status")
            }
            _ => false,
        }
    }

    /// Whether the run failed, or its process was killed or ended by a signal.
    pub(crate) fn has_failed(&self) -> bool {
        self.status == Some(Status::Error) || self.is_interrupted()
    }

    /// Whether the process ended before the run did.
    pub fn is_dead(&self) -> bool {
        self.is_interrupted()
            || self.status == Some(Status::Unknown)
            || self.ended_early == Some(true)
            || self.error_kind() == Some("exit")
    }

    pub(super) fn total(&self, name: &str) -> u64 {
        self.totals.as_ref().and_then(|totals| totals.get(name)?.as_u64()).unwrap_or(0)
    }

    fn error_kind(&self) -> Option<&str> {
        self.error.as_deref()?.kind.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(fields: Value) -> WorkflowObject {
        serde_json::from_value(fields).unwrap()
    }

    fn shown(fields: Value) -> (String, bool) {
        let shown = run(fields).shown();
        (shown.to_string(), shown.is_failure())
    }

    #[test]
    fn each_ending_is_shown_in_its_own_words() {
        let cases = [
            (json!({"status": "FINISHED", "totals": {"failed_roots": 0}}), "FINISHED", false),
            (
                json!({"status": "FINISHED", "totals": {"failed_roots": 1}}),
                "FINISHED, 1 root failed",
                true,
            ),
            (
                json!({"status": "FINISHED", "totals": {"failed_roots": 2}}),
                "FINISHED, 2 roots failed",
                true,
            ),
            (json!({"status": "ERROR", "error": {"kind": "error"}}), "ERROR", true),
            (
                json!({"status": "ERROR", "error": {"kind": "unfinished"}}),
                "ERROR: dropped without finish()",
                true,
            ),
            (
                json!({"status": "ERROR", "error": {"kind": "unfinished"}, "exit_code": 1}),
                "ERROR: dropped without finish(), exit 1",
                true,
            ),
            (
                json!({"status": "ERROR", "error": {"kind": "exit"}, "exit_code": 4}),
                "ERROR, exit 4",
                true,
            ),
            (json!({"status": "FINISHED", "ended_early": true}), "FINISHED, left open", false),
            (
                json!({"status": "UNKNOWN", "unavailable": {"exit_code": "x"}}),
                "ended, code unknown",
                false,
            ),
            (json!({"status": "ERROR", "error": {"kind": "signal"}}), "INTERRUPTED", true),
            (json!({"status": "UNKNOWN", "ended_by": "signal 9"}), "INTERRUPTED", true),
            (json!({"status": "UNKNOWN"}), "INTERRUPTED", true),
            (json!({"status": "RUNNING"}), "RUNNING", false),
            (json!({"status": "COMPLETED"}), "COMPLETED", false),
            (json!({}), "", false),
        ];
        for (fields, text, is_failure) in cases {
            assert_eq!(shown(fields.clone()), (text.to_owned(), is_failure), "{fields}");
        }
    }

    #[test]
    fn child_runs_that_failed_are_counted() {
        let finished = run(json!({"status": "FINISHED"})).shown();
        assert_eq!(finished.clone().with_failed_children(0), finished);
        let failed = finished.with_failed_children(2);
        assert_eq!(
            (&*failed.to_string(), failed.is_failure()),
            ("FINISHED, 2 child runs failed", true)
        );
    }
}
