//! When somebody is told that memory runs short.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// From where on a value is worth a warning, and from where on it is critical.
pub(super) type Thresholds = (f64, f64);

/// What is watched, from where on it is told, and how often.
///
/// An alert is told when a value rises over its threshold, and again only after it has fallen back below it by
/// [`hysteresis`](Self::hysteresis); and never more often than the [`rate`](Self::rate).
///
/// ```
/// use runlore::tracker::{AlertKind, Alerts};
///
/// let alerts = Alerts::default()
///     .memory(80.0, 95.0) // percent of the device, the machine or the container's limit
///     .resident(4 << 30, 6 << 30) // bytes of the process
///     .pressure(10.0, 40.0) // percent of the time in which something waits for memory
///     .without(AlertKind::Jump); // however much is allocated at once
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
    /// Watches nothing: what is to be watched is added.
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

    /// Does not watch this. What [has failed](AlertKind::Failure) is told in any case.
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

    /// Percent of a device's memory, of the machine's and of the container's limit [default: 80 and 95].
    #[must_use]
    pub fn memory(mut self, warning: f64, critical: f64) -> Self {
        self.memory = Some((warning, critical));
        self.container = Some((warning, critical));
        self
    }

    /// Bytes of the process that are resident [default: not watched].
    #[must_use]
    pub fn resident(mut self, warning: u64, critical: u64) -> Self {
        self.resident = Some((warning as f64, critical as f64));
        self
    }

    /// Percent of swap [default: 80 and 95].
    #[must_use]
    pub fn swap(mut self, warning: f64, critical: f64) -> Self {
        self.swap = Some((warning, critical));
        self
    }

    /// Percent of the last ten seconds in which something on the machine waited for memory [default: 10 and 40].
    #[must_use]
    pub fn pressure(mut self, warning: f64, critical: f64) -> Self {
        self.pressure = Some((warning, critical));
        self
    }

    /// Bytes that are allocated from one sample to the next [default: 100 MiB].
    #[must_use]
    pub fn jump(mut self, bytes: u64) -> Self {
        self.jump = Some(bytes);
        self
    }

    /// The part of what an allocator holds that is not in use and cannot be given back [default: 0.3].
    #[must_use]
    pub fn fragmentation(mut self, part: f64) -> Self {
        self.fragmentation = Some(part);
        self
    }

    /// How far a value must fall below its threshold before it is told again, as a part of the threshold [default: 0.05].
    #[must_use]
    pub fn hysteresis(mut self, part: f64) -> Self {
        self.hysteresis = part;
        self
    }

    /// At most so many alerts of a kind in this time [default: 10 in a minute]. The next one says how many were not told.
    #[must_use]
    pub fn rate(mut self, count: usize, period: Duration) -> Self {
        self.rate = (count, period);
        self
    }

    /// From which part of its limit on it matters how much of a container's memory is only cache.
    pub(super) fn container_from(&self) -> f64 {
        let from = |(warning, _)| warning / 100.0 * (1.0 - self.hysteresis);
        self.container.map_or(f64::INFINITY, from)
    }

    /// What is wrong with them, in a sentence.
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

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Level {
    /// Worth knowing.
    Warning,
    /// About to fail.
    Critical,
    /// It has failed.
    Error,
}

impl Level {
    /// The word for it, which is also the type of its event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Error => "error",
        }
    }
}

/// What an alert is about.
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
    /// Waiting for memory.
    Pressure,
    /// Much that was allocated at once.
    Jump,
    /// Memory that is held and of no use.
    Fragmentation,
    /// Something that failed for want of memory.
    Failure,
}

impl AlertKind {
    /// Its name in events: `memory`, `container` and so on.
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

/// Something that whoever asked for alerts is told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Alert {
    /// How bad it is.
    pub level: Level,
    /// What it is about.
    pub kind: AlertKind,
    /// In words.
    pub message: String,
    /// The device.
    pub device_id: i64,
    /// When, in Unix nanoseconds.
    pub timestamp_ns: u64,
    /// Percent, bytes or a part, by its kind.
    pub value: f64,
    /// How many alerts of this kind were not told before it.
    pub suppressed: u64,
}

/// The message.
impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
