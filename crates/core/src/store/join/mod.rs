//! One task and one workflow out of the several records that tell of it, in whichever store they are.

mod workflows;

pub use workflows::Workflows;
pub use workflows::{join_process, speak_as_one};

use crate::record::TaskObject;

/// Joins another record of the same id with what is known: the last one wins, and one of a task that has ended wins
/// over one of a task that has not; what the winner does not say is taken from the other. Gives the record back where
/// it is of another task: Flowcept makes ids of the clock, and they do collide. Neither may go unseen.
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

/// Whether two records of one id cannot be about one task.
fn are_two_tasks(one: &TaskObject, other: &TaskObject) -> bool {
    let differ = |one: Option<&String>, other: Option<&String>| {
        one.zip(other).is_some_and(|(one, other)| one != other)
    };
    differ(one.activity_id.as_ref(), other.activity_id.as_ref())
        || (one.is_finished()
            && other.is_finished()
            && one.started_at.zip(other.started_at).is_some_and(|(one, other)| one != other))
}
