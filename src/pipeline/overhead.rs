//! Measures the cost of recording, and keeps captures within
//! `telemetry_capture.max_overhead_percent`.
//!
//! Callers add up the cost of their captures and time a sample of their other steps. The writer
//! adds its own CPU time. Every few milliseconds it compares the sum with the budget and plans how
//! much each call site may capture from then on. The budget is a share of the process's CPU time or
//! of the elapsed time, whichever is larger.

use std::cell::Cell;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::site;
use runlore_core::clock;
use runlore_core::fork::get_or_make;

/// The first calls of a site always take their own captures, so that small programs see everything.
const FIRST_CALLS: u64 = 100;
/// The window over which call rates are measured, in time of the process.
const WINDOW_NS: f64 = 1e9;
/// The minimum time between two plans of the writer.
const PERIOD_NS: u64 = 10_000_000;
/// One of this many caller steps is timed. Odd, because starts and ends of tasks alternate.
const SAMPLED: u64 = 31;
/// The maximum time that counts for a step. Longer ones were interrupted by the system.
const LONGEST_STEP_NS: u64 = 100_000;

/// The cost of recording in this process so far in nanoseconds, including captures.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// The total price of the captures that the budget has paid for so far, and its limit until the
/// next plan.
static PAID: AtomicU64 = AtomicU64::new(0);
static PAYABLE: AtomicU64 = AtomicU64::new(0);

/// The maximum number of capture levels: none, shared, and own captures of one type up to all
/// types.
pub(crate) const MOST_LEVELS: usize = 10;

static BUDGET: OnceLock<Budget> = OnceLock::new();

/// The limit, and the prices of captures.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The share of the process's time that recording may use.
    pub(crate) share: f64,
    /// The price of one task's captures at each level, including the writer's work. The first level
    /// is no capture.
    pub(crate) prices: Vec<u64>,
}

/// Sets the budget of this process. Without one, captures are not limited.
pub(crate) fn set_budget(budget: impl FnOnce() -> Budget) {
    get_or_make(&BUDGET, budget);
}

/// The cost before the writer started. The cost of the start itself counts against the budget.
static SPENT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Called before the writer starts.
pub(super) fn begin() {
    SPENT_BEFORE.store(SPENT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Adds to the cost of recording.
pub(crate) fn spend(ns: u64) {
    SPENT.fetch_add(ns, Ordering::Relaxed);
}

/// Adds the duration of a capture on the calling thread.
pub(crate) fn spend_on_capture(ns: u64) {
    // A capture that took much longer than usual was interrupted by the system.
    let most = budget().and_then(|budget| budget.prices.last()).map_or(u64::MAX, |both| both * 2);
    spend(ns.min(most));
    _ = CAPTURED.try_with(|captured| captured.set(captured.get() + ns));
}

/// Adds the CPU time that the calling thread, which belongs to the recorder, has used since the
/// last call.
pub(super) fn count_this_thread() {
    thread_local! {
        static COUNTED: Cell<u64> = const { Cell::new(0) };
    }
    let now = clock::thread_cpu_ns();
    spend(now.saturating_sub(COUNTED.replace(now)));
}

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The cost of captures on this thread.
    static CAPTURED: Cell<u64> = const { Cell::new(0) };
}

/// A step of recording on the caller's thread. A sample of the steps is timed and extrapolated.
#[derive(Debug)]
pub(crate) struct CallerStep {
    /// 0 if the step is not timed.
    since_ns: u64,
    captured_ns: u64,
}

impl CallerStep {
    /// Begins a step now.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self::sampled(clock::monotonic_ns)
    }

    /// Begins a step at an earlier clock reading.
    #[inline]
    pub(crate) fn since(ns: u64) -> Self {
        Self::sampled(|| ns)
    }

    #[inline]
    fn sampled(since_ns: impl FnOnce() -> u64) -> Self {
        let count = STEPS.try_with(|steps| steps.replace(steps.get() + 1)).unwrap_or(1);
        if !count.is_multiple_of(SAMPLED) {
            return Self { since_ns: 0, captured_ns: 0 };
        }
        let captured_ns = CAPTURED.try_with(Cell::get).unwrap_or_default();
        Self { since_ns: since_ns(), captured_ns }
    }

    #[cold]
    fn count(&self) {
        let took = clock::monotonic_ns().saturating_sub(self.since_ns);
        let captured = CAPTURED.try_with(Cell::get).unwrap_or_default() - self.captured_ns;
        spend(SAMPLED * took.saturating_sub(captured).min(LONGEST_STEP_NS));
    }
}

impl Drop for CallerStep {
    #[inline]
    fn drop(&mut self) {
        if self.since_ns != 0 {
            self.count();
        }
    }
}

/// The cost of recording and the usage of the process at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    spent_ns: u64,
    cpu_ns: u64,
    /// How long other processes kept the program from running.
    delayed_ns: u64,
    at_ns: u64,
}

impl Reading {
    pub(crate) fn now() -> Self {
        Self {
            spent_ns: SPENT.load(Ordering::Relaxed),
            cpu_ns: clock::process_cpu_ns(),
            delayed_ns: clock::run_delay_ns(),
            at_ns: clock::monotonic_ns(),
        }
    }

    /// Returns the cost of recording since an earlier reading.
    pub(super) fn cost_since(&self, before: &Self) -> u64 {
        self.spent_ns.saturating_sub(before.spent_ns)
    }

    /// Returns the time to compare the cost with: the larger of CPU time and elapsed time. Time in
    /// which other processes kept the program from running is excluded, because on a busy machine
    /// it would inflate the budget.
    pub(super) fn time_since(&self, before: &Self) -> u64 {
        let cpu = self.cpu_ns.saturating_sub(before.cpu_ns);
        let delayed = self.delayed_ns.saturating_sub(before.delayed_ns);
        cpu.max(self.at_ns.saturating_sub(before.at_ns).saturating_sub(delayed))
    }
}

/// The budget's state for one call site.
#[derive(Debug)]
pub(crate) struct CallSite {
    calls: AtomicU64,
    /// The level that the writer planned. 0 before the first plan.
    level: AtomicU8,
}

/// Call sites of tasks without a [`Site`](super::Site), by their location.
static PLACES: [PlaceEntry; 256] =
    [const { PlaceEntry { key: AtomicU64::new(0), site: CallSite::new() } }; 256];

#[derive(Debug)]
struct PlaceEntry {
    /// A hash of the source location, 0 if this entry is free.
    key: AtomicU64,
    site: CallSite,
}

impl PlaceEntry {
    /// Claims the entry if it is free. Returns whether it belongs to this key.
    fn is_of(&self, key: u64) -> bool {
        let taken = self.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok() || taken == Err(key)
    }
}

impl CallSite {
    pub(crate) const fn new() -> Self {
        Self { calls: AtomicU64::new(0), level: AtomicU8::new(0) }
    }

    /// Returns the call site of a manually recorded task.
    pub(crate) fn of_place(code: &Location<'_>) -> &'static Self {
        let text = code.file().as_ptr() as u64;
        let mixed = (text ^ u64::from(code.line()) << 32 ^ u64::from(code.column()))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self::of_key(&PLACES, mixed | 1)
    }

    fn of_key(places: &[PlaceEntry], key: u64) -> &Self {
        let first = (key >> 32) as usize;
        let mut tried = (first..first + places.len()).map(|at| &places[at % places.len()]);
        // If the table is full, the remaining sites share one entry and its plan.
        &tried.find(|place| place.is_of(key)).unwrap_or(&places[0]).site
    }

    /// Counts a call and returns the level of its captures.
    pub(crate) fn next_level(&self, budget: &Budget) -> usize {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let paid = PAID.load(Ordering::Relaxed);
        let can_pay = paid < PAYABLE.load(Ordering::Relaxed);
        let planned = usize::from(self.level.load(Ordering::Relaxed));
        let level = level_of_call(calls, planned, can_pay, budget.prices.len() - 1);
        if level > 0 {
            PAID.fetch_add(budget.prices[level], Ordering::Relaxed);
        }
        level
    }
}

/// Returns the budget of this process. `None` if the settings have no limit.
#[inline]
pub(crate) fn budget() -> Option<&'static Budget> {
    BUDGET.get()
}

/// Returns the level of a call, given the number of earlier calls of its site.
fn level_of_call(calls: u64, planned: usize, can_pay: bool, top: usize) -> usize {
    match (calls < FIRST_CALLS, can_pay) {
        (true, _) => top,
        (false, true) => planned.min(top),
        (false, false) => 0,
    }
}

/// Plans the level of each site from its calls in a window, the price of each level per call, and
/// the total budget.
///
/// Rarely called sites come first. Each gets the highest level that its share of the budget can pay
/// for, and the rest of its share goes to the others.
fn plan(calls: &[f64], prices: &[u64], mut budget_ns: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by(|one, other| calls[*one].total_cmp(&calls[*other]));
    let mut levels = vec![0; calls.len()];
    for (place, site) in order.into_iter().enumerate() {
        let part = budget_ns / (calls.len() - place) as f64;
        let cost = |level: usize| calls[site] * prices[level] as f64;
        let level = (1..prices.len()).rev().find(|level| cost(*level) <= part).unwrap_or(0);
        budget_ns -= cost(level);
        levels[site] = level;
    }
    levels
}

/// Returns how much captures may cost in a window, given the other costs of recording. `left_ns` is
/// the remaining budget since the start.
///
/// Half of a debt is paid back in each window. Savings are not spent: a busy phase must stay within
/// the limit, too.
fn may_cost(share: f64, window_ns: f64, others_ns: f64, left_ns: f64) -> f64 {
    share * window_ns - others_ns.max(0.0) + left_ns.min(0.0) / 2.0
}

/// The writer's part: makes a new plan from time to time.
#[derive(Debug)]
pub(super) struct Planner {
    began: Reading,
    last: Reading,
    last_paid: u64,
    /// Recent time of the process, and the recent cost of recording except for captures paid by the
    /// budget.
    window_ns: f64,
    others_ns: f64,
    /// For each site, its calls at the last plan and its recent calls.
    sites: Vec<(u64, f64)>,
}

impl Planner {
    pub(super) fn new() -> Self {
        let spent_ns = SPENT_BEFORE.load(Ordering::Relaxed);
        let now = Reading { spent_ns, ..Reading::now() };
        Self {
            began: now,
            last: now,
            last_paid: PAID.load(Ordering::Relaxed),
            window_ns: 0.0,
            others_ns: 0.0,
            sites: Vec::new(),
        }
    }

    /// Adds the writer's own time, and makes a new plan if one is due.
    pub(super) fn tick(&mut self) {
        if clock::monotonic_ns().saturating_sub(self.last.at_ns) < PERIOD_NS {
            return;
        }
        count_this_thread();
        if let Some(budget) = budget() {
            site::with_registered(|sites| {
                let sites = sites
                    .iter()
                    .map(|site| &site.captures)
                    .chain(PLACES.iter().map(|place| &place.site));
                self.plan(budget, &sites.collect::<Vec<_>>());
            });
        }
    }

    fn plan(&mut self, budget: &Budget, sites: &[&CallSite]) {
        let (now, paid) = (Reading::now(), PAID.load(Ordering::Relaxed));
        let passed = now.time_since(&self.last) as f64;
        let kept = (-passed / WINDOW_NS).exp();
        let others = now.cost_since(&self.last) as f64 - (paid - self.last_paid) as f64;
        self.window_ns = self.window_ns * kept + passed;
        self.others_ns = self.others_ns * kept + others;
        (self.last, self.last_paid) = (now, paid);
        // Sites are only ever added, before the entries of `PLACES`.
        let new = sites.len() - self.sites.len();
        let known = self.sites.len().saturating_sub(PLACES.len());
        self.sites.splice(known..known, std::iter::repeat_n((0, 0.0), new));
        for (site, (seen, recent)) in sites.iter().zip(&mut self.sites) {
            let calls = site.calls.load(Ordering::Relaxed);
            *recent = *recent * kept + (calls - *seen) as f64;
            *seen = calls;
        }
        let allowed = budget.share * now.time_since(&self.began) as f64;
        let left = allowed - now.cost_since(&self.began) as f64;
        let may_cost = may_cost(budget.share, self.window_ns, self.others_ns, left);
        let calls: Vec<f64> = self.sites.iter().map(|(_, recent)| *recent).collect();
        for (site, level) in sites.iter().zip(plan(&calls, &budget.prices, may_cost)) {
            site.level.store(level as u8, Ordering::Relaxed);
        }
        PAYABLE.store(paid + may_cost.max(0.0) as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_share_a_site_only_when_all_are_taken() {
        let places = [(); 4].map(|()| PlaceEntry { key: AtomicU64::new(0), site: CallSite::new() });
        let keys = [1_u64, 1 | 4 << 32, 3 | 8 << 32, 1 | 7 << 32];
        let site = |key| std::ptr::from_ref(CallSite::of_key(&places, key));
        let sites = keys.map(site);
        for (at, one) in sites.iter().enumerate() {
            assert!(sites[at + 1..].iter().all(|other| other != one), "{sites:?}");
        }
        assert_eq!(keys.map(site), sites, "they are found again");
        assert_eq!(site(9), std::ptr::from_ref(&places[0].site));
    }

    /// The prices of no capture, a shared one, own captures of the cheapest type, and of all types.
    const PRICES: [u64; 4] = [0, 15_000, 30_000, 60_000];

    #[test]
    fn the_first_calls_of_a_site_have_captures_of_their_own() {
        for can_pay in [true, false] {
            assert_eq!(level_of_call(0, 0, can_pay, 3), 3);
            assert_eq!(level_of_call(99, 0, can_pay, 3), 3);
        }
        assert_eq!(level_of_call(100, 1, true, 3), 1);
        assert_eq!(level_of_call(100, 3, false, 3), 0, "the budget is used up");
    }

    #[test]
    fn a_site_gets_the_best_that_the_budget_pays_for() {
        // 5 % of a second.
        let budget = 5e7;
        for (calls, level) in [(0.0, 3), (800.0, 3), (1_000.0, 2), (3_000.0, 1), (100_000.0, 0)] {
            assert_eq!(plan(&[calls], &PRICES, budget), [level], "{calls} calls");
        }
    }

    #[test]
    fn what_rare_sites_leave_goes_to_the_others() {
        assert_eq!(plan(&[100_000.0, 10.0, 500.0], &PRICES, 5e7), [0, 3, 2]);
        assert_eq!(plan(&[1_000.0, 10.0], &PRICES, 5e7), [2, 3]);
        let calls = [400.0, 400.0, 2_000.0];
        let levels = plan(&calls, &PRICES, 5e7);
        let cost: f64 = calls.iter().zip(&levels).map(|(n, level)| n * PRICES[*level] as f64).sum();
        assert!(cost <= 5e7, "{levels:?}");
        assert_eq!(levels, [2, 2, 0]);
    }

    #[test]
    fn debts_are_paid_back_and_savings_are_not_spent() {
        assert_eq!(may_cost(0.05, 1e9, 1e7, 0.0), 4e7);
        assert_eq!(may_cost(0.05, 1e9, 1e7, 1e12), 4e7, "after an idle hour");
        assert_eq!(may_cost(0.05, 1e9, 1e7, -2e7), 3e7);
        assert!(may_cost(0.05, 1e9, 1e8, 0.0) < 0.0, "records alone cost more");
    }

    #[test]
    fn records_that_cost_more_than_the_budget_leave_nothing() {
        assert_eq!(plan(&[0.0, 10.0], &PRICES, -1.0), [0, 0]);
    }

    #[test]
    fn time_is_the_larger_of_both_clocks() {
        let before = Reading { spent_ns: 5, cpu_ns: 100, delayed_ns: 10, at_ns: 1_000 };
        let after = Reading { spent_ns: 25, cpu_ns: 400, delayed_ns: 10, at_ns: 1_200 };
        assert_eq!((after.cost_since(&before), after.time_since(&before)), (20, 300));
        let idle = Reading { cpu_ns: 110, ..after };
        assert_eq!(idle.time_since(&before), 200);
        let delayed = Reading { delayed_ns: 160, ..idle };
        assert_eq!(delayed.time_since(&before), 50, "others had the processor for the rest");
    }
}
