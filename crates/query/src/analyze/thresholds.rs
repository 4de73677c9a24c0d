//! The thresholds of the analysis.

use serde::{Deserialize, Serialize};

use runlore_core::settings::{Bytes, nearest};
use runlore_core::{Error, ErrorKind, Result};

/// The text form of a threshold: a share, a count or a size.
trait Number: Sized {
    const FORM: &str;
    fn read(text: &str) -> Option<Self>;
    fn written(&self) -> String;
}

impl Number for f64 {
    const FORM: &str = "a number of 0 or more, such as 0.05";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Number for u64 {
    const FORM: &str = "a size, such as 64MiB";

    fn read(text: &str) -> Option<Self> {
        text.parse::<Bytes>().ok().map(Bytes::get)
    }

    fn written(&self) -> String {
        Bytes::new(*self).to_string()
    }
}

macro_rules! thresholds {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = $default:expr;)*) => {
        /// The thresholds above which the analysis reports a finding. Each can be [set](Self::set)
        /// by name.
        ///
        /// ```
        /// use runlore::analyze::Thresholds;
        ///
        /// let mut thresholds = Thresholds::default();
        /// thresholds.set("gap_ratio=0.1")?;
        /// thresholds.set("min_bytes=256MiB")?;
        /// assert_eq!((thresholds.gap_ratio, thresholds.min_bytes), (0.1, 256 << 20));
        /// let wrong = thresholds.set("gap_ration=0.1").unwrap_err().to_string();
        /// assert!(wrong.contains("did you mean `gap_ratio`?"));
        /// # Ok::<(), runlore::Error>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct Thresholds {
            $($(#[$doc])+ pub $name: $type,)*
        }

        impl Default for Thresholds {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Thresholds {
            /// Returns the name, current value and description of every threshold.
            pub fn all(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.written(), meaning(&[$(stringify!($doc)),+])),)*]
            }

            /// Sets one threshold, given as `name=value`.
            ///
            /// # Errors
            ///
            /// Returns an error if there is no threshold with this name, or the value is invalid.
            pub fn set(&mut self, text: &str) -> Result<()> {
                let wrong = |what: String| Error::new(ErrorKind::Query, what);
                let (name, value) = text.split_once('=').ok_or_else(|| {
                    wrong(format!("{text:?} is no threshold; write NAME=VALUE, as in gap_ratio=0.1"))
                })?;
                match name.trim() {
                    $(stringify!($name) => {
                        self.$name = <$type as Number>::read(value.trim()).ok_or_else(|| {
                            let form = <$type as Number>::FORM;
                            wrong(format!("`{name}` cannot be {value:?}: it is {form}"))
                        })?;
                    })*
                    name => {
                        let names = [$(stringify!($name),)*];
                        let hint = nearest::suggestion(name, &names);
                        return Err(wrong(format!("there is no threshold `{name}`; {hint}")));
                    }
                }
                Ok(())
            }
        }
    };
}

thresholds! {
    /// The minimum amount of memory, in bytes, for any finding about memory.
    min_bytes: u64 = 64 << 20;
    /// The minimum share of a device that hidden memory must reach at some time.
    gap_ratio: f64 = 0.05;
    /// How many standard deviations above the mean make a spike.
    spike_score: f64 = 2.0;
    /// How many standard deviations above the mean make a critical spike.
    spike_critical_score: f64 = 4.0;
    /// The share of the variance that a line must explain for a drift.
    drift_fit: f64 = 0.6;
    /// The share of the variance that a line must explain for a critical drift.
    drift_critical_fit: f64 = 0.85;
    /// The share of the variance that a single jump must explain for a step.
    step_fit: f64 = 0.8;
    /// The share of reserved memory that must be fragmented for a finding.
    fragmentation_ratio: f64 = 0.3;
    /// The share of reserved memory that must be fragmented for a critical finding.
    fragmentation_critical_ratio: f64 = 0.5;
    /// The relative growth of allocated memory that makes it a suspected leak.
    leak_growth_ratio: f64 = 0.05;
    /// The share of the variance that a line through the lowest points must explain for a leak.
    leak_fit: f64 = 0.8;
    /// The share of a device's memory in use at which it counts as nearly full.
    utilization_ratio: f64 = 0.85;
    /// The share of a device's memory in use at which it counts as full.
    utilization_critical_ratio: f64 = 0.95;
    /// How many times per second the mean allocated memory must be allocated or freed for churn.
    churn_per_second: f64 = 1.0;
    /// The same rate at which churn becomes a warning.
    churn_warning_per_second: f64 = 10.0;
    /// The share of a device that must be hidden all the time for a warning.
    hidden_warning_ratio: f64 = 0.25;
    /// The share of a rank's peak memory that a sudden growth must reach to count among ranks.
    onset_ratio: f64 = 0.1;
    /// The share of ranks that must act at the same time to count as synchronous.
    synchrony_ratio: f64 = 0.5;
    /// The minimum hidden memory that may belong to a collective, in bytes.
    collective_bytes: u64 = 128 << 20;
    /// The same minimum as a share of the device; the smaller of the two applies.
    collective_ratio: f64 = 0.04;
    /// The minimum deviation from the usual hidden memory for a collective, in robust deviations.
    collective_score: f64 = 2.5;
    /// The minimum confidence for reporting that a collective took memory.
    collective_confidence: f64 = 0.5;
    /// The share of the critical path at which an activity counts as slow.
    slow_ratio: f64 = 0.3;
    /// The minimum distance of an outlier from the median of its activity, in robust deviations.
    outlier_score: f64 = 6.0;
    /// The minimum duration of an outlier, as a multiple of the median of its activity.
    outlier_factor: f64 = 2.0;
    /// The minimum duration of an outlier, in seconds.
    outlier_min_seconds: f64 = 0.01;
    /// The minimum share of a run lost to waiting.
    waiting_ratio: f64 = 0.2;
    /// The minimum waiting time, in seconds.
    waiting_min_seconds: f64 = 0.01;
    /// The minimum cost of recording, in seconds of CPU time.
    overhead_min_seconds: f64 = 0.1;
    /// The share of a run with one task at work that is too much if others ran in parallel.
    alone_ratio: f64 = 0.5;
    /// The minimum share of the time of iterations spent waiting for data.
    data_ratio: f64 = 0.1;
    /// The minimum share of readings in which a GPU is throttled.
    throttled_ratio: f64 = 0.1;
    /// The minimum share of a run in which a container is throttled by its CPU quota.
    quota_ratio: f64 = 0.05;
    /// The share of the time spent waiting for memory at which it counts as pressure.
    pressure_ratio: f64 = 0.1;
    /// The same share at which memory pressure is critical.
    pressure_critical_ratio: f64 = 0.5;
    /// The share of a machine's memory that should remain available.
    available_ratio: f64 = 0.1;
    /// The share of its memory limit at which a container counts as full.
    container_ratio: f64 = 0.95;
    /// The minimum share of CPU time spent waiting for disks.
    iowait_ratio: f64 = 0.1;
}

/// Returns the first line of a doc comment, given as the text of its attribute.
fn meaning(docs: &[&'static str]) -> &'static str {
    let text = docs.first().copied().unwrap_or_default();
    let text = text.split_once('"').map_or(text, |(_, rest)| rest);
    text.rsplit_once('"').map_or(text, |(text, _)| text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_can_be_set_to_what_it_is() {
        let mut thresholds = Thresholds::default();
        for (name, value, meaning) in Thresholds::default().all() {
            thresholds.set(&format!("{name}={value}")).unwrap();
            assert!(meaning.ends_with('.') && !meaning.contains('"'), "{name}: {meaning:?}");
        }
        assert_eq!(thresholds, Thresholds::default());
    }

    #[test]
    fn what_cannot_be_set_is_told() {
        let mut thresholds = Thresholds::default();
        for (text, told) in [
            ("gap_ratio", "write NAME=VALUE"),
            ("gap_ratio=-1", "`gap_ratio` cannot be \"-1\": it is a number of 0 or more"),
            ("gap_ratio=NaN", "cannot be"),
            ("min_bytes=1.5", "it is a size"),
            ("colour=1", "there is no threshold `colour`; valid are `min_bytes`"),
        ] {
            let error = thresholds.set(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert_eq!(thresholds, Thresholds::default());
    }
}
