//! A monotonic counter on top of a register that wraps around.

/// More than any socket draws, in watts. It bounds how soon a counter may wrap around.
const MOST_WATTS: u64 = 1000;

/// The total of a register, across its wrap-arounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    /// The highest value of the register, after which it starts again at 0. `None` if it never
    /// wraps around.
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

    /// Adds a reading of the register and returns the total. All values are in microjoules.
    ///
    /// Returns an error if so much time has passed since the last reading that the register may
    /// have wrapped around more than once. Later readings count on from this one.
    pub(crate) fn advance(&mut self, register: u64, now_ns: u64) -> Result<u64, String> {
        let Some(last) = self.last else {
            self.last = Some(Last { register, total: register, at_ns: now_ns });
            return Ok(register);
        };
        let more = match (register.checked_sub(last.register), self.range) {
            (Some(more), _) => more,
            (None, Some(range)) => range.saturating_sub(last.register) + register,
            // The register was reset, as when a driver is reloaded.
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

    /// Adds a reading of a battery's charge and returns how much it has lost in total. Charging
    /// does not reduce the total.
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
