//! A counter that goes round, as one that does not.

/// More than any socket draws, in watts: what tells how soon a counter may go round.
const MOST_WATTS: u64 = 1000;

/// What a register counted since it was first read, and before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    /// The highest number of the register, after which it begins again; none for one that never does.
    range: Option<u64>,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    register: u64,
    total: u64,
    at_ns: u64,
}

impl Counter {
    pub(crate) fn new(range: Option<u64>) -> Self {
        Self { range: range.filter(|range| *range > 0), last: None }
    }

    /// What was counted in all, now that the register says this much. All in microjoules.
    ///
    /// Where the last reading is so long ago that the register may have gone round more than once, this reading says so
    /// and the next ones count on from it.
    pub(crate) fn advance(&mut self, register: u64, now_ns: u64) -> Result<u64, String> {
        let Some(last) = self.last else {
            self.last = Some(Last { register, total: register, at_ns: now_ns });
            return Ok(register);
        };
        let more = match (register.checked_sub(last.register), self.range) {
            (Some(more), _) => more,
            (None, Some(range)) => range.saturating_sub(last.register) + register,
            // It was set back, as a driver does that is loaded again.
            (None, None) => register,
        };
        let total = last.total + more;
        self.last = Some(Last { register, total, at_ns: now_ns });
        let elapsed_ns = now_ns.saturating_sub(last.at_ns);
        let at_most = elapsed_ns / 1000 * MOST_WATTS;
        if self.range.is_some_and(|range| at_most >= range) {
            let seconds = elapsed_ns / 1_000_000_000;
            return Err(format!(
                "it was not read for {seconds} s, and may have gone round more than once"
            ));
        }
        Ok(total)
    }

    /// What a store of energy lost in all, now that it holds this much. What it gains is not taken off.
    pub(crate) fn drain(&mut self, holds: u64, now_ns: u64) -> u64 {
        let total = self.last.map_or(0, |last| last.total + last.register.saturating_sub(holds));
        self.last = Some(Last { register: holds, total, at_ns: now_ns });
        total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_counted_is_what_was_used(
            range in 1_u64..1 << 40,
            begin: u64,
            steps in proptest::collection::vec(0.0..1.0, 1..40),
        ) {
            let mut counter = Counter::new(Some(range));
            let mut register = begin % range;
            let first = counter.advance(register, 0).unwrap();
            let mut used = 0;
            for step in steps {
                let step = (range as f64 * step) as u64;
                used += step;
                register = (register + step) % range;
                prop_assert_eq!(counter.advance(register, 0).unwrap() - first, used);
            }
        }
    }

    #[test]
    fn a_register_that_may_have_gone_round_twice_is_doubted_once() {
        let second = 1_000_000_000;
        let mut counter = Counter::new(Some(262_143_328_850));
        counter.advance(7, 0).unwrap();
        assert_eq!(counter.advance(8, 200 * second), Ok(8));
        assert!(counter.advance(9, 500 * second).unwrap_err().contains("not read for 300 s"));
        assert_eq!(counter.advance(10, 501 * second), Ok(10));
        let mut endless = Counter::new(None);
        endless.advance(7, 0).unwrap();
        assert_eq!(endless.advance(8, u64::MAX), Ok(8));
        assert_eq!(endless.advance(2, u64::MAX), Ok(10), "it was set back to 0");
    }

    #[test]
    fn a_battery_loses_and_is_charged() {
        let mut battery = Counter::default();
        let totals = [50, 40, 45, 30].map(|holds| battery.drain(holds, 0));
        assert_eq!(totals, [0, 10, 10, 25]);
    }
}
