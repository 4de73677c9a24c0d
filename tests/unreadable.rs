//! A folder of records with a file that may not be read: that file is left out, everything else is read.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use runlore::Provenance;
use runlore::store::jsonl;
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child};

const READS: &str = "unreadable::reads";

#[test]
fn one_unreadable_file_costs_that_file() {
    let folder = TempDir::new().unwrap();
    let may = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    may(folder.path(), 0o777);
    let record = |run: &str| {
        format!(
            "{{\"type\":\"workflow\",\"workflow_id\":\"{run}\",\"status\":\"FINISHED\"}}\n\
             {{\"type\":\"task\",\"task_id\":\"{run}-task\",\"workflow_id\":\"{run}\",\"status\":\"FINISHED\"}}\n"
        )
    };
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    may(&store, 0o777);
    for (name, mode) in [("a", 0o644), ("b", 0o000), ("b.open", 0o000), ("c", 0o644)] {
        let path = store.join(format!("{name}.jsonl"));
        fs::write(&path, record(name)).unwrap();
        may(&path, mode);
    }
    let mut command = child(READS);
    command.env("FOLDER", folder.path());
    expect_success(&finished_in_time(command));
}

#[test]
fn reads() {
    if !is_child(READS) {
        return;
    }
    become_nobody_where_root();
    let folder = std::env::var_os("FOLDER").unwrap();
    let store = Path::new(&folder).join("store");

    let loaded = jsonl::load(&store).unwrap();
    assert_eq!((loaded.tasks.len(), loaded.workflows.len(), loaded.problems.len()), (2, 2, 2));
    let text = loaded.problems[1].to_string();
    assert!(text.contains("b.jsonl, which is left out: Permission denied"), "{text}");

    let records = Provenance::open(&store).unwrap();
    assert_eq!(records.runs().unwrap().len(), 2);
    assert_eq!(records.list_runs().unwrap().len(), 2);
    assert_eq!(records.tasks().to_vec().unwrap().len(), 2);
    assert!(records.task("c-task").unwrap().is_some());
    assert_eq!(records.tree("c").unwrap().walk().count(), 2);
    assert_eq!(records.problems().len(), 2, "{:?}", records.problems());

    let copied = records.copy_to(Path::new(&folder).join("copy"), |_| ()).unwrap();
    assert_eq!((copied.tasks, copied.workflows), (2, 2));
    // What a copy finds in its destination may be unreadable too.
    fs::write(store.join("d.jsonl"), "{\"type\":\"task\",\"task_id\":\"d\"}\n").unwrap();
    let there = Path::new(&folder).join("copy/x.jsonl");
    fs::write(&there, "").unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o000)).unwrap();
    let copied = records.copy_to(Path::new(&folder).join("copy"), |_| ()).unwrap();
    assert_eq!((copied.tasks, copied.already_there), (1, 4));

    // A file that is named, and is all there is, is an error.
    let error = jsonl::read(store.join("b.jsonl")).err().unwrap();
    assert_eq!(error.kind(), runlore::ErrorKind::Store);
    runlore::recover(&store).unwrap();
}

/// Root may read everything.
#[allow(unsafe_code)]
fn become_nobody_where_root() {
    const NOBODY: u32 = 65534;
    // SAFETY: no memory is involved; glibc does it for all threads.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setgid(NOBODY), 0);
            assert_eq!(libc::setuid(NOBODY), 0);
        }
    }
}
