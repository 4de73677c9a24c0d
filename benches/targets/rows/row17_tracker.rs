//! Row 17: the tracker, its sink and the counting allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use runlore::alloc::CountingAllocator;
use runlore::events::SinkOptions;
use runlore::tracker::{Device, Tracker};

use crate::clock::process_cpu_ns;
use crate::measure::{Cases, Report};
use crate::peers::python;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const SAMPLE: &str = "sample";
const HOST: &str = "sample of the host";
const EVENT: &str = "event into a sink";
const PLAIN: &str = "event into a sink without rollups";
const COUNTED: &str = "counted";
const BARE: &str = "bare";
/// Events that go into a sink, how many of them are flushed together, and seconds of sampling.
const EVENTS: u32 = 5000;
const FLUSHED: u32 = 50;
const SECONDS: u64 = 3;
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) static ROW: Row = Row {
    number: 17,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "sampled", run: sampled },
        Contender { name: "sampled, host", run: host_sampled },
        Contender { name: "woken", run: woken },
        Contender { name: "sunk", run: sunk },
        Contender { name: "sunk, plain", run: sunk_plainly },
        Contender { name: "written", run: written },
        Contender { name: "Stormlog", run: stormlog },
        Contender { name: "allocator", run: allocator },
    ],
    lines: &[
        Line {
            what: "a sample of a process at 10 Hz, the process's time",
            ours: Value::of("sampled", SAMPLE),
            theirs: Some(("Stormlog's tracker of a process", Value::of("Stormlog", SAMPLE))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(0.3),
        },
        Line {
            what: "a sample of a process at 10 Hz, the process's time",
            ours: Value::of("sampled", SAMPLE),
            theirs: Some((
                "a thread that wakes up and reads the kernel's file",
                Value::of("woken", SAMPLE),
            )),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "the same with the machine's memory, swap, pressure and container",
            ours: Value::of("sampled, host", HOST),
            theirs: Some(("Stormlog's tracker of a process", Value::of("Stormlog", SAMPLE))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "an event into a sink, flushed after 50 events or 2 s, the process's time",
            ours: Value::of("sunk", EVENT),
            theirs: Some(("Stormlog's sink", Value::of("Stormlog", EVENT))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(0.15),
        },
        Line {
            what: "the same without rollups at the end, which both write by default",
            ours: Value::of("sunk, plain", PLAIN),
            theirs: Some(("Stormlog's sink", Value::of("Stormlog", PLAIN))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(0.15),
        },
        Line {
            what: "the same without rollups at the end, which both write by default",
            ours: Value::of("sunk, plain", PLAIN),
            theirs: Some(("the same bytes, written and synced", Value::of("written", PLAIN))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "what counting adds to an allocation and its end",
            ours: Value::of("allocator", COUNTED).minus("allocator", BARE),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(10.0),
        },
    ],
};

/// What Stormlog's tracker of a process reads: its resident memory, in both fields of the allocator.
fn sampled(report: &mut Report) {
    sample(Device::Process, SAMPLE, report);
}

fn host_sampled(report: &mut Report) {
    sample(Device::Host, HOST, report);
}

fn sample(device: Device, case: &str, report: &mut Report) {
    let tracker = Tracker::builder().interval(INTERVAL).device(device);
    let tracker = tracker.start().expect("it starts");
    thread::sleep(Duration::from_millis(250));
    let (samples, before) = (tracker.statistics().samples, process_cpu_ns());
    thread::sleep(Duration::from_secs(SECONDS));
    let (spent, taken) = (process_cpu_ns() - before, tracker.statistics().samples - samples);
    assert!(taken >= 10 * (SECONDS - 1), "{taken} samples");
    report.add(case, spent as f64 / taken as f64);
}

/// Both have the same fields, and flush each 50 events: with a write to the segment and a sync of it (`fsync` there, `fdatasync` here).
/// Stormlog flushes inside the call that brings the fiftieth event, and writes its manifest anew each time. Here the tracker's thread would, and what
/// comes meanwhile would go with its next flush: so that there are as many flushes, the thread that adds events flushes, as Stormlog's does. The manifest is written when segments change. At the end Stormlog reads all events again for its rollups; ours are added up as events come.
fn sunk(report: &mut Report) {
    sink(true, EVENT, report);
}

fn sunk_plainly(report: &mut Report) {
    sink(false, PLAIN, report);
}

/// A tracker that has taken its first sample and takes no other, with a sink.
fn into_sink(rollups: bool) -> Tracker {
    let flush_events = 2 * FLUSHED as usize;
    let options = SinkOptions { rollups, flush_events, ..SinkOptions::default() };
    let tracker = Tracker::builder()
        .interval(Duration::from_secs(3600))
        .device(Device::Process)
        .sink_with("sink", options)
        .start()
        .expect("it starts");
    tracker.sample_now();
    tracker
}

fn add(tracker: &Tracker, numbers: Range<u32>) {
    for number in numbers {
        tracker.event("sample", "Collected telemetry sample.", [("number", number)]);
    }
}

fn sink(rollups: bool, case: &str, report: &mut Report) {
    let tracker = into_sink(rollups);
    let before = process_cpu_ns();
    for first in (0..EVENTS).step_by(FLUSHED as usize) {
        add(&tracker, first..first + FLUSHED);
        tracker.flush().expect("the sink can be written");
    }
    let stopped = tracker.stop();
    let spent = process_cpu_ns() - before;
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    assert_eq!(stopped.statistics.sink_dropped_events, 0);
    report.add(case, spent as f64 / f64::from(EVENTS));
}

/// What the disk and the kernel cost by themselves.
fn written(report: &mut Report) {
    let tracker = into_sink(false);
    add(&tracker, 0..FLUSHED);
    drop(tracker);
    let lines = fs::read("sink/segment-000001.jsonl").expect("the sink has lines");
    let mut file = File::options().append(true).create_new(true).open("lines").expect("it opens");
    let before = process_cpu_ns();
    for _ in 0..EVENTS / FLUSHED {
        file.write_all(&lines).and_then(|()| file.sync_data()).expect("it can be written");
    }
    report.add(PLAIN, (process_cpu_ns() - before) as f64 / f64::from(EVENTS));
}

/// A thread that wakes up ten times a second and reads the kernel's file, into nothing.
fn woken(report: &mut Report) {
    thread::spawn(|| {
        let file = File::open("/proc/self/statm").expect("it opens");
        let mut bytes = [0; 8192];
        loop {
            file.read_at(&mut bytes, 0).expect("it is read");
            black_box(&bytes);
            thread::park_timeout(INTERVAL);
        }
    });
    thread::sleep(Duration::from_millis(250));
    let before = process_cpu_ns();
    thread::sleep(Duration::from_secs(SECONDS));
    let times = Duration::from_secs(SECONDS).as_millis() / INTERVAL.as_millis();
    report.add(SAMPLE, (process_cpu_ns() - before) as f64 / times as f64);
}

fn stormlog(report: &mut Report) {
    let (seconds, events) = (SECONDS.to_string(), EVENTS.to_string());
    let arguments = [SAMPLE, &*seconds, EVENT, PLAIN, &*events];
    python::report("stormlog", "stormlog_track.py", &arguments, report);
}

#[allow(unsafe_code)]
fn allocator(report: &mut Report) {
    static COUNTING: CountingAllocator = CountingAllocator::new(System);
    fn pair(allocator: &impl GlobalAlloc) {
        let layout = Layout::new::<[u64; 8]>();
        // SAFETY: the size is not zero, and what was allocated is given back with the same layout.
        unsafe {
            let place = allocator.alloc(layout);
            allocator.dealloc(black_box(place), layout);
        }
    }
    Cases::pure()
        .case(COUNTED, 500_000, || pair(&COUNTING))
        .case(BARE, 500_000, || pair(&System))
        .measure(report);
}
