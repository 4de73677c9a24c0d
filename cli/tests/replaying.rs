//! `replay`: what could not be stored is stored later.

use std::fs;

use serde_json::Value;

use crate::support::{runlore, told_by};

#[test]
fn records_that_wait_are_shown_and_replayed_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = || {
        let mut command = runlore();
        command.current_dir(&folder).env("RUNLORE_RECORDER__SPOOL", "spool");
        command
    };
    fs::write(folder.path().join("runlore"), "in the way").unwrap();
    let told = told_by(here().arg("demo"));
    assert!(told.contains("records wait in") && told.contains("recorded run"), "{told}");

    let doctor = here().args(["doctor", "mem", "--json"]).output().unwrap();
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert!(doctor["spools"][0]["bytes"].as_u64() > Some(1000), "{}", doctor["spools"]);
    let told = told_by(here().args(["doctor", "mem"]));
    assert!(told.contains("of records wait for"), "{told}");

    let refused = told_by(here().args(["replay", "spool", "--to", "runlore"]));
    assert!(refused.contains("exit code Some(1)"), "{refused}");
    fs::remove_file(folder.path().join("runlore")).unwrap();
    let told = told_by(here().args(["replay", "spool", "--to", "runlore"]));
    assert!(told.starts_with("wrote 9 records, "), "{told}");
    let told = told_by(here().args(["replay", "spool", "--to", "runlore"]));
    assert_eq!(told, "nothing waits in spool\n");
    let told = told_by(here().arg("ls"));
    assert!(told.contains("demo") && told.contains("FINISHED"), "{told}");
}
