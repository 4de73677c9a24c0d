//! `replay`: what could not be stored is stored later.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{data, runlore, told_by};

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
    assert!(told.starts_with("wrote 9 records to runlore, from "), "{told}");
    let told = told_by(here().args(["replay", "spool", "--to", "runlore"]));
    assert_eq!(told, "nothing waits in spool\n");
    let told = told_by(here().arg("ls"));
    assert!(told.contains("demo") && told.contains("FINISHED"), "{told}");
}

/// A folder with settings that enable files and a database, in place of which there is one of a newer version.
fn two_stores() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("runlore")).unwrap();
    let database = folder.path().join("runlore/runlore.db");
    let copied = runlore().arg("copy").arg(data()).arg(&database).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let mut newer = fs::read(&database).unwrap();
    // Where a file of SQLite has its user version.
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&database, newer).unwrap();
    let settings = "databases:\n  sqlite:\n    enabled: yes\n";
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    folder
}

fn sizes_hidden(folder: &Path) -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[\d.]+ (B|KiB|MiB)\b", "[bytes]");
    settings.add_filter(r"\d+ repeated notices", "[some] repeated notices");
    settings.add_filter(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[id]");
    let real = folder.canonicalize().unwrap();
    settings.add_filter(&real.display().to_string(), "HERE");
    settings.add_filter(&folder.display().to_string(), "HERE");
    settings.bind_to_scope()
}

#[test]
fn what_waits_for_another_store_is_told_and_left_to_it() {
    let folder = two_stores();
    let _settings = sizes_hidden(folder.path());
    let here = |args: &[&str]| told_by(runlore().current_dir(&folder).args(args));
    insta::assert_snapshot!(here(&["demo"]), @r#"
    recorded run [id]; 9 records wait on disk: `runlore doctor` shows for which store and why
    --- stderr
    runlore: HERE/runlore/runlore.db was made by a newer version of Runlore (tables of version 99, this one knows 1): use that version, or another file; records are kept, and it is tried again
    runlore: 9 records wait in HERE/runlore/.spool for their store: the next run writes them, or `runlore replay`
    runlore: [some] repeated notices are not shown
    "#);
    fs::remove_file(folder.path().join("runlore/runlore.db")).unwrap();
    insta::assert_snapshot!(here(&["replay", "runlore", "--to", "runlore"]), @r#"
    nothing waits in runlore for runlore
    [bytes] of records wait for sqlite://HERE/runlore/runlore.db: `runlore replay runlore --to sqlite://HERE/runlore/runlore.db`
    --- exit code Some(2)
    "#);
    let to = "sqlite://runlore/runlore.db";
    insta::assert_snapshot!(here(&["replay", "runlore", "--to", to]), @r#"wrote 9 records to sqlite://runlore/runlore.db, from [bytes] in the spool"#);
    insta::assert_snapshot!(here(&["replay", "runlore", "--to", to]), @r#"nothing waits in runlore"#);
    for store in ["runlore", to] {
        let runs = here(&["--store", store, "ls"]);
        assert!(runs.contains("demo") && runs.contains("FINISHED"), "{runs}");
    }
}

#[test]
fn what_was_meant_for_a_store_that_is_gone_goes_where_one_says() {
    let folder = two_stores();
    let _settings = sizes_hidden(folder.path());
    let here = |args: &[&str]| told_by(runlore().current_dir(&folder).args(args));
    here(&["demo"]);
    fs::remove_file(folder.path().join("runlore/runlore.db")).unwrap();
    let redirect = ["replay", "runlore", "--from", "runlore/runlore.db", "--to", "runlore"];
    insta::assert_snapshot!(here(&redirect), @r#"
    wrote 0 records to runlore, from [bytes] in the spool
    9 records were already there
    "#);
    insta::assert_snapshot!(here(&redirect), @r#"nothing waits in runlore"#);
}

#[test]
fn a_folder_that_is_not_there_and_a_spool_that_is_damaged_are_told() {
    let folder = two_stores();
    let _settings = sizes_hidden(folder.path());
    let here = |args: &[&str]| told_by(runlore().current_dir(&folder).args(args));
    insta::assert_snapshot!(here(&["replay", "nosuch", "--to", "runlore"]), @r#"
    --- stderr
    runlore: the folder nosuch does not exist; nothing was replayed
    --- exit code Some(1)
    "#);
    here(&["demo"]);
    let spool = fs::read_dir(folder.path().join("runlore/.spool")).unwrap();
    let mut files = spool.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "spool")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[50] ^= 1;
    fs::write(&file, bytes).unwrap();
    insta::assert_snapshot!(here(&["replay", "runlore", "--to", "runlore"]), @r#"
    nothing waits in runlore for runlore
    --- stderr
    runlore: a spool is damaged where it names its store: `runlore replay runlore --from '' --to URI` writes its records to one that you name
    --- exit code Some(1)
    "#);
    let doctor = here(&["doctor", "mem"]);
    assert!(doctor.contains("--from '' --to URI"), "{doctor}");
    assert!(doctor.ends_with("--- exit code Some(2)\n"), "{doctor}");
    insta::assert_snapshot!(here(&["replay", "runlore", "--from", "", "--to", "rescued"]), @r#"
    wrote 9 records to rescued, from [bytes] in the spool
    --- stderr
    runlore: runlore/.spool/[id].1.damaged is damaged: what could be read of it was replayed, and it is kept
    "#);
    let runs = here(&["--store", "rescued", "ls"]);
    assert!(runs.contains("demo") && runs.contains("FINISHED"), "{runs}");
}
