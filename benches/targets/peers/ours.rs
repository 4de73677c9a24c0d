//! Runlore.

use runlore::store::{Batch, Store, StoreChoice};
use runlore::{WorkflowRun, telemetry_task};

super::functions!(#[telemetry_task(telemetry = "none")]);

/// A store that keeps nothing: what is measured is the way to it.
struct Nowhere;

impl Store for Nowhere {
    fn write(&mut self, _: &Batch<'_>) -> runlore::Result<()> {
        Ok(())
    }
}

/// Starts to record, and to throw the records away at the end.
pub(crate) fn to_nowhere() -> WorkflowRun {
    to(Nowhere)
}

/// Starts to record into a store of the bench's own.
pub(crate) fn to(store: impl Store + 'static) -> WorkflowRun {
    start(StoreChoice::custom(store))
}

/// Starts to record into files of the working directory.
pub(crate) fn to_jsonl() -> WorkflowRun {
    start("records".into())
}

/// Starts to record into a database of the working directory.
pub(crate) fn to_sqlite() -> WorkflowRun {
    start("sqlite://records.db".into())
}

fn start(store: StoreChoice) -> WorkflowRun {
    runlore::workflow("bench").store(store).start().expect("the workflow starts")
}

/// Ends the recording, and sees to it that everything arrived.
pub(crate) fn finish(run: WorkflowRun, tasks: u64) {
    let totals = run.finish().expect("everything is stored");
    assert_eq!((totals.tasks, totals.dropped), (tasks, 0), "tasks stored and dropped");
}
