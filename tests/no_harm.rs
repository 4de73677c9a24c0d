//! Limits of the system that must not reach the program through the recorder.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::fs::{self, File};

use runlore::telemetry_task;
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child};

const FULL_STDERR: &str = "no_harm::a_notice_to_a_full_file_does_not_end_the_program";
const NO_THREADS: &str = "no_harm::a_program_that_may_have_no_thread_runs_unrecorded";

#[telemetry_task]
fn work(n: u64) -> u64 {
    n + 1
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a valid limit, for this process only.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

#[test]
fn a_notice_to_a_full_file_does_not_end_the_program() {
    if is_child(FULL_STDERR) {
        limit(libc::RLIMIT_FSIZE, 10);
        let run = runlore::workflow("quiet").store(runlore::store::MemoryStore::new()).start();
        work(1);
        run.unwrap().finish().unwrap();
        return;
    }
    let folder = TempDir::new().unwrap();
    let stderr = folder.path().join("stderr");
    fs::write(&stderr, "0123456789").unwrap();
    let mut command = child(FULL_STDERR);
    // An impossible rank causes a notice on the thread that starts the workflow.
    command.env("RANK", "9").env("WORLD_SIZE", "4").current_dir(folder.path());
    command.stderr(File::options().append(true).open(&stderr).unwrap());
    let status = command.stdout(std::process::Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(fs::read_to_string(&stderr).unwrap(), "0123456789");
}

#[test]
fn a_program_that_may_have_no_thread_runs_unrecorded() {
    if is_child(NO_THREADS) {
        let size = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = size.split(' ').next().unwrap().parse().unwrap();
        // Room for a little memory, and not for the stack of a thread.
        limit(libc::RLIMIT_AS, pages * 4096 + (1 << 20));
        for _ in 0..2 {
            let run = runlore::workflow("poor").start().expect("the program goes on");
            assert_eq!(work(1), 2);
            run.finish().unwrap();
        }
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = child(NO_THREADS);
    command.current_dir(folder.path()).env("RUST_MIN_STACK", "8388608");
    let output = finished_in_time(command);
    expect_success(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    let notices = said.lines().filter(|line| line.contains("thread cannot be started"));
    assert_eq!(notices.count(), 1, "{said}");
    assert!(said.contains("nothing of \"poor\" is recorded"), "{said}");
}
