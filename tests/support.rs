//! What the tests have in common.

use std::process::{Command, Output};

use runlore::query::Tree;
use runlore::record::TaskObject;
use runlore::store::MemoryStore;

/// Runs `work` in a workflow of its own and returns what was recorded.
pub(crate) fn record(work: impl FnOnce()) -> MemoryStore {
    let store = MemoryStore::new();
    let run = runlore::workflow("test").store(store.clone()).start().unwrap();
    work();
    run.finish().unwrap();
    store
}

/// The recorded tasks as a tree, without what differs from run to run.
pub(crate) fn tree(store: &MemoryStore) -> String {
    let tasks = store.tasks().into_iter().map(|mut task| {
        task.duration_ns = None;
        task.ended_at = None;
        task
    });
    Tree::new([], tasks).render().values(true).to_string()
}

/// The one task of this name.
pub(crate) fn the(store: &MemoryStore, name: &str) -> TaskObject {
    let mut tasks: Vec<_> = store
        .tasks()
        .into_iter()
        .filter(|task| task.activity_id.as_deref() == Some(name))
        .collect();
    assert_eq!(tasks.len(), 1, "tasks named {name}");
    tasks.remove(0)
}

/// Whether this process was started by [`child`] for the test of this name.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var("RUNLORE_TEST_CHILD").is_ok_and(|name| name == test)
}

/// A command that runs one test of this binary again, in a process of its own.
pub(crate) fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("RUNLORE_TEST_CHILD", test);
    command.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
    command
}

/// Panics with everything a process said, unless it ended well.
pub(crate) fn expect_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
