//! Captures of this machine, and what may happen to their files.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use runlore::settings::{Search, TelemetrySettings};
use runlore::telemetry::{
    Process, SensorState, Snapshot, Telemetry, TelemetryCapture, TelemetryType, Types, usage,
};
use serde_json::Value;

use crate::support::{child, expect_success, finished_in_time, is_child};

fn settings(text: &str) -> TelemetrySettings {
    let loaded = Search::nowhere().text("settings.yaml", text).load();
    assert!(loaded.problems().is_empty(), "{:?}", loaded.problems());
    loaded.settings.telemetry_capture
}

fn everything() -> TelemetryCapture {
    let capture = TelemetryCapture::new(Types::host());
    std::thread::sleep(Duration::from_millis(11));
    capture
}

fn process(capture: &TelemetryCapture) -> Process {
    let now = capture.capture();
    now.process.unwrap_or_else(|| panic!("{:?}", now.unavailable))
}

/// Runs the rest of a test alone in a process, where no other test opens and closes files.
fn alone(test: &str, work: impl FnOnce()) {
    if is_child(test) {
        work();
    } else {
        expect_success(&finished_in_time(child(test)));
    }
}

/// The paths of all values; what stands under the name of a device is under `*`.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            let is_by_name =
                ["io_per_disk", "netio_per_interface"].iter().any(|end| path.ends_with(end));
            for (key, value) in entries {
                let key = if is_by_name { "*" } else { key };
                paths(value, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn paths_of(telemetry: &Telemetry) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    paths(&serde_json::to_value(telemetry).unwrap(), "", &mut found);
    found
}

#[test]
fn every_key_of_flowcept_is_there() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flowcept/workflow.jsonl");
    let mut theirs = BTreeSet::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        for key in ["telemetry_at_start", "telemetry_at_end"] {
            if let Some(telemetry) = record.get(key) {
                paths(telemetry, "", &mut theirs);
            }
        }
    }
    assert!(theirs.len() > 90, "{theirs:?}");
    let now = everything().capture();
    let ours = paths_of(&now);
    // This machine may lack disks, traffic or a clock that can be read; then it says so, or lists no device.
    let is_told = |path: &&String| {
        let of_device = path.split_once(".*").is_some_and(|(list, _)| ours.contains(list));
        of_device || now.reason(&path[1..]).is_some()
    };
    let missing: Vec<_> = theirs.difference(&ours).filter(|path| !is_told(path)).collect();
    assert!(missing.is_empty(), "{missing:?}, because {:?}", now.unavailable);
}

#[test]
fn settings_choose_the_types() {
    let capture = TelemetryCapture::configured(&settings(
        "telemetry_capture: {cpu: no, per_cpu: ~, process_info: no, mem: no, disk: yes, network: no}",
    ));
    let now = capture.capture();
    assert!(now.disk.is_some());
    assert_eq!(now, Telemetry::clone(&now));
    assert!(
        now.cpu.is_none() && now.process.is_none() && now.memory.is_none() && now.network.is_none()
    );
    let mut of_task = Vec::new();
    capture.capture_into(Types::from([TelemetryType::Mem]), &mut of_task);
    let of_task = Snapshot(&of_task).decode().unwrap();
    assert!(of_task.memory.is_some() && of_task.disk.is_none());
}

#[test]
fn a_young_capture_is_shared() {
    let shared =
        TelemetryCapture::configured(&settings("telemetry_capture: {max_age: 1h, disk: yes}"));
    let first = shared.capture();
    assert_eq!(std::thread::spawn(move || shared.capture()).join().unwrap(), first);
    let fresh = TelemetryCapture::configured(&settings("telemetry_capture: {disk: yes}"));
    assert_ne!(fresh.capture(), first);
}

#[test]
fn captures_may_be_taken_while_a_thread_ends() {
    struct AtEnd(TelemetryCapture);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            assert!(self.0.capture().memory.is_some());
        }
    }
    thread_local!(static AT_END: std::cell::OnceCell<AtEnd> = const { std::cell::OnceCell::new() });
    let thread = std::thread::spawn(|| {
        let capture = everything();
        capture.capture();
        AT_END.with(|place| place.set(AtEnd(capture)).is_ok())
    });
    assert!(thread.join().unwrap());
}

#[test]
fn what_this_process_has_open_is_counted() {
    alone("telemetry::what_this_process_has_open_is_counted", || {
        let capture = everything();
        let before = process(&capture);
        let counts = |process: &Process| {
            [process.num_open_file_descriptors, process.num_open_files, process.num_connections]
                .map(|count| count.unwrap() as i64)
        };
        let change = || {
            let (now, before) = (counts(&process(&capture)), counts(&before));
            [now[0] - before[0], now[1] - before[1], now[2] - before[2]]
        };
        assert_eq!(change(), [0, 0, 0], "our own are not counted");

        let files: Vec<_> = (0..100).map(|_| File::open("/proc/self/exe").unwrap()).collect();
        assert_eq!(change(), [100, 100, 0]);
        let folder = File::open("/").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let udp = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        let local = UnixStream::pair().unwrap();
        assert_eq!(change(), [106, 100, 3]);
        // One that has no address is no connection.
        let unbound = socket();
        assert_eq!(change(), [107, 100, 3]);
        drop((files, folder, listener, connected, udp, local, unbound));
        assert_eq!(change(), [0, 0, 0]);

        // Numbers far apart.
        let file = File::open("/proc/self/exe").unwrap();
        let far = duplicate(&file, 900);
        assert!(far.as_raw_fd() >= 900);
        assert_eq!(change(), [2, 2, 0]);
        assert_eq!(change(), [2, 2, 0], "the same again");
        // As many as before, but others.
        let folder = File::open("/").unwrap();
        drop(file);
        assert_eq!(change(), [2, 1, 0]);
        drop(far);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(change(), [2, 0, 1]);
        drop((folder, listener));
        assert_eq!(change(), [0, 0, 0]);
    });
}

#[test]
fn a_descriptor_that_was_closed_is_noticed() {
    alone("telemetry::a_descriptor_that_was_closed_is_noticed", || {
        // What was inherited would be closed below.
        close_all();
        // More than the other process is likely to have.
        let kept = std::hint::black_box(vec![1_u8; 64 << 20]);
        let capture = everything();
        let complete = capture.capture();
        let before = process(&capture);
        let process_only = TelemetryCapture::new(Types::from([TelemetryType::ProcessInfo]));
        for round in 0..7 {
            // Ours get the lowest numbers, and are then known to be ours.
            close_all();
            _ = (capture.capture(), capture.capture());
            close_all();
            // Their numbers go to other files: some that cannot be read, some that look alike.
            let others: Vec<File> = match round {
                0 => Vec::new(),
                1 => (0..30).map(|_| of_parent("statm")).collect(),
                2 => (0..30).map(|_| of_parent("io")).collect(),
                3 | 4 => (0..15).flat_map(|_| [of_parent("io"), of_parent("statm")]).collect(),
                _ => (0..15).flat_map(|_| [of_parent("statm"), of_parent("io")]).collect(),
            };
            // Whoever looks first must notice.
            let near = |rss: u64| {
                let earlier = before.memory.as_ref().unwrap().rss;
                assert!(rss.abs_diff(earlier) < 8 << 20, "{rss} against {earlier}");
            };
            match round {
                3 | 5 => near(usage::process().rss.unwrap()),
                4 | 6 => near(process(&process_only).memory.unwrap().rss),
                _ => {}
            }
            let now = capture.capture();
            assert_eq!(now.unavailable, complete.unavailable);
            assert_eq!(paths_of(&now), paths_of(&complete));
            let now = now.process.unwrap();
            assert_eq!(
                now.num_open_file_descriptors.unwrap(),
                before.num_open_file_descriptors.unwrap() + others.len() as u64
            );
            near(now.memory.unwrap().rss);
            // Nobody's file was closed.
            others.iter().for_each(|file| _ = file.metadata().unwrap());
        }
        drop(kept);
    });
}

#[test]
fn a_forked_child_reads_its_own_files() {
    alone("telemetry::a_forked_child_reads_its_own_files", || {
        let capture = everything();
        let of_parent = process(&capture);
        let kept = std::hint::black_box(vec![1_u8; 32 << 20]);
        let failed = in_fork(|| {
            let child = process(&capture);
            assert_eq!(child.pid, u64::from(std::process::id()));
            assert_ne!(child.pid, of_parent.pid);
            assert_eq!(child.num_threads, Some(1));
            assert_eq!(child.num_open_file_descriptors, of_parent.num_open_file_descriptors);
            let io = child.io_counters.unwrap();
            assert!(io.read_chars < of_parent.io_counters.as_ref().unwrap().read_chars);
            assert_eq!(usage::process().read_bytes, io.read_bytes);
        });
        assert_eq!(failed, 0, "see above");
        assert_eq!(process(&capture).pid, of_parent.pid);
        drop(kept);
    });
}

#[test]
fn many_threads_capture_at_once() {
    let capture = everything();
    let missing = capture.capture().unavailable;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let now = capture.capture();
                    assert_eq!(now.unavailable, missing);
                    assert!(now.cpu.unwrap().percent_all.unwrap() <= 100.0);
                }
            });
        }
    });
}

#[allow(unsafe_code)]
fn socket() -> OwnedFd {
    // SAFETY: a new socket, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)) }
}

#[allow(unsafe_code)]
fn duplicate(file: &File, least: i32) -> OwnedFd {
    // SAFETY: a new descriptor, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least)) }
}

/// A file that looks like our own, and is another process's.
fn of_parent(name: &str) -> File {
    File::open(format!("/proc/{}/{name}", std::os::unix::process::parent_id())).unwrap()
}

/// As a daemon does.
#[allow(unsafe_code)]
fn close_all() {
    for number in 3..200 {
        // SAFETY: only what captures hold is open here, and they must bear it.
        unsafe { libc::close(number) };
    }
}

/// The exit code of a child that does this.
#[allow(unsafe_code)]
fn in_fork(work: impl FnOnce()) -> i32 {
    // SAFETY: the child does its work and ends without returning.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for that child.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    libc::WEXITSTATUS(status)
}

#[test]
fn every_field_is_a_sensor_with_a_value_or_a_reason() {
    let capture = everything();
    let sensors = capture.sensors();
    let mut known = BTreeSet::new();
    for sensor in &sensors {
        known.insert(format!(".{}", sensor.field));
        assert!(!sensor.source.is_empty());
        if let SensorState::Missing { reason, .. } = &sensor.state {
            assert_ne!(reason, "it was not captured", "{}", sensor.field);
        }
    }
    assert_eq!(known.len(), sensors.len(), "no field twice");
    // Lists and devices are one sensor each.
    let short = |path: &String| {
        let end = path.find("[]").or_else(|| path.find(".*")).unwrap_or(path.len());
        path[..end].to_owned()
    };
    let mut captured: BTreeSet<_> = paths_of(&capture.capture()).iter().map(short).collect();
    // A container is there only where the process is in one; reasons are no fields.
    captured.retain(|path| !path.starts_with(".container") && !path.starts_with(".unavailable"));
    let unknown: Vec<_> = captured.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let silent: Vec<_> = known.difference(&captured).collect();
    assert!(silent.iter().all(|field| {
        let found = sensors.iter().find(|sensor| sensor.field == field[1..]);
        matches!(found.unwrap().state, SensorState::Missing { .. })
    }));
}
