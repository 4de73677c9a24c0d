//! A program that aborts when it panics still leaves its records.
//!
//! It must be compiled apart, with everything it depends on: `tests/reliability` does that, and names the program in
//! `RUNLORE_TEST_PANIC_ABORT`.

#![cfg(unix)]

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use runlore::record::Status;
use runlore::store::jsonl;
use tempfile::TempDir;

use crate::support::{finished_in_time, skipped, tried};

#[test]
fn a_program_that_aborts_over_a_panic_keeps_its_records() {
    let what = "panic=abort";
    let Ok(program) = std::env::var("RUNLORE_TEST_PANIC_ABORT") else {
        return skipped(what, "`tests/reliability` builds the program that it needs");
    };
    let places = ["in main", "in a thread", "with a hook before", "with a hook after"];
    for place in places.into_iter().chain(["outside any task"]) {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(&program);
        command.arg(folder.path()).arg(place);
        command.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
        let output = finished_in_time(command);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{place}: {output:?}");
        let hooks = String::from_utf8(output.stdout).unwrap().matches("hook: ").count();
        assert_eq!(hooks, usize::from(place.contains("hook")), "{place}");

        let loaded = jsonl::load(folder.path()).unwrap();
        assert!(loaded.problems.is_empty(), "{place}: {:?}", loaded.problems);
        let status = |name: &str| {
            loaded.tasks.iter().find(|task| task.name() == name).and_then(|task| task.status)
        };
        assert_eq!(status("works"), Some(Status::Finished), "{place}");
        if place != "outside any task" {
            assert_eq!(status("panics"), Some(Status::Error), "{place}");
            assert_eq!(status("around"), Some(Status::Running), "{place}");
            let panics = loaded.tasks.iter().find(|task| task.name() == "panics").unwrap();
            let error = panics.error.as_ref().unwrap();
            assert_eq!(error.kind.as_deref(), Some("panic"), "{place}");
            assert_eq!(error.message.as_deref(), Some("no way on"), "{place}");
        }
        let workflow = &loaded.workflows[0];
        assert_eq!(workflow.status, Some(Status::Error), "{place}");
        assert_eq!(
            workflow.stderr.as_deref(),
            Some("the process was aborted by a panic"),
            "{place}"
        );
    }
    tried(what, "5 places to panic");
}

#[cfg(feature = "sqlite")]
#[test]
fn so_does_one_that_records_into_a_database() {
    let what = "panic=abort, into an SQLite file";
    let Ok(program) = std::env::var("RUNLORE_TEST_PANIC_ABORT") else {
        return skipped(what, "`tests/reliability` builds the program that it needs");
    };
    let places = ["in main", "in a thread", "outside any task"];
    for place in places {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.db");
        let mut command = Command::new(&program);
        command.arg(format!("sqlite://{}", path.display())).arg(place);
        command.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
        let output = finished_in_time(command);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{place}: {output:?}");
        let source = runlore::store::sqlite::SqliteSource::open(&path).unwrap();
        let records: Vec<_> = source.records().map(Result::unwrap).collect();
        let tasks = records.iter().filter_map(|record| record.as_task());
        let works = tasks.filter(|task| task.name() == "works");
        let ended = works.filter(|task| task.status == Some(Status::Finished)).count();
        assert!(ended > 0, "{place}");
        let mut workflows = records.iter().filter_map(|record| record.as_workflow());
        assert_eq!(workflows.next().unwrap().status, Some(Status::Error), "{place}");
    }
    tried(what, format!("{} places", places.len()));
}
