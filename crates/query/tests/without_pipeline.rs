//! A program that reads records without the pipeline says so when a dead process left queues.

use std::fs;
use std::process::Command;

use runlore_query::Provenance;

/// Set in the process that reads; the name of the folder.
const READS: &str = "RUNLORE_TEST_READS";

#[test]
fn queues_of_a_dead_process_are_reported() {
    if let Some(folder) = std::env::var_os(READS) {
        Provenance::open(folder).unwrap().runs().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.jsonl"), "{\"type\":\"task\",\"task_id\":\"t\"}\n").unwrap();
    assert_eq!(notices(folder.path()), "");
    let session = folder.path().join(".rings/01");
    fs::create_dir_all(&session).unwrap();
    fs::write(session.join("lock"), "").unwrap();
    let notices = notices(folder.path());
    assert!(notices.contains("cannot recover; run `runlore recover "), "{notices}");
    assert_eq!(notices.lines().count(), 1, "{notices}");
}

/// What a process that reads the folder prints on standard error.
fn notices(folder: &std::path::Path) -> String {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "queues_of_a_dead_process_are_reported", "--nocapture"]);
    let output = test.env(READS, folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
