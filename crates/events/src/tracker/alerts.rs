//! Alerts about memory that runs short, and their thresholds.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// The thresholds of a value: warning and critical.
pub(super) type Thresholds = (f64, f64);

/// Which values are watched, their thresholds, and the rate limit of alerts.
///
/// An alert is raised when a value reaches its threshold. It is raised again only after the value
/// has fallen below the threshold by [`hysteresis`](Self::hysteresis), and never more often than
/// the [`rate`](Self::rate) allows.
///
/// ```
/// use runlore::tracker::{AlertKind, Alerts};
///
/// let alerts = Alerts::default()
///     .memory(80.0, 95.0) // percent of the device, the machine or the container's limit
///     .resident(4 << 30, 6 << 30) // resident bytes of the process
///     .pressure(10.0, 40.0) // percent of the time spent waiting for memory
///     .without(AlertKind::Jump); // large allocations raise no alert
/// let swap_only = Alerts::none().swap(50.0, 90.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Alerts {
    pub(super) memory: Option<Thresholds>,
    pub(super) container: Option<Thresholds>,
    pub(super) resident: Option<Thresholds>,
    pub(super) swap: Option<Thresholds>,
    pub(super) pressure: Option<Thresholds>,
    pub(super) jump: Option<u64>,
    pub(super) fragmentation: Option<f64>,
    pub(super) hysteresis: f64,
    pub(super) rate: (usize, Duration),
}

impl Default for Alerts {
    fn default() -> Self {
        Self {
            memory: Some((80.0, 95.0)),
            container: Some((80.0, 95.0)),
            resident: None,
            swap: Some((80.0, 95.0)),
            pressure: Some((10.0, 40.0)),
            jump: Some(100 << 20),
            fragmentation: Some(0.3),
            hysteresis: 0.05,
            rate: (10, Duration::from_secs(60)),
        }
    }
}

impl Alerts {
    /// Watches nothing. Add what to watch.
    #[must_use]
    pub fn none() -> Self {
        Self {
            memory: None,
            container: None,
            swap: None,
            pressure: None,
            jump: None,
            fragmentation: None,
            ..Self::default()
        }
    }

    /// Stops watching this kind of alert. [Failures](AlertKind::Failure) always raise alerts.
    #[must_use]
    pub fn without(mut self, kind: AlertKind) -> Self {
        match kind {
            AlertKind::Memory => self.memory = None,
            AlertKind::Container => self.container = None,
            AlertKind::Resident => self.resident = None,
            AlertKind::Swap => self.swap = None,
            AlertKind::Pressure => self.pressure = None,
            AlertKind::Jump => self.jump = None,
            AlertKind::Fragmentation => self.fragmentation = None,
            AlertKind::Failure => {}
        }
        self
    }

    /// Sets the thresholds for the used percentage of a device's memory, the machine's memory and
    /// the container's limit [default: 80 and 95].
    #[must_use]
    pub fn memory(mut self, warning: f64, critical: f64) -> Self {
        self.memory = Some((warning, critical));
        self.container = Some((warning, critical));
        self
    }

    /// Sets the thresholds for the resident bytes of the process [default: not watched].
    #[must_use]
    pub fn resident(mut self, warning: u64, critical: u64) -> Self {
        self.resident = Some((warning as f64, critical as f64));
        self
    }

    /// Sets the thresholds for the used percentage of swap [default: 80 and 95].
    #[must_use]
    pub fn swap(mut self, warning: f64, critical: f64) -> Self {
        self.swap = Some((warning, critical));
        self
    }

    /// Sets the thresholds for memory pressure: the percentage of the last ten seconds in which
    /// something on the machine waited for memory [default: 10 and 40].
    #[must_use]
    pub fn pressure(mut self, warning: f64, critical: f64) -> Self {
        self.pressure = Some((warning, critical));
        self
    }

    /// Sets the threshold for the increase in allocated bytes from one sample to the next [default:
    /// 100 MiB].
    #[must_use]
    pub fn jump(mut self, bytes: u64) -> Self {
        self.jump = Some(bytes);
        self
    }

    /// Sets the threshold for fragmentation: the fraction of an allocator's reserved memory that is
    /// not in use but cannot be returned [default: 0.3].
    #[must_use]
    pub fn fragmentation(mut self, part: f64) -> Self {
        self.fragmentation = Some(part);
        self
    }

    /// Sets how far a value must fall below its threshold before it can raise an alert again, as a
    /// fraction of the threshold [default: 0.05].
    #[must_use]
    pub fn hysteresis(mut self, part: f64) -> Self {
        self.hysteresis = part;
        self
    }

    /// Limits the number of alerts of one kind and level within a period [default: 10 in a minute].
    /// The next alert after that states how many were suppressed.
    #[must_use]
    pub fn rate(mut self, count: usize, period: Duration) -> Self {
        self.rate = (count, period);
        self
    }

    /// Returns the fraction of the container's limit above which alerts depend on how much of its
    /// memory is file cache.
    pub(super) fn container_from(&self) -> f64 {
        let from = |(warning, _)| warning / 100.0 * (1.0 - self.hysteresis);
        self.container.map_or(f64::INFINITY, from)
    }

    /// Describes what is invalid, in a sentence. `None` if all is valid.
    pub(super) fn problem(&self) -> Option<String> {
        let percents = [("memory", self.memory), ("swap", self.swap), ("pressure", self.pressure)];
        for (name, thresholds) in percents {
            let Some((warning, critical)) = thresholds else { continue };
            if !(warning > 0.0 && warning <= critical && critical <= 100.0) {
                return Some(format!(
                    "alerts on {name} cannot be at {warning} and {critical} percent: the warning must be above 0 and not above \
                     the critical threshold, and that not above 100"
                ));
            }
        }
        if let Some((warning, critical)) = self.resident
            && !(warning > 0.0 && warning <= critical)
        {
            return Some(format!(
                "alerts on resident memory cannot be at {warning} and {critical} bytes: the warning must be above 0 and not \
                 above the critical threshold"
            ));
        }
        if !(0.0..1.0).contains(&self.hysteresis) {
            let part = self.hysteresis;
            return Some(format!("a hysteresis of {part} is none: give a part between 0 and 1"));
        }
        (self.rate.0 == 0)
            .then(|| "alerts that may never be told are none: leave them out".to_owned())
    }
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Level {
    /// Worth knowing.
    Warning,
    /// Failure is imminent.
    Critical,
    /// Something has failed.
    Error,
}

impl Level {
    /// Returns the name of the level, which is also the type of its event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Error => "error",
        }
    }
}

/// The subject of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AlertKind {
    /// The memory of a device, or of the machine.
    Memory,
    /// The limit of the container.
    Container,
    /// The resident memory of the process.
    Resident,
    /// Swap.
    Swap,
    /// Time spent waiting for memory.
    Pressure,
    /// A large allocation between two samples.
    Jump,
    /// Memory that is reserved but unusable.
    Fragmentation,
    /// A failure because memory ran out.
    Failure,
}

impl AlertKind {
    /// Returns its name in events: `memory`, `container` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Container => "container",
            Self::Resident => "resident",
            Self::Swap => "swap",
            Self::Pressure => "pressure",
            Self::Jump => "jump",
            Self::Fragmentation => "fragmentation",
            Self::Failure => "failure",
        }
    }
}

/// An alert, as passed to callbacks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Alert {
    /// The severity.
    pub level: Level,
    /// The subject.
    pub kind: AlertKind,
    /// A description for people.
    pub message: String,
    /// The device.
    pub device_id: i64,
    /// The time, in Unix nanoseconds.
    pub timestamp_ns: u64,
    /// The value that raised the alert: percent, bytes or a fraction, depending on its kind.
    pub value: f64,
    /// How many alerts of this kind and level were suppressed before it.
    pub suppressed: u64,
}

/// Writes the message.
impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
