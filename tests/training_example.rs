//! What the example `training` records: one tree, from the run down to the layers.

use runlore::record::{Status, TaskObject};
use runlore::store::MemoryStore;
use runlore::workflow;

use crate::training_loops::check_times_and_links;

#[path = "../examples/training.rs"]
mod training;

const EPOCHS: usize = 2;
const BATCHES: usize = EPOCHS * 16;
const LAYERS: usize = BATCHES * 3;

#[test]
fn its_records_are_one_tree() {
    let store = MemoryStore::new();
    let run = workflow("training").store(store.clone()).start().unwrap();
    let id = run.id().to_owned();
    assert!(training::train(&run, EPOCHS as u32).unwrap().is_finite());
    run.finish().unwrap();

    let tasks = store.tasks();
    assert_eq!(tasks.len(), EPOCHS + 2 * BATCHES + LAYERS);
    for task in &tasks {
        assert_eq!(task.workflow_id.as_ref(), Some(&id), "{}", task.name());
        assert_eq!(task.status, Some(Status::Finished), "{}", task.name());
    }
    check_times_and_links(&tasks);
    let above = |task: &TaskObject| -> Option<TaskObject> {
        let parent = task.parent_task_id.as_ref()?;
        tasks.iter().find(|task| task.task_id == *parent).cloned()
    };
    let of = |subtype: &str, name: &str| -> Vec<&TaskObject> {
        let is_it = |task: &&TaskObject| {
            task.subtype.as_deref() == Some(subtype) && task.name().starts_with(name)
        };
        tasks.iter().filter(is_it).collect()
    };
    let epochs = of("iteration", "epochs_loop");
    assert_eq!(epochs.len(), EPOCHS);
    assert!(epochs.iter().all(|epoch| epoch.parent_task_id.is_none()));
    for (subtype, name, count, parent) in [
        ("iteration", "train_batch", BATCHES, "epochs_loop_iteration"),
        ("parent_forward", "Mlp", BATCHES, "train_batch_iteration"),
        ("child_forward", "", LAYERS, "Mlp"),
    ] {
        let found = of(subtype, name);
        assert_eq!(found.len(), count, "{subtype}");
        assert!(found.iter().all(|task| above(task).unwrap().name() == parent), "{subtype}");
    }
    // In the order in which they ended, which is that of the records.
    for pass in of("parent_forward", "Mlp") {
        let mut layers = of("child_forward", "");
        layers.retain(|layer| layer.parent_task_id.as_ref() == Some(&pass.task_id));
        let names: Vec<_> = layers.iter().map(|layer| layer.name()).collect();
        assert_eq!(names, ["fc1", "act", "fc2"]);
    }
}
