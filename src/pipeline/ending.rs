//! How a run ends, and the matching fields of its last record.

use serde::{Deserialize, Serialize};
use serde_json::Map;

use runlore_core::record::{ErrorObject, Status, WorkflowObject};

/// The reason for a missing `exit_code` on systems that only have `atexit`.
const NO_EXIT_CODE: &str = "this system does not report the exit code to exit handlers";

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// `finish()` was called.
    Finished,
    /// An error, a panic, or a dropped guard.
    Failed(ErrorObject),
    /// A panic aborts the process.
    Aborted,
    /// A signal ends the process, or ended the process that the run describes: its number, and a
    /// message.
    Signal(i32, String),
    /// The process exits with this code.
    Exit(u8),
    /// The process exits, and the system does not report the code.
    UnknownExit,
}

impl Ending {
    /// Returns whether the run failed.
    pub(super) fn is_failure(&self) -> bool {
        !matches!(self, Self::Finished | Self::Exit(0) | Self::UnknownExit)
    }

    /// Returns whether this ending also fails runs that have already ended.
    pub(super) fn fails_ended_runs(&self) -> bool {
        matches!(self, Self::Aborted | Self::Exit(1..))
    }

    /// Sets the status and its reasons in the last record of a run. An error that is already there
    /// stays.
    pub(super) fn write_to(self, workflow: &mut WorkflowObject) {
        workflow.status = Some(match self {
            Self::Finished | Self::Exit(0) => Status::Finished,
            Self::UnknownExit => Status::Unknown,
            _ => Status::Error,
        });
        let error = match self {
            Self::Finished => return,
            Self::Failed(error) => error,
            Self::Aborted => error("panic", "the process was aborted by a panic".to_owned()),
            Self::Signal(signal, message) => {
                workflow.ended_by = Some(ended_by(signal));
                error("signal", message)
            }
            Self::Exit(0) => {
                workflow.ended_early = Some(true);
                return;
            }
            Self::Exit(code) => {
                workflow.exit_code = Some(code.into());
                error("exit", format!("the process exited with code {code}"))
            }
            Self::UnknownExit => {
                let reasons = workflow.unavailable.get_or_insert_with(Map::new);
                reasons.insert("exit_code".to_owned(), NO_EXIT_CODE.into());
                return;
            }
        };
        if workflow.error.is_none() {
            workflow.stderr = error.message.clone();
            workflow.error = Some(Box::new(error));
        }
    }
}

/// Returns `ended_by` for a run that a signal ended.
pub(super) fn ended_by(signal: i32) -> String {
    format!("signal {signal}")
}

fn error(kind: &str, message: String) -> ErrorObject {
    ErrorObject { kind: Some(kind.to_owned()), message: Some(message), ..ErrorObject::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_that_is_not_known_has_a_reason() {
        let mut run = WorkflowObject::default();
        Ending::UnknownExit.write_to(&mut run);
        assert_eq!(run.status, Some(Status::Unknown));
        assert_eq!(run.unavailable.as_ref().unwrap()["exit_code"], NO_EXIT_CODE);
        assert_eq!(run.shown().to_string(), "ended, code unknown");
        assert!(!Ending::UnknownExit.fails_ended_runs());
    }
}
