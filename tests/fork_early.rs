//! A process that forks while another of its threads begins to record: the child hangs on nothing half made.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::thread;
use std::time::Duration;

use runlore::store::MemoryStore;
use runlore::telemetry_task;

use crate::support::{child, expect_success, finished_in_time, is_child, tried};

const FORKS: &str = "fork_early::a_child_forked_while_a_thread_starts_the_recorder_records";
const PROCESSES: u64 = 6;

#[telemetry_task]
fn work(n: u64) -> u64 {
    n + 1
}

fn record() -> usize {
    let store = MemoryStore::new();
    let run = runlore::workflow("early").store(store.clone()).start().unwrap();
    work(1);
    run.finish().unwrap();
    store.tasks().len()
}

#[test]
fn a_child_forked_while_a_thread_starts_the_recorder_records() {
    if !is_child(FORKS) {
        for pause in 0..PROCESSES {
            let mut command = child(FORKS);
            command.env("PAUSE", (pause * 300).to_string());
            command.env("RUNLORE_TELEMETRY_CAPTURE__MAX_OVERHEAD_PERCENT", "5");
            expect_success(&finished_in_time(command));
        }
        return tried("forks while the recorder starts", format!("{PROCESSES} processes"));
    }
    let starting = thread::spawn(record);
    let pause: u64 = std::env::var("PAUSE").unwrap().parse().unwrap();
    thread::sleep(Duration::from_micros(pause));
    let children: Vec<_> = (0..3).map(|_| fork_and_record()).collect();
    assert_eq!(starting.join().unwrap(), 1);
    for child in children {
        let mut status = 0;
        // SAFETY: `status` is a valid place, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "the child hung");
        assert_eq!(libc::WEXITSTATUS(status), 1);
    }
}

fn fork_and_record() -> libc::pid_t {
    // SAFETY: the child ends with `_exit`, and uses nothing that other threads of its parent hold but what is tested.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a plain system call; the alarm ends a child that hangs.
        unsafe { libc::alarm(60) };
        let recorded = record();
        // SAFETY: as above.
        unsafe { libc::_exit(recorded as i32) };
    }
    pid
}
