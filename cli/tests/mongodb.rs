//! Records in MongoDB, for which the program is built with a feature.

use crate::support::{runlore, told_by};

#[cfg(not(feature = "mongodb"))]
#[test]
fn a_program_that_is_built_without_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = ["--store", "mongodb://localhost/lab"];
    for command in ["ls", "demo"] {
        let told = told_by(runlore().current_dir(&folder).args(store).arg(command));
        assert!(told.contains("built without `mongodb://`"), "{told}");
        assert!(told.contains("`cargo install --path cli --features mongodb`"), "{told}");
        assert!(told.contains("exit code Some(1)"), "{told}");
    }
}

#[cfg(not(feature = "mongodb"))]
#[test]
fn of_the_stores_in_the_settings_one_that_it_can_open_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let set = |databases: &str| {
        std::fs::write(folder.path().join("settings.yaml"), databases).unwrap();
    };
    set("databases:\n  mongodb:\n    enabled: yes\n");
    told_by(runlore().current_dir(&folder).args(["--store", "runlore", "demo"]));
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("which this program is built without; ./runlore is read"), "{told}");
    assert!(told.contains("`cargo install --path cli --features mongodb`"), "{told}");
    assert!(told.contains("demo") && !told.contains("exit code"), "{told}");
    set("databases:\n  mongodb:\n    enabled: yes\n  jsonl:\n    enabled: no\n");
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("built without `mongodb://`"), "{told}");
    assert!(told.contains("exit code Some(1)"), "{told}");
}

#[cfg(feature = "mongodb")]
#[test]
fn the_server_of_the_settings_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let databases = "databases:\n  mongodb:\n    enabled: yes\n    port: 1\n    db: lab\n";
    std::fs::write(folder.path().join("settings.yaml"), databases).unwrap();
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("no MongoDB server answers at mongodb://localhost:1/lab"), "{told}");
}

/// Whether there is a server or not: this one is away.
#[cfg(feature = "mongodb")]
#[test]
fn a_server_that_is_away_is_told_and_what_waits_for_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| {
        let mut command = runlore();
        command.current_dir(&folder).args(["--store", "mongodb://ann:hunter2@localhost:1/lab"]);
        command.args(args);
        command
    };
    let told = told_by(&mut here(&["demo"]));
    assert!(told.contains("records wait in") && told.contains("recorded run"), "{told}");
    let doctor = here(&["doctor", "mem", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(report["stores"][0]["answers"], false);
    let reason = report["stores"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no MongoDB server answers at mongodb://"), "{reason}");
    let spool = &report["spools"][0];
    assert!(spool["store"].as_str().unwrap().ends_with("localhost:1/lab"), "{spool}");
    let text = told_by(&mut here(&["doctor", "mem"]));
    assert!(text.contains("no MongoDB server answers at"), "{text}");
    assert!(text.contains("of records wait for mongodb://"), "{text}");
    let to = "mongodb://ann:hunter2@localhost:1/other";
    let replayed = told_by(&mut here(&["replay", "runlore/mongodb", "--to", to]));
    assert!(replayed.contains("localhost:1/other") && replayed.contains("--to"), "{replayed}");
    assert!(!format!("{told}{report}{text}{replayed}").contains("hunter2"));
}
