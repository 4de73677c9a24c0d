//! Row 8: one send each 50 µs, which finds the other side asleep.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::clock::{MARK, mark};
use crate::compare::command;
use crate::measure::{Report, quantile};
use crate::peers::ours;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const P99: &str = "p99";
const MEDIAN: &str = "median";
const CALLS: &str = "system calls";

/// Time between two sends.
const PACE: Duration = Duration::from_micros(50);
const SENDS: usize = 20_000;
/// Sends while system calls are counted.
const TRACED: usize = 4_000;

pub(crate) static ROW: Row = Row {
    number: 8,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "thingbuf", run: thingbuf },
        Contender { name: "ours, traced", run: traced },
    ],
    lines: &[
        line("a whole task each 50 µs, 99th percentile", P99, Bound::AtMost(2.0)),
        line("a whole task each 50 µs, median", MEDIAN, Bound::None),
        Line {
            what: "system calls of the caller in 4,000 such tasks",
            ours: Value::of("ours, traced", CALLS),
            theirs: None,
            unit: Unit::Count,
            bound: Bound::Below(0.0),
        },
    ],
};

const fn line(what: &'static str, case: &'static str, bound: Bound) -> Line {
    Line {
        what,
        ours: Value::of("ours", case),
        theirs: Some(("thingbuf, one send, polled", Value::of("thingbuf", case))),
        unit: Unit::Nanoseconds,
        bound,
    }
}

/// Waits for the next moment without a system call.
fn paced(sends: usize, mut send: impl FnMut()) -> Vec<f64> {
    let mut times = Vec::with_capacity(sends);
    let mut next = Instant::now();
    for _ in 0..sends {
        next += PACE;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
        let before = Instant::now();
        send();
        times.push(before.elapsed().as_nanos() as f64);
    }
    times
}

fn tell(report: &mut Report, mut times: Vec<f64>) {
    report.add(P99, quantile(&mut times, 0.99));
    report.add(MEDIAN, quantile(&mut times, 0.5));
}

fn ours(report: &mut Report) {
    let run = ours::to_nowhere();
    paced(2_000, ours::leaf);
    tell(report, paced(SENDS, ours::leaf));
    ours::finish(run, SENDS as u64 + 2_000);
}

fn thingbuf(report: &mut Report) {
    // About as many bytes as the two events of a task.
    let (sender, receiver) = thingbuf::mpsc::blocking::channel::<[u64; 14]>(4096);
    let consumer = std::thread::spawn(move || {
        use thingbuf::mpsc::errors::TryRecvError;
        let mut count = 0;
        loop {
            match receiver.try_recv() {
                Ok(record) => count += record[0],
                Err(TryRecvError::Closed) => return count,
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    });
    let send = || sender.try_send([1; 14]).expect("the channel has room");
    paced(2_000, send);
    tell(report, paced(SENDS, send));
    drop(sender);
    assert_eq!(consumer.join().expect("the consumer ends"), SENDS as u64 + 2_000);
}

/// Counts the caller's system calls with `strace`, which follows the first thread only unless told otherwise.
fn traced(report: &mut Report) {
    const INSIDE: &str = "RUNLORE_BENCH_TRACED";
    if std::env::var_os(INSIDE).is_some() {
        let run = ours::to_nowhere();
        paced(2_000, ours::leaf);
        let mut times = Vec::with_capacity(TRACED);
        mark();
        paced_without_allocating(&mut times);
        mark();
        ours::finish(run, (TRACED + 2_000) as u64);
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("strace is not there: system calls are not counted");
        return;
    }
    let again = command(&ROW, "ours, traced").expect("this program has a path");
    let traced = Command::new("strace")
        .args(["-o", "calls.txt", "--"])
        .args(again)
        .env(INSIDE, "1")
        .output()
        .expect("strace runs");
    if !traced.status.success() {
        eprintln!("strace may not trace here: {}", String::from_utf8_lossy(&traced.stderr).trim());
        return;
    }
    let calls = std::fs::read_to_string("calls.txt").expect("strace has written");
    let inside = calls.lines().skip_while(|line| !line.starts_with(MARK)).skip(1);
    let count = inside.take_while(|line| !line.starts_with(MARK)).count();
    report.add(CALLS, count as f64);
}

/// The paced tasks, into a buffer that is there already.
fn paced_without_allocating(times: &mut Vec<f64>) {
    let mut next = Instant::now();
    while times.len() < times.capacity() {
        next += PACE;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
        ours::leaf();
        times.push(0.0);
    }
}
