//! What recording costs the process, and how captures stay within `telemetry_capture.max_overhead_percent`.
//!
//! Callers count what captures cost them and time a sample of their other steps. The writer adds its own processor time.
//! Every few milliseconds it compares the sum with the budget, which is a share of the larger of the process's
//! processor time and the time elapsed, and plans how much each call site may capture from then on.

use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::site;
use runlore_core::clock;
use runlore_core::once::Once;

/// So many calls of a site always get captures of their own, so that small programs see everything.
const FIRST_CALLS: u64 = 100;
/// How much time of the process the rates of calls are measured over.
const WINDOW_NS: f64 = 1e9;
/// The writer plans at most this often.
const PERIOD_NS: u64 = 10_000_000;
/// One step of callers in this many is timed. Odd, because beginnings and ends of tasks alternate.
const SAMPLED: u64 = 31;
/// A step that took longer was interrupted by the system.
const LONGEST_STEP_NS: u64 = 100_000;

/// Nanoseconds that recording has cost this process so far, captures included.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// The prices of the captures that the budget paid for so far, and how far that may go before the next plan.
static PAID: AtomicU64 = AtomicU64::new(0);
static PAYABLE: AtomicU64 = AtomicU64::new(0);

/// How many levels of captures there are at most: none, shared, and own captures of one type to all of them.
pub(crate) const MOST_LEVELS: usize = 10;

static BUDGET: Once<Budget> = Once::new();

/// The bound, and what captures cost.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The share of the process's time that recording may cost.
    pub(crate) share: f64,
    /// What the captures of one task cost at each level, the writer's work included. The first level is no capture.
    pub(crate) prices: Vec<u64>,
}

/// Sets the bound of this process. Without one, nothing is held back.
pub(crate) fn set_budget(budget: impl FnOnce() -> Budget) {
    BUDGET.get_or_init(budget);
}

/// What was spent before the writer started: what the start itself costs counts against the budget.
static SPENT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// The writer is about to start.
pub(super) fn begin() {
    SPENT_BEFORE.store(SPENT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Adds to what recording has cost.
pub(crate) fn spend(ns: u64) {
    SPENT.fetch_add(ns, Ordering::Relaxed);
}

/// Adds how long a capture took on the calling thread.
pub(crate) fn spend_on_capture(ns: u64) {
    // One that took much longer than usual was interrupted by the system.
    let most = budget().and_then(|budget| budget.prices.last()).map_or(u64::MAX, |both| both * 2);
    spend(ns.min(most));
    _ = CAPTURED.try_with(|captured| captured.set(captured.get() + ns));
}

/// Adds the processor time that the calling thread, one of the recorder's own, has used since the last call.
pub(super) fn count_this_thread() {
    thread_local! {
        static COUNTED: Cell<u64> = const { Cell::new(0) };
    }
    let now = clock::thread_cpu_ns();
    spend(now.saturating_sub(COUNTED.replace(now)));
}

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// What captures have cost this thread.
    static CAPTURED: Cell<u64> = const { Cell::new(0) };
}

/// A step of recording on the caller's thread. One in some is timed, for all of them.
#[derive(Debug)]
pub(crate) struct CallerStep {
    /// 0 unless it is timed.
    since_ns: u64,
    captured_ns: u64,
}

impl CallerStep {
    /// A step that begins now.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self::sampled(clock::monotonic_ns)
    }

    /// A step that began with a reading of the clock.
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

/// What recording has cost at a moment, and what the process has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    spent_ns: u64,
    cpu_ns: u64,
    /// How long the program was kept from running by others.
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

    /// What recording has cost since an earlier reading.
    pub(super) fn cost_since(&self, before: &Self) -> u64 {
        self.spent_ns.saturating_sub(before.spent_ns)
    }

    /// What that is compared with: the larger of processor time and time elapsed. Time in which other processes kept
    /// the program from running is not the program's: on a busy machine the budget would be many times what it is felt as.
    pub(super) fn time_since(&self, before: &Self) -> u64 {
        let cpu = self.cpu_ns.saturating_sub(before.cpu_ns);
        let delayed = self.delayed_ns.saturating_sub(before.delayed_ns);
        cpu.max(self.at_ns.saturating_sub(before.at_ns).saturating_sub(delayed))
    }
}

/// What the budget knows of one call site.
#[derive(Debug)]
pub(crate) struct CallSite {
    calls: AtomicU64,
    /// The level that the writer planned; none before the first plan.
    level: AtomicU8,
}

/// Sites of tasks that have no [`Site`](super::Site), by where they are.
static PLACES: [Place; 256] =
    [const { Place { key: AtomicU64::new(0), site: CallSite::new() } }; 256];

#[derive(Debug)]
struct Place {
    /// A hash of the place in the code; 0 while it is free.
    key: AtomicU64,
    site: CallSite,
}

impl Place {
    /// Takes a free place for a key. Returns whether the place is of that key.
    fn is_of(&self, key: u64) -> bool {
        let taken = self.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok() || taken == Err(key)
    }
}

impl CallSite {
    pub(crate) const fn new() -> Self {
        Self { calls: AtomicU64::new(0), level: AtomicU8::new(0) }
    }

    /// The site of a task by hand.
    pub(crate) fn of_place(code: &Location<'_>) -> &'static Self {
        let text = code.file().as_ptr() as u64;
        let mixed = (text ^ u64::from(code.line()) << 32 ^ u64::from(code.column()))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self::of_key(&PLACES, mixed | 1)
    }

    fn of_key(places: &[Place], key: u64) -> &Self {
        let first = (key >> 32) as usize;
        let mut tried = (first..first + places.len()).map(|at| &places[at % places.len()]);
        // Where there is no place left, sites share one, and so its plan.
        &tried.find(|place| place.is_of(key)).unwrap_or(&places[0]).site
    }

    /// Counts a call; the level of its captures.
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

/// The budget of this process; none where the settings set no bound.
#[inline]
pub(crate) fn budget() -> Option<&'static Budget> {
    BUDGET.get()
}

/// The level of a call after so many others of its site.
fn level_of_call(calls: u64, planned: usize, can_pay: bool, top: usize) -> usize {
    match (calls < FIRST_CALLS, can_pay) {
        (true, _) => top,
        (false, true) => planned.min(top),
        (false, false) => 0,
    }
}

/// Plans the level of each site from its calls in a window, given what each level costs a call and what all may cost.
///
/// Sites that are called less often come first: each gets the best level that its part of the budget pays for, and what
/// it leaves goes to the others.
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

/// What captures may cost in a window, beside what recording costs otherwise; `left_ns` is what is left of the budget since
/// the start.
///
/// Half of a debt is paid back in each window. Savings are not spent: a busy phase must stay within the bound, too.
fn may_cost(share: f64, window_ns: f64, others_ns: f64, left_ns: f64) -> f64 {
    share * window_ns - others_ns.max(0.0) + left_ns.min(0.0) / 2.0
}

/// The writer's side: it plans from time to time.
#[derive(Debug)]
pub(super) struct Planner {
    began: Reading,
    last: Reading,
    last_paid: u64,
    /// Recent time of the process, and what recording cost in it beside captures that the budget paid for.
    window_ns: f64,
    others_ns: f64,
    /// Calls of each site: at the last plan, and recent ones.
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

    /// Counts the writer's own time, and plans if it is time to.
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
        // Sites are only ever added, in front of the places.
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
        let places = [(); 4].map(|()| Place { key: AtomicU64::new(0), site: CallSite::new() });
        let keys = [1_u64, 1 | 4 << 32, 3 | 8 << 32, 1 | 7 << 32];
        let site = |key| std::ptr::from_ref(CallSite::of_key(&places, key));
        let sites = keys.map(site);
        for (at, one) in sites.iter().enumerate() {
            assert!(sites[at + 1..].iter().all(|other| other != one), "{sites:?}");
        }
        assert_eq!(keys.map(site), sites, "they are found again");
        assert_eq!(site(9), std::ptr::from_ref(&places[0].site));
    }

    /// None, shared, own captures of the cheapest type, and of all.
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
        // Of a second 5 % are 50 ms.
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
