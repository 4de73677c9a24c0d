//! Inside a contender's process: batches of calls, and what is told of them.

use std::time::Duration;

use crate::clock::thread_cpu_ns;

/// What a contender found, case by case.
#[derive(Debug, Default)]
pub(crate) struct Report {
    cases: Vec<(String, f64)>,
}

impl Report {
    pub(crate) fn add(&mut self, case: &str, value: f64) {
        self.cases.push((case.to_owned(), value));
    }

    /// One line a case, for the process that started this one.
    pub(crate) fn to_lines(&self) -> String {
        self.cases.iter().map(|(case, value)| format!("{value}\t{case}\n")).collect()
    }

    /// What another process told.
    pub(crate) fn from_lines(text: &str) -> impl Iterator<Item = (String, f64)> {
        text.lines().filter_map(|line| {
            let (value, case) = line.split_once('\t')?;
            Some((case.to_owned(), value.parse().ok()?))
        })
    }
}

/// Batches that are measured in each process; the median counts.
const BATCHES: usize = 15;
/// Batches before those.
const WARM_UP: usize = 3;
/// Records in a batch of a contender that hands them to another thread: no batch may fill a queue further than half. The
/// smallest queue of a contender has 2,048 places. Ours has about 2,300 for records this small, of which up to a
/// quarter are taken by records that are not stored yet.
pub(crate) const RECORDS: u32 = 500;
/// The pause after such a batch, in which every contender empties its queue.
const PAUSE: Duration = Duration::from_millis(12);

/// Several cases that are measured in one process, batch by batch in turn.
pub(crate) struct Cases<'a> {
    cases: Vec<Case<'a>>,
    pause: Duration,
}

struct Case<'a> {
    name: &'static str,
    calls: u32,
    run: Box<dyn FnMut(u32) + 'a>,
    times: Vec<f64>,
}

impl<'a> Cases<'a> {
    /// For calls that leave nothing behind.
    pub(crate) fn pure() -> Self {
        Self { cases: Vec::new(), pause: Duration::ZERO }
    }

    /// For calls that leave something in a queue.
    pub(crate) fn queued() -> Self {
        Self { cases: Vec::new(), pause: PAUSE }
    }

    /// Adds a case: `call` is called `calls` times a batch.
    pub(crate) fn case(self, name: &'static str, calls: u32, mut call: impl FnMut() + 'a) -> Self {
        self.batch(name, calls, move |calls| {
            for _ in 0..calls {
                call();
            }
        })
    }

    /// Adds a case whose batch is one call.
    pub(crate) fn batch(
        mut self,
        name: &'static str,
        calls: u32,
        run: impl FnMut(u32) + 'a,
    ) -> Self {
        self.cases.push(Case { name, calls, run: Box::new(run), times: Vec::new() });
        self
    }

    /// Reports the median batch of each case as nanoseconds of this thread's processor time a call; returns how many
    /// calls were made in all.
    pub(crate) fn measure(mut self, report: &mut Report) -> u64 {
        let mut calls = 0;
        for round in 0..WARM_UP + BATCHES {
            for case in &mut self.cases {
                let before = thread_cpu_ns();
                (case.run)(case.calls);
                let after = thread_cpu_ns();
                calls += u64::from(case.calls);
                if round >= WARM_UP {
                    case.times.push((after - before) as f64 / f64::from(case.calls));
                }
                if !self.pause.is_zero() {
                    std::thread::sleep(self.pause);
                }
            }
        }
        for case in &mut self.cases {
            report.add(case.name, median(&mut case.times));
        }
        calls
    }
}

/// Makes records under a steady load, a batch each few milliseconds, and returns how many. For costs of all threads
/// together: in longer pauses it would mostly be measured how a thread waits.
pub(crate) fn steadily(mut record: impl FnMut()) -> u64 {
    const BATCHES: u32 = 100;
    for _ in 0..BATCHES {
        for _ in 0..RECORDS {
            record();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    u64::from(BATCHES * RECORDS)
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this part of the values lies.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let place = part * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// The most memory this process has had resident so far, in MiB; none where the system does not say.
pub(crate) fn peak_resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
