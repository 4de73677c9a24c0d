//! What captures may cost all together, where the settings set a bound.
//!
//! Time to spend accrues with the run's own time. Half of it is divided evenly among the types, so that each is read now
//! and then; of the other half the cheapest are paid first.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::once::Once;
use crate::pipeline::settings;
use crate::telemetry::{TelemetryCapture, TelemetryType, Types};

/// Why a type is missing from a capture.
pub(super) const LEFT_OUT: &str =
    "left out, because captures would cost more than telemetry_capture.max_overhead_percent";

/// What was spent so far, in nanoseconds.
#[derive(Debug)]
struct Accounts {
    /// By all captures, as the clock says.
    all: AtomicU64,
    /// From the half that the cheapest are paid from first.
    common: AtomicU64,
    /// By each type from its own part.
    own: [AtomicU64; 8],
}

impl Accounts {
    const fn new() -> Self {
        Self {
            all: AtomicU64::new(0),
            common: AtomicU64::new(0),
            own: [const { AtomicU64::new(0) }; 8],
        }
    }

    /// Spends from an account, unless that is more than it may hold.
    fn pay(account: &AtomicU64, cost: u64, most: u64) -> bool {
        // Two threads at once may spend a little more than there is; the next captures make up for it.
        let is_paid = account.load(Ordering::Relaxed) + cost <= most;
        if is_paid {
            account.fetch_add(cost, Ordering::Relaxed);
        }
        is_paid
    }
}

static ACCOUNTS: Accounts = Accounts::new();

#[derive(Debug)]
pub(super) struct Budget {
    /// What captures may cost of a nanosecond.
    share: f64,
    began_ns: u64,
    /// What each type costs, the cheapest first.
    costs: Vec<(TelemetryType, u64)>,
}

impl Budget {
    /// The bound of this process; none where the settings set none.
    pub(super) fn of_process() -> Option<&'static Self> {
        static BUDGET: Once<Option<Budget>> = Once::new();
        let budget = BUDGET.get_or_init(|| {
            let mut telemetry = settings().telemetry_capture.clone();
            let percent = telemetry.max_overhead_percent?;
            for is_on in [
                &mut telemetry.cpu,
                &mut telemetry.per_cpu,
                &mut telemetry.process_info,
                &mut telemetry.mem,
                &mut telemetry.disk,
                &mut telemetry.network,
                &mut telemetry.energy,
            ] {
                *is_on = true;
            }
            let costs = TelemetryCapture::from_settings(&telemetry).costs();
            let costs = costs.into_iter().map(|(one, cost)| (one, cost.as_nanos() as u64));
            Some(Self::new(percent, clock::monotonic_ns(), costs.collect()))
        });
        budget.as_ref()
    }

    fn new(percent: f64, began_ns: u64, mut costs: Vec<(TelemetryType, u64)>) -> Self {
        costs.sort_unstable_by_key(|(_, cost)| *cost);
        Self { share: percent / 100.0, began_ns, costs }
    }

    /// Those of these types that there is time for now.
    pub(super) fn affordable(&self, types: Types) -> Types {
        self.affordable_at(clock::monotonic_ns(), &ACCOUNTS, types)
    }

    fn affordable_at(&self, now_ns: u64, accounts: &Accounts, types: Types) -> Types {
        let accrued = (now_ns.saturating_sub(self.began_ns) as f64 * self.share) as u64;
        if accounts.all.load(Ordering::Relaxed) > accrued {
            return Types::NONE;
        }
        let common = accrued / 2;
        let own = common / types.iter().count().max(1) as u64;
        let is_paid = |one: TelemetryType, cost: u64| {
            Accounts::pay(&accounts.common, cost, common)
                || Accounts::pay(&accounts.own[one as usize], cost, own)
        };
        let costs = self.costs.iter().filter(|(one, _)| types.contains(*one));
        let paid = costs.filter(|(one, cost)| is_paid(*one, *cost)).map(|(one, _)| *one);
        // What has no price is read elsewhere than on the task's own thread.
        let free = types.iter().filter(|one| self.costs.iter().all(|(priced, _)| priced != one));
        paid.chain(free).collect()
    }
}

/// Notes what a capture has cost.
pub(super) fn spend(capture_ns: u64) {
    ACCOUNTS.all.fetch_add(capture_ns, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_are_read_the_less_often_and_all_stays_within_the_bound() {
        const CAPTURES: u64 = 10_000;
        const TASK_NS: u64 = 100_000;
        let dear = TelemetryType::Network;
        let costs = vec![(dear, 30_000), (TelemetryType::Mem, 500), (TelemetryType::Cpu, 2_000)];
        let cost_of = costs.clone();
        let budget = Budget::new(5.0, 0, costs);
        let all: Types = cost_of.iter().map(|(one, _)| *one).collect();
        let (accounts, mut taken) = (Accounts::new(), [0; 3]);
        for capture in 1..=CAPTURES {
            let affordable = budget.affordable_at(capture * TASK_NS, &accounts, all);
            for (place, (one, cost)) in cost_of.iter().enumerate() {
                if affordable.contains(*one) {
                    taken[place] += 1;
                    accounts.all.fetch_add(*cost, Ordering::Relaxed);
                }
            }
        }
        let spent = accounts.all.into_inner();
        assert!(spent as f64 <= 0.05 * (CAPTURES * TASK_NS) as f64, "{spent}");
        assert!(spent as f64 > 0.03 * (CAPTURES * TASK_NS) as f64, "it is made use of: {spent}");
        let [network, memory, cpu] = taken;
        assert!(network > 0 && network < cpu && cpu <= memory, "{taken:?}");
    }

    #[test]
    fn without_time_nothing_is_taken() {
        let budget = Budget::new(1.0, 0, vec![(TelemetryType::Mem, 500)]);
        let memory = Types::from([TelemetryType::Mem]);
        assert!(budget.affordable_at(10_000, &Accounts::new(), memory).is_empty());
        assert_eq!(budget.affordable_at(1_000_000, &Accounts::new(), memory), memory);
    }
}
