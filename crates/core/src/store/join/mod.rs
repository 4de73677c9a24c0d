//! Joins the several records of a task or workflow into one, by the same rules for every store.

mod workflows;

pub use workflows::Workflows;
pub use workflows::{join_process, speak_as_one};

use crate::record::TaskObject;

/// Joins another record of the same id with the known one.
///
/// The later record wins, but a record of an ended task wins over one of a task that has not ended.
/// Fields that the winner lacks are taken from the other.
///
/// Returns the record as an error if it belongs to a different task. Flowcept makes ids from the
/// clock, and they do collide. Neither task may get lost.
pub fn join_task(known: &mut TaskObject, mut task: TaskObject) -> Result<(), Box<TaskObject>> {
    if *known == task {
        return Ok(());
    }
    if are_two_tasks(known, &task) {
        return Err(Box::new(task));
    }
    if !known.is_finished() || task.is_finished() {
        std::mem::swap(known, &mut task);
    }
    known.fill_from(task);
    Ok(())
}

/// Returns whether two records with the same id belong to different tasks.
fn are_two_tasks(one: &TaskObject, other: &TaskObject) -> bool {
    let differ = |one: Option<&String>, other: Option<&String>| {
        one.zip(other).is_some_and(|(one, other)| one != other)
    };
    differ(one.activity_id.as_ref(), other.activity_id.as_ref())
        || (one.is_finished()
            && other.is_finished()
            && one.started_at.zip(other.started_at).is_some_and(|(one, other)| one != other))
}
