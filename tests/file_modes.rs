//! Who may read what is recorded: the owner, unless `recorder.file_mode` says otherwise, whatever the umask is.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use runlore::Provenance;
use runlore::telemetry_task;
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child};

const WORKS: &str = "file_modes::works";

#[telemetry_task]
fn fit(x: u64) -> u64 {
    x + 1
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Notes the permissions of all that is below a folder.
fn note(folder: &Path, seen: &mut BTreeMap<PathBuf, u32>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            note(&path, seen);
        }
        seen.insert(path.clone(), mode(&path));
    }
}

#[allow(unsafe_code)]
fn set_umask(umask: libc::mode_t) {
    // SAFETY: no memory is involved.
    unsafe { libc::umask(umask) };
}

/// Writes everything that the library writes.
#[test]
fn works() {
    if !is_child(WORKS) {
        return;
    }
    let umask = std::env::var("TEST_UMASK").unwrap();
    set_umask(libc::mode_t::from_str_radix(&umask, 8).unwrap());
    let folder = PathBuf::from(std::env::var_os("FOLDER").unwrap());
    let mut seen = BTreeMap::new();
    let mut run = runlore::workflow("modes").store(folder.join("new/records"));
    if cfg!(feature = "sqlite") {
        run = run.store(folder.join("new/base/runs.db"));
    }
    let run = run.start().unwrap();
    fit(1);
    runlore::flush().unwrap();
    // Queues, locks and logs too, and what SQLite has beside its file.
    note(&folder, &mut seen);
    assert!(seen.keys().any(|path| path.ends_with("log.jsonl")), "{seen:?}");
    run.finish().unwrap();
    let records = Provenance::open(folder.join("new/records")).unwrap();
    records.copy_to(folder.join("copies/files"), |_| ()).unwrap();
    #[cfg(feature = "sqlite")]
    {
        assert!(seen.keys().any(|path| path.ends_with("runs.db-wal")), "{seen:?}");
        records.copy_to(folder.join("copies/base/runs.db"), |_| ()).unwrap();
    }
    #[cfg(feature = "events")]
    write_events(&folder);
    note(&folder, &mut seen);

    let expected = std::env::var("EXPECTED").unwrap();
    let expected = u32::from_str_radix(&expected, 8).unwrap();
    for (path, mode) in &seen {
        let is_folder = path.is_dir()
            || path.ends_with(".rings")
            || path.parent().is_some_and(|it| it.ends_with(".rings"));
        let wanted = if is_folder { expected | (expected & 0o444) >> 2 } else { expected };
        assert_eq!(*mode, wanted, "{}: {mode:o} instead of {wanted:o}", path.display());
    }
}

#[cfg(feature = "events")]
fn write_events(folder: &Path) {
    use runlore::events::{self, Schema, SessionStatus, SessionSummary, SinkOptions, SinkWriter};
    let event = events::TelemetryEvent {
        session_id: "session".into(),
        timestamp_ns: 1_700_000_000_000_000_000,
        host: "host".into(),
        ..events::TelemetryEvent::default()
    };
    let session = SessionSummary::of(&event);
    let mut sink =
        SinkWriter::open(folder.join("new/sink"), SinkOptions::default(), session).unwrap();
    sink.append(&event).unwrap();
    sink.close(SessionStatus::Completed, 1_700_000_000_000_000_000).unwrap();
    events::save(folder.join("exports/events.json"), [&event], Schema::V4).unwrap();
    let writer = events::Writer::create(folder.join("exports/events.csv"), Schema::V4);
    writer.unwrap().finish().unwrap();
}

#[test]
fn only_the_owner_may_read_what_is_recorded() {
    for (file_mode, umask, expected) in [
        (None, "000", "600"),
        (None, "022", "600"),
        (Some("0640"), "077", "640"),
        (Some("660"), "022", "660"),
    ] {
        let folder = TempDir::new().unwrap();
        let mut command = child(WORKS);
        command.env("FOLDER", folder.path()).env("TEST_UMASK", umask).env("EXPECTED", expected);
        if let Some(mode) = file_mode {
            command.env("RUNLORE_RECORDER__FILE_MODE", mode);
        }
        expect_success(&finished_in_time(command));
    }
}

#[test]
fn what_is_there_keeps_its_permissions() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let is =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(at("records")).unwrap();
    is(&at("records"), 0o755);
    fs::write(at("page.html"), "before").unwrap();
    is(&at("page.html"), 0o644);

    let run = runlore::workflow("kept").store(at("records")).start().unwrap();
    fit(1);
    run.finish().unwrap();
    assert_eq!(mode(&at("records")), 0o755);
    runlore::store::write_file(at("page.html"), b"after").unwrap();
    runlore::store::create_file(at("page.html")).unwrap();
    assert_eq!(mode(&at("page.html")), 0o644);
    runlore::store::write_file(at("new.html"), b"new").unwrap();
    assert_eq!(mode(&at("new.html")), 0o600);
}
