//! Energy that was used between two captures, in joules.
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

/// Energy that was used between two readings of [`Energy`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnergyUsed {
    /// Microjoules, so that sums are exact.
    by_meter: Named<u64>,
}

impl EnergyUsed {
    /// Returns the sum over all meters, in joules. No two meters count the same energy.
    pub fn joules(&self) -> f64 {
        self.microjoules() as f64 / 1e6
    }

    /// Returns the sum over all meters, in microjoules.
    pub fn microjoules(&self) -> u64 {
        self.by_meter.iter().map(|(_, used)| *used).sum()
    }

    /// Returns the energy that each meter counted, in joules.
    pub fn by_meter(&self) -> Named<f64> {
        self.by_meter.iter().map(|(meter, used)| (meter, *used as f64 / 1e6)).collect()
    }
}

impl Energy {
    /// Returns the energy that was used since an earlier reading in the same process.
    ///
    /// Counters that wrapped around in between are accounted for: a reading is the total since the
    /// first one, not the value of the register.
    ///
    /// # Errors
    ///
    /// Returns the reason, as a sentence, if the energy is not known: there is no meter, a meter is
    /// missing from one of the readings, or a meter was reset. The sum of the other meters would be
    /// too small, and look complete.
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

/// Converts to the unit in which readings are stored.
fn microjoules(joules: f64) -> u64 {
    (joules * 1e6).round() as u64
}
