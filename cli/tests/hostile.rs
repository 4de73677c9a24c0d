//! Folders that somebody else may have filled, and stores that are none: one bad file costs that file, and nothing hangs.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::runlore;

/// Far beyond what any command takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the program, which must end by itself.
fn ended(command: &mut Command) -> Output {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while process.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            process.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    process.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

const RECORDS: &str = concat!(
    r#"{"type":"workflow","workflow_id":"w1","name":"good","status":"FINISHED","started_at":1.0,"ended_at":3.0}"#,
    "\n",
    r#"{"type":"task","task_id":"t1","workflow_id":"w1","activity_id":"fit","status":"FINISHED","started_at":1.0,"ended_at":2.0}"#,
    "\n",
);

#[test]
fn one_bad_file_costs_that_file_and_is_told_once() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("store")).unwrap();
    fs::write(at("store/good.jsonl"), RECORDS).unwrap();
    fs::write(at("outside.jsonl"), RECORDS.replace("w1", "secret")).unwrap();
    std::os::unix::fs::symlink(at("outside.jsonl"), at("store/link.jsonl")).unwrap();
    fs::create_dir(at("store/folder.jsonl")).unwrap();
    pipe(&at("store/pipe.jsonl"));

    let commands: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["tasks"],
        &["tree"],
        &["show", "t1"],
        &["stats"],
        &["query", "{}"],
        &["analyze"],
        &["compare", "good", "good"],
        #[cfg(feature = "report")]
        &["report", "-o", "report.html"],
        &["copy", "store", "copied"],
    ];
    for arguments in commands {
        let mut command = runlore();
        command.current_dir(folder.path()).args(*arguments);
        if arguments[0] != "copy" {
            command.args(["--store", "store"]);
        }
        let output = ended(&mut command);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        for (name, reason) in [
            ("link.jsonl", "is a link out of its folder"),
            ("folder.jsonl", "is a folder"),
            ("pipe.jsonl", "is a pipe"),
        ] {
            let about: Vec<&str> = told.lines().filter(|line| line.contains(name)).collect();
            assert!(about.len() == 1 && about[0].contains(reason), "{arguments:?}: {told}");
        }
        assert!(!text(&output.stdout).contains("secret"), "{arguments:?}");
    }
    let copied = ended(runlore().current_dir(folder.path()).args(["--store", "copied", "ls"]));
    assert!(text(&copied.stdout).contains("good"), "{copied:?}");
}

#[test]
fn a_pipe_or_a_device_is_no_store() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("good")).unwrap();
    fs::write(folder.path().join("good/good.jsonl"), RECORDS).unwrap();
    pipe(&folder.path().join("pipe"));
    pipe(&folder.path().join("pipe.db"));
    let whole = |name: &str| folder.path().join(name).display().to_string();
    let stores = [
        ("/dev/zero".to_owned(), "a device"),
        ("jsonl:///dev/zero".to_owned(), "a device"),
        ("sqlite:///dev/zero".to_owned(), "a device"),
        ("pipe".to_owned(), "a pipe"),
        ("pipe.db".to_owned(), "a pipe"),
        (format!("jsonl://{}", whole("pipe")), "a pipe"),
        (format!("sqlite://{}", whole("pipe.db")), "a pipe"),
    ];
    for (store, kind) in &stores {
        let commands: &[&[&str]] = &[
            &["--store", store, "ls"],
            &["--store", store, "tree"],
            &["--store", store, "query", "{}"],
            &["--store", store, "recover"],
            &["--store", store, "demo"],
            &["--store", store, "run", "--", "true"],
            &["copy", store, "copied"],
            &["copy", "good", store],
        ];
        for arguments in commands {
            let output = ended(runlore().current_dir(folder.path()).args(*arguments));
            let told = text(&output.stderr);
            // As other programs that start programs do.
            let code = if arguments.contains(&"run") { 125 } else { 1 };
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
            assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
            assert!(told.contains(&format!("is {kind}: a store is ")), "{arguments:?}: {told}");
        }
        let doctor = ended(runlore().current_dir(folder.path()).args(["--store", store, "doctor"]));
        assert!(text(&doctor.stdout).contains(&format!("is {kind}")), "{store}: {doctor:?}");
    }
    // Nothing is left where a device is.
    assert!(!Path::new("/dev/.spool").exists() && !Path::new("/dev/.rings").exists());
}
