//! Every task of a busy asynchronous program is recorded, with default settings and in a debug build.

use std::process::Command;

use runlore::record::Status;
use runlore::store::jsonl;

#[test]
fn every_task_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_etl")).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("tasks=9062 errors=287 dropped=0 failed=true"), "{output:?}");
    let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
    assert_eq!(loaded.tasks.len(), 9_062);
    let errors = loaded.tasks.iter().filter(|task| task.status == Some(Status::Error));
    assert_eq!(errors.count(), 287);
    let ids: std::collections::HashSet<&str> =
        loaded.tasks.iter().map(|task| task.task_id.as_str()).collect();
    let parents = loaded.tasks.iter().filter_map(|task| task.parent_task_id.as_deref());
    assert!(parents.clone().all(|parent| ids.contains(parent)));
    assert_eq!(parents.count(), 9_061);
}
