//! Row 16: training loops.

use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Write as _, stdin};
use std::iter::repeat;
use std::process::{Child, ChildStdout, Command, Stdio};

use runlore::settings::{LoopMode, ParentMode, Settings};

use crate::clock::process_cpu_ns;
use crate::measure::{Cases, Report, median};
use crate::peers::{ours, telemetry};
use crate::processor;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

#[path = "../../../examples/training.rs"]
mod training;

const LIGHTWEIGHT: &str = "lightweight";
const DEFAULT: &str = "default";
const CAPTURE: &str = "capture";
const OFF: &str = "off";
const BARE: &str = "bare";
const RATIO: &str = "ratio";

pub(crate) static ROW: Row = Row {
    number: 16,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "recorded", run: recorded },
        Contender { name: "off", run: off },
        Contender { name: "trained", run: trained },
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
            what: "an iteration of a loop that is off, above a bare one",
            ours: Value::of("off", OFF).minus("off", BARE),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(2.0),
        },
        Line {
            what: "the example `training`, the process's time with lightweight loops, by that with bare ones",
            ours: Value::of("trained", RATIO),
            theirs: None,
            unit: Unit::Ratio,
            bound: Bound::Below(1.06),
        },
    ],
};

/// Iterations a batch: their records fill less than half a queue.
const CALLS: u32 = 200;
const MEASURED: u32 = 30;
const PURE: u32 = 500_000;
/// Epochs in one slice, as many as the example has, and slices.
const EPOCHS: u32 = 10;
const SLICES: usize = 6;
/// How matrices lie in their pages is worth several percent, and depends on what was allocated before them: so each pair of slices has
/// them elsewhere. By how many bytes they move, and where that begins again.
const SHIFT: usize = 1040;
const SHIFTS: usize = 8192;
/// Processes that train each way, and what tells one of them which, and where.
const PROCESSES: usize = 40;
const ONE_PROCESS: &str = "RUNLORE_BENCH_ONE_PROCESS";
const PROCESSOR: &str = "RUNLORE_BENCH_PROCESSOR";

/// Settings of this process; no forward passes, for the loops are what is measured. Nothing is held back, and epochs are
/// as lightweight as batches.
fn configure(change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::default();
    settings.telemetry_capture.max_overhead_percent = None;
    settings.instrumentation.ml.what = None;
    settings.instrumentation.ml.parent_mode = ParentMode::Lightweight;
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

/// Pairs of processes, one of them recording, that train at the same time on the same processor, a slice each. What others do on the machine
/// changes from moment to moment, and from processor to processor, by more than the loops cost: as the system lets the two take turns every few
/// milliseconds, both have the same of it, and each has a clock of its own that stands while the other is at it. The thread that writes records
/// is free to use another processor.
fn trained(report: &mut Report) {
    if let Some(way) = std::env::var_os(ONE_PROCESS) {
        return train_when_told(way == BARE);
    }
    let mut ratios = Vec::new();
    for number in 0..PROCESSES {
        let mut trainers = [LIGHTWEIGHT, BARE].map(|way| Trainer::start(way, number));
        for slice in 0..SLICES {
            let shift = (number * SLICES + slice) * SHIFT % SHIFTS;
            // Neither is always the first.
            for at in [slice % 2, (slice + 1) % 2] {
                trainers[at].begin(shift);
            }
            let [recording, bare] = trainers.each_mut().map(Trainer::end);
            ratios.push(recording / bare);
        }
    }
    report.add(RATIO, median(&mut ratios));
}

/// Another process of this program, which trains for a slice whenever it is told to.
struct Trainer {
    process: Child,
    told: BufReader<ChildStdout>,
}

impl Trainer {
    fn start(way: &str, number: usize) -> Self {
        let folder = format!("{way}-{number}");
        std::fs::create_dir(&folder).expect("a folder for the process");
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(std::env::args_os().skip(1)).current_dir(folder);
        command.env(ONE_PROCESS, way).env(PROCESSOR, number.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the process starts");
        let told = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        let mut trainer = Self { process, told };
        // The first slice of a process is not like the others.
        trainer.begin(0);
        trainer.end();
        trainer
    }

    /// Has it train for a slice.
    fn begin(&self, shift: usize) {
        let mut pipe = self.process.stdin.as_ref().expect("its input is a pipe");
        writeln!(pipe, "{shift}").expect("it listens");
    }

    /// Waits until it has; how much of the processors' time that took.
    fn end(&mut self) -> f64 {
        let mut line = String::new();
        self.told.read_line(&mut line).expect("it tells how long that took");
        line.trim().parse().expect("a number")
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        _ = self.process.wait();
    }
}

/// Trains for a slice for each line of its input, which says how far memory is shifted, and tells how long that took.
fn train_when_told(is_bare: bool) {
    configure(|settings| {
        if is_bare {
            let ml = &mut settings.instrumentation.ml;
            (ml.epoch_loop, ml.batch_loop) = (None, None);
        }
    });
    let run = ours::to_jsonl();
    let processor = std::env::var(PROCESSOR).ok().and_then(|number| number.parse().ok());
    processor::stay_on(processor.expect("the number of a processor"));
    for line in stdin().lines() {
        let shift: usize = line.expect("a line").parse().expect("a number of bytes");
        let shift = vec![0_u8; shift];
        let before = process_cpu_ns();
        training::train(&run, EPOCHS).expect("the model is registered");
        runlore::flush().expect("the writer answers");
        println!("{}", process_cpu_ns() - before);
        drop(black_box(shift));
    }
    run.finish().expect("everything is stored");
}
