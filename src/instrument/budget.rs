//! Chooses the captures of each task within the overhead limit of the settings.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::pipeline::Site;
use crate::pipeline::overhead;
use crate::pipeline::overhead::{CallSite, MOST_LEVELS};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::fork::PerProcess;
use runlore_telemetry::{Snapshot, TelemetryCapture, TelemetryChoice, TelemetryType, Types};

/// The reason that a record gives for a type that is missing from a capture.
pub(super) const LEFT_OUT: &str =
    "left out, because captures would cost more than telemetry_capture.max_overhead_percent";

/// What to measure around a task, and its call site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measuring {
    pub(crate) choice: TelemetryChoice,
    pub(crate) site: &'static CallSite,
}

impl Measuring {
    /// The choice of an annotated function.
    pub(super) fn of(site: &'static Site) -> Self {
        Self { choice: site.spec.telemetry, site: &site.captures }
    }

    /// The choice of a task. Its call site is `site`, or the source location if that is `None`.
    pub(crate) fn at(
        choice: TelemetryChoice,
        site: Option<&'static Site>,
        code: &Location<'_>,
    ) -> Self {
        let site = site.map_or_else(|| CallSite::of_place(code), |site| &site.captures);
        Self { choice, site }
    }

    /// Applies the choice of the task's workflow, unless the task has one of its own.
    pub(super) fn in_workflow(mut self, workflow: Number) -> Self {
        if self.choice == TelemetryChoice::Default && HAS_CHOICES.load(Ordering::Relaxed) {
            let choices = choices();
            let chosen = choices.iter().find(|(number, _)| *number == workflow);
            self.choice = chosen.map_or(self.choice, |(_, choice)| *choice);
        }
        self
    }
}

/// The running workflows that choose their telemetry. The flag spares all other programs the lock.
static CHOICES: PerProcess<Mutex<Vec<(Number, TelemetryChoice)>>> = PerProcess::new();
static HAS_CHOICES: AtomicBool = AtomicBool::new(false);

fn choices() -> MutexGuard<'static, Vec<(Number, TelemetryChoice)>> {
    CHOICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets what the tasks of a workflow capture unless they choose themselves.
pub(super) fn set_choice_of_workflow(workflow: Number, choice: TelemetryChoice) {
    choices().push((workflow, choice));
    HAS_CHOICES.store(true, Ordering::Relaxed);
}

/// Forgets the choice of a workflow that has ended.
pub(super) fn forget_choice_of_workflow(workflow: Number) {
    if HAS_CHOICES.load(Ordering::Relaxed) {
        choices().retain(|(number, _)| *number != workflow);
    }
}

/// Which captures a task records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captures {
    /// Its own captures, of these types.
    Own(Types),
    /// The latest capture of the process, if it is recent enough.
    Shared,
    None,
}

/// The levels of captures that the budget can pay for, cheapest first. The first level captures
/// nothing, the second shares a capture.
#[derive(Debug)]
struct Levels {
    all: Vec<Captures>,
    /// The maximum age of a shared capture.
    shared_age_ns: u64,
}

static LEVELS: OnceLock<Levels> = OnceLock::new();

/// The approximate cost of reading a thread's usage at both ends of a task.
const USAGE_NS: u64 = 3_000;
/// The share of the budget that renewing the shared capture may use.
const RENEWING: f64 = 0.2;

/// Measures the cost of captures and sets the process's budget, if the settings have a limit.
pub(super) fn prepare(source: &TelemetryCapture) {
    let Some(percent) = settings().telemetry_capture.max_overhead_percent else { return };
    let share = percent / 100.0;
    overhead::set_budget(|| {
        let sets = thinned(source);
        let costs: Vec<Cost> = sets.iter().map(|types| Cost::of(source, *types)).collect();
        let whole = costs.last().copied().unwrap_or_default();
        let own = costs.iter().map(|cost| USAGE_NS + 2 * (cost.capture_ns + cost.write_ns));
        let prices = [0, USAGE_NS + 2 * whole.write_ns].into_iter().chain(own).collect();
        let own = sets.iter().map(|types| Captures::Own(*types));
        _ = LEVELS.set(Levels {
            all: [Captures::None, Captures::Shared].into_iter().chain(own).collect(),
            shared_age_ns: (whole.capture_ns as f64 / (share * RENEWING)) as u64,
        });
        overhead::Budget { share, prices }
    });
}

/// Returns growing sets of the types that the settings select, cheapest types first. The last set
/// contains all of them.
fn thinned(source: &TelemetryCapture) -> Vec<Types> {
    let mut costs = source.clone().with_types(priced(source.types())).costs();
    costs.sort_unstable_by_key(|(_, cost)| *cost);
    let mut types: Types =
        source.types().iter().filter(|one| costs.iter().all(|(priced, _)| priced != one)).collect();
    let mut sets: Vec<Types> = Vec::with_capacity(MOST_LEVELS);
    for (one, _) in costs {
        types = types.iter().chain([one]).collect();
        sets.push(types);
    }
    if sets.is_empty() { vec![types] } else { sets }
}

/// Returns the types that are read on the task's own thread. GPU drivers are read on another
/// thread.
fn priced(types: Types) -> Types {
    types.iter().filter(|one| *one != TelemetryType::Gpu).collect()
}

/// The cost of one capture.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    capture_ns: u64,
    /// The cost of writing it as JSON, which the writer thread does.
    write_ns: u64,
}

impl Cost {
    /// Measures a few captures and returns the medians.
    fn of(source: &TelemetryCapture, types: Types) -> Self {
        const TRIES: usize = 5;
        let types = priced(types);
        let (mut bytes, mut text) = (Vec::new(), Vec::new());
        let times = [(); TRIES].map(|()| {
            bytes.clear();
            text.clear();
            let began = Instant::now();
            source.capture_into(types, &mut bytes);
            let captured = Instant::now();
            Snapshot(&bytes).write_json(&mut text);
            ((captured - began).as_nanos() as u64, captured.elapsed().as_nanos() as u64)
        });
        let median = |mut times: [u64; TRIES]| {
            times.sort_unstable();
            times[TRIES / 2]
        };
        Self {
            capture_ns: median(times.map(|time| time.0)),
            write_ns: median(times.map(|time| time.1)),
        }
    }
}

/// Returns what the next call of a site captures. `types` are the types that the settings select.
#[inline]
pub(super) fn captures(measuring: &Measuring, types: Types) -> Captures {
    match (measuring.choice, overhead::budget(), LEVELS.get()) {
        (TelemetryChoice::Default, Some(budget), Some(levels)) => {
            levels.all[measuring.site.next_level(budget)]
        }
        // Honour an explicit choice whatever it costs.
        _ => Captures::Own(types),
    }
}

/// The latest capture of the process.
#[derive(Debug, Default)]
struct Latest {
    at_ns: u64,
    bytes: Vec<u8>,
}

static LATEST: PerProcess<Mutex<Latest>> = PerProcess::new();

/// Appends the latest capture of the process, or a new one if that is too old. Returns its age.
pub(super) fn shared_into(source: &TelemetryCapture, items: &mut Vec<u8>) -> u64 {
    let most = LEVELS.get().map_or(0, |levels| levels.shared_age_ns);
    young_into(source, most, items)
}

fn young_into(source: &TelemetryCapture, most_age_ns: u64, items: &mut Vec<u8>) -> u64 {
    let now = clock::monotonic_ns();
    // While another thread captures for everybody, the task takes its own capture.
    let Ok(mut latest) = LATEST.try_lock() else {
        source.capture_into(source.types(), items);
        return 0;
    };
    let age = now.saturating_sub(latest.at_ns);
    if !latest.bytes.is_empty() && age <= most_age_ns {
        items.extend_from_slice(&latest.bytes);
        return age;
    }
    latest.at_ns = now;
    latest.bytes.clear();
    source.capture_into(source.types(), &mut latest.bytes);
    items.extend_from_slice(&latest.bytes);
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_types_go_first() {
        let source = TelemetryCapture::new(Types::host());
        let sets = thinned(&source);
        assert_eq!(sets.last(), Some(&Types::host()));
        for (fewer, more) in sets.iter().zip(&sets[1..]) {
            assert_eq!(fewer.iter().count() + 1, more.iter().count());
            assert!(fewer.iter().all(|one| more.contains(one)));
        }
    }

    #[test]
    fn a_capture_is_shared_until_it_is_too_old() {
        let source = TelemetryCapture::new(Types::from([TelemetryType::ProcessInfo]));
        let take = |most_age_ns| {
            let mut bytes = Vec::new();
            (young_into(&source, most_age_ns, &mut bytes), bytes)
        };
        assert_eq!(take(0).0, 0, "a new one");
        let (age, first) = take(u64::MAX);
        let (later, second) = take(u64::MAX);
        assert!(age <= later);
        assert_eq!(first, second);
        assert_eq!(take(0).0, 0, "a new one again");
    }

    #[test]
    fn an_explicit_choice_is_not_bounded() {
        static SITE: CallSite = CallSite::new();
        let disk = Types::from([TelemetryType::Disk]);
        let choice = TelemetryChoice::Types(&[TelemetryType::Disk]);
        for _ in 0..200 {
            let chosen = captures(&Measuring { choice, site: &SITE }, disk);
            assert_eq!(chosen, Captures::Own(disk));
        }
    }
}
