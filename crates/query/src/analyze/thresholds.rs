//! From what on something is worth telling.

use serde::{Deserialize, Serialize};

use runlore_core::settings::{Bytes, nearest};
use runlore_core::{Error, ErrorKind, Result};

/// How a threshold is written: a share, a count or a size.
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
        /// From what on something is worth telling. Each can be [set](Self::set) by its name.
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
            /// Every threshold: its name, what it is now, and what it means.
            pub fn all(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.written(), meaning(&[$(stringify!($doc)),+])),)*]
            }

            /// Sets one of them, given as `name=value`.
            ///
            /// # Errors
            ///
            /// Where there is none of this name, or it cannot have this value.
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
    /// The least memory that anything is said about, in bytes.
    min_bytes: u64 = 64 << 20;
    /// The share of a device that hidden memory must reach at some time.
    gap_ratio: f64 = 0.05;
    /// How many deviations above the mean a spike is.
    spike_score: f64 = 2.0;
    /// How many deviations above the mean a critical spike is.
    spike_critical_score: f64 = 4.0;
    /// How much of the variance a line must explain to be a drift.
    drift_fit: f64 = 0.6;
    /// How much of the variance a line must explain to be a critical drift.
    drift_critical_fit: f64 = 0.85;
    /// How much of the variance one jump must explain to be a step.
    step_fit: f64 = 0.8;
    /// The share of what is reserved that is fragmented.
    fragmentation_ratio: f64 = 0.3;
    /// The share of what is reserved that is critically fragmented.
    fragmentation_critical_ratio: f64 = 0.5;
    /// By how much of itself allocated memory must grow to be a leak.
    leak_growth_ratio: f64 = 0.05;
    /// How much of the variance a line through the lowest points must explain to be a leak.
    leak_fit: f64 = 0.8;
    /// The share of a device that is nearly full.
    utilization_ratio: f64 = 0.85;
    /// The share of a device that is full.
    utilization_critical_ratio: f64 = 0.95;
    /// How often in a second as much is handed out and taken back as there is.
    churn_per_second: f64 = 1.0;
    /// The same from which on it is more than worth knowing.
    churn_warning_per_second: f64 = 10.0;
    /// The share of a device that is hidden all the time from which on it is more than worth knowing.
    hidden_warning_ratio: f64 = 0.25;
    /// The share of a rank's memory that a sudden growth must have to count among ranks.
    onset_ratio: f64 = 0.1;
    /// The share of ranks that must do the same at the same time to do it together.
    synchrony_ratio: f64 = 0.5;
    /// The hidden memory from which on it may be that of a collective, in bytes.
    collective_bytes: u64 = 128 << 20;
    /// The same as a share of the device, where that is less.
    collective_ratio: f64 = 0.04;
    /// How many deviations from what is usual that of a collective is.
    collective_score: f64 = 2.5;
    /// How sure it must be that a collective took memory.
    collective_confidence: f64 = 0.5;
    /// The share of a run that makes an activity slow.
    slow_ratio: f64 = 0.3;
    /// How many deviations from the middle of its activity an outlier is.
    outlier_score: f64 = 6.0;
    /// How many times the middle of its activity an outlier takes at least.
    outlier_factor: f64 = 2.0;
    /// The shortest outlier, in seconds.
    outlier_min_seconds: f64 = 0.01;
    /// The share of a run that is lost by waiting.
    waiting_ratio: f64 = 0.2;
    /// The least waiting that is worth telling, in seconds.
    waiting_min_seconds: f64 = 0.01;
    /// The least cost of recording that is worth telling, in seconds of processor time.
    overhead_min_seconds: f64 = 0.1;
    /// The share of a run with a single task at work that is too much where others ran side by side.
    alone_ratio: f64 = 0.5;
    /// The share of the time of iterations that is lost by waiting for data.
    data_ratio: f64 = 0.1;
    /// The share of readings in which a graphics processor is throttled.
    throttled_ratio: f64 = 0.1;
    /// The share of a run in which a container's processor quota is used up.
    quota_ratio: f64 = 0.05;
    /// The share of the time in which something waits for memory.
    pressure_ratio: f64 = 0.1;
    /// The same from which on it is critical.
    pressure_critical_ratio: f64 = 0.5;
    /// The share of a machine's memory that can be had at the least.
    available_ratio: f64 = 0.1;
    /// The share of its limit at which a container is full.
    container_ratio: f64 = 0.95;
    /// The share of the processors' time that waits for disks.
    iowait_ratio: f64 = 0.1;
}

/// The first line of a doc comment, as it stands in an attribute.
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
