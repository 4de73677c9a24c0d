//! What energy was used, in joules.
//!
//! ```
//! use runlore::telemetry::{TelemetryCapture, TelemetryType, Types};
//!
//! let capture = TelemetryCapture::new(Types::from([TelemetryType::Energy]));
//! let before = capture.capture().energy.unwrap_or_default();
//! let sum: u64 = (0..100_000).sum();
//! let after = capture.capture().energy.unwrap_or_default();
//! match after.since(&before) {
//!     Ok(used) => println!("{sum} took {} J", used.joules()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```

#[cfg(target_os = "linux")]
mod counter;
#[cfg(all(test, target_os = "linux"))]
mod tests;

#[cfg(target_os = "linux")]
pub(super) use counter::Counter;

use super::Named;
use super::parts::Energy;

/// What was used between two readings of [`Energy`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnergyUsed {
    /// In microjoules, so that sums are exact.
    by_meter: Named<u64>,
}

impl EnergyUsed {
    /// All meters together. None of them counts what another counts too.
    pub fn joules(&self) -> f64 {
        self.microjoules() as f64 / 1e6
    }

    /// The same in microjoules.
    pub fn microjoules(&self) -> u64 {
        self.by_meter.iter().map(|(_, used)| *used).sum()
    }

    /// What each meter counted, in joules.
    pub fn by_meter(&self) -> Named<f64> {
        self.by_meter.iter().map(|(meter, used)| (meter, *used as f64 / 1e6)).collect()
    }
}

impl Energy {
    /// What was used since an earlier reading of the same process.
    ///
    /// Counters that went round in between are accounted for: a reading gives what was counted since the first one, not
    /// what the register says.
    ///
    /// # Errors
    ///
    /// Why it is not known: there is no meter, or one was read only once, or was set back. What the others counted would
    /// be too little, and look as if it were all.
    pub fn since(&self, earlier: &Self) -> Result<EnergyUsed, String> {
        if self.joules.is_empty() && earlier.joules.is_empty() {
            return Err("no meter could be read".to_owned());
        }
        for (one, other, when) in [(earlier, self, "end"), (self, earlier, "start")] {
            let mut meters = one.joules.iter().map(|(meter, _)| meter);
            if let Some(meter) = meters.find(|meter| other.joules.get(meter).is_none()) {
                return Err(format!("{meter} could not be read at the {when}"));
            }
        }
        let mut used = EnergyUsed::default();
        for (meter, after) in &self.joules {
            let before = earlier.joules.get(meter).copied().unwrap_or_default();
            let change = microjoules(*after).checked_sub(microjoules(before));
            let change = change.ok_or_else(|| format!("{meter} was set back meanwhile"))?;
            used.by_meter.push(meter, change);
        }
        Ok(used)
    }
}

/// As it is stored.
fn microjoules(joules: f64) -> u64 {
    (joules * 1e6).round() as u64
}
