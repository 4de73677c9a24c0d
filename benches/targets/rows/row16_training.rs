//! Row 16: training loops.

use std::hint::black_box;
use std::iter::repeat;
use std::process::Command;

use runlore::settings::{LoopMode, Settings};

use crate::clock::process_cpu_ns;
use crate::measure::{Cases, Report};
use crate::peers::{ours, telemetry};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

#[path = "../../../examples/training.rs"]
mod training;

const LIGHTWEIGHT: &str = "lightweight";
const DEFAULT: &str = "default";
const CAPTURE: &str = "capture";
const OFF: &str = "off";
const BARE: &str = "bare";
const TRAINING: &str = "training";

pub(crate) static ROW: Row = Row {
    number: 16,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "recorded", run: recorded },
        Contender { name: "off", run: off },
        Contender { name: "trained, recorded", run: trained_recorded },
        Contender { name: "trained, off", run: trained_off },
    ],
    lines: &[
        Line {
            what: "a batch, default mode, complete telemetry",
            ours: Value::of("recorded", DEFAULT),
            theirs: Some(("two captures", Value::of("recorded", CAPTURE).per(0.5))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.05),
        },
        Line {
            what: "a batch, lightweight, caller's thread",
            ours: Value::of("recorded", LIGHTWEIGHT),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(1000.0),
        },
        Line {
            what: "a batch of a loop that is off, above a bare one",
            ours: Value::of("off", OFF).minus("off", BARE),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(2.0),
        },
        Line {
            what: "the example `training`, lightweight loops, the process's time",
            ours: Value::of("trained, recorded", TRAINING),
            theirs: Some(("its loops bare", Value::of("trained, off", TRAINING))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.01),
        },
    ],
};

/// Iterations a batch: their records fill less than half a queue.
const CALLS: u32 = 200;
const MEASURED: u32 = 30;
const PURE: u32 = 500_000;
/// Epochs of the example in one slice of its time, and slices.
const EPOCHS: u32 = 10;
const SLICES: u32 = 15;
/// Processes that train, and what tells one of them that it is.
const PROCESSES: u32 = 8;
const ONE_PROCESS: &str = "RUNLORE_BENCH_ONE_PROCESS";

/// Settings of this process; no forward passes, for the loops are what is measured.
fn configure(change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::default();
    settings.instrumentation.ml.what = None;
    change(&mut settings);
    runlore::configure(settings).expect("the first settings of the process");
}

fn recorded(report: &mut Report) {
    telemetry::close_inherited();
    configure(|settings| {
        let telemetry = &mut settings.telemetry_capture;
        (telemetry.per_cpu, telemetry.disk, telemetry.network) = (true, true, true);
    });
    let run = ours::to_nowhere();
    let capture = telemetry::complete();
    let mut bytes = Vec::new();
    let mut lightweight = run.iterate("batch", repeat(())).mode(LoopMode::Lightweight);
    let mut default = run.iterate("batch", repeat(())).mode(LoopMode::Default);
    Cases::queued()
        .case(LIGHTWEIGHT, CALLS, || drop(lightweight.next()))
        .case(DEFAULT, MEASURED, || drop(default.next()))
        .case(CAPTURE, MEASURED, || telemetry::capture_into(&capture, &mut bytes))
        .measure(report);
    drop((lightweight, default));
    let totals = run.finish().expect("everything is stored");
    assert_eq!((totals.dropped, totals.errors, totals.running), (0, 0, 0));
}

fn off(report: &mut Report) {
    configure(|settings| settings.instrumentation.ml.epoch_loop = None);
    let run = ours::to_nowhere();
    Cases::pure()
        .batch(OFF, PURE, |rounds| {
            for epoch in run.epochs(0..rounds) {
                black_box(epoch.item());
            }
        })
        .batch(BARE, PURE, |rounds| {
            for epoch in 0..rounds {
                black_box(&epoch);
            }
        })
        .measure(report);
    ours::finish(run, 0);
}

fn trained_recorded(report: &mut Report) {
    trained(report, |_| {});
}

fn trained_off(report: &mut Report) {
    trained(report, |settings| {
        let ml = &mut settings.instrumentation.ml;
        (ml.epoch_loop, ml.batch_loop) = (None, None);
    });
}

/// The shortest slice of several processes: who else is on the machine, and where in its memory a process lies, make a slice
/// longer, never shorter.
fn trained(report: &mut Report, change: impl FnOnce(&mut Settings)) {
    if std::env::var_os(ONE_PROCESS).is_some() {
        configure(change);
        return report.add(TRAINING, shortest_slice());
    }
    let one = |number: u32| {
        let folder = number.to_string();
        std::fs::create_dir(&folder).expect("a folder for the process");
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(std::env::args_os().skip(1)).env(ONE_PROCESS, "").current_dir(folder);
        let output = command.output().expect("the process runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let told = Report::from_lines(&text).find(|(case, _)| case == TRAINING);
        told.expect("the process tells its shortest slice").1
    };
    report.add(TRAINING, (0..PROCESSES).map(one).fold(f64::INFINITY, f64::min));
}

fn shortest_slice() -> f64 {
    let run = ours::to_jsonl();
    let slice = || {
        let before = process_cpu_ns();
        training::train(&run, EPOCHS).expect("the model is registered");
        runlore::flush().expect("the writer answers");
        process_cpu_ns() - before
    };
    let shortest = (0..SLICES).map(|_| slice()).min().unwrap_or_default();
    run.finish().expect("everything is stored");
    shortest as f64
}
