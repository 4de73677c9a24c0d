//! Compares the memory of a run with that of a good run: its peaks and its growth.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::finding::Window;
use super::report::{EventReport, SeriesSummary};
use runlore_core::settings::nearest;
use runlore_core::{Error, ErrorKind, Result};
use runlore_query::query::{Allowed, Change};

/// Identifies the file format.
const FORMAT: &str = "runlore.reference";
const VERSION: u64 = 1;
/// The maximum size of a reference file.
const LONGEST: u64 = 64 << 20;
/// A smaller change in slope is noise: over the run, it adds less than this fraction of the peak.
const LEAST_OF_PEAK: f64 = 0.01;

/// The summaries of all series of a good run, to compare later runs with.
///
/// ```
/// use runlore::analyze::{Reference, ReferenceLimit, Thresholds, Timelines};
/// use runlore::events::TelemetryEvent;
///
/// let run = |most: u64| -> Timelines {
///     let sample = |at: u64| TelemetryEvent {
///         timestamp_ns: at * 1_000_000_000,
///         allocator_allocated_bytes: Some(at * most / 9),
///         ..TelemetryEvent::default()
///     };
///     (0..10).map(sample).collect()
/// };
/// let reference = Reference::of(&run(100 << 20).analyze(&Thresholds::default()));
/// let changes = reference.changes(&run(150 << 20).analyze(&Thresholds::default()));
/// let limit: ReferenceLimit = "peak:+20%".parse()?;
/// let exceeded = limit.check(&changes)?;
/// assert_eq!(exceeded[0].change.percent(), Some(50.0));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reference {
    format: String,
    version: u64,
    /// The summary of each series.
    pub series: Vec<SeriesSummary>,
}

/// A figure by which series are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReferenceFigure {
    /// The highest held memory in bytes: allocated, or else in use.
    Peak,
    /// The highest reserved memory, in bytes.
    Reserved,
    /// The highest used memory of the device, in bytes.
    Used,
    /// The growth of held memory, in bytes per second.
    Slope,
}

impl ReferenceFigure {
    /// All figures.
    pub const ALL: [Self; 4] = [Self::Peak, Self::Reserved, Self::Used, Self::Slope];

    /// Returns the name, as used in a [`ReferenceLimit`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Reserved => "reserved",
            Self::Used => "used",
            Self::Slope => "slope",
        }
    }

    fn of(self, series: &SeriesSummary) -> Option<f64> {
        let bytes = match self {
            Self::Peak => series.peak_bytes(),
            Self::Reserved => series.peak_reserved_bytes,
            Self::Used => series.peak_used_bytes,
            Self::Slope => return series.slope_bytes_per_sec,
        };
        bytes.map(|bytes| bytes as f64)
    }
}

/// A figure of a series in the reference and in the current run. If only one of them has the
/// series, only one side has a value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReferenceChange {
    /// The rank of the series.
    pub rank: u64,
    /// The device of the series.
    pub device_id: i64,
    /// The figure that is compared.
    pub figure: ReferenceFigure,
    /// The value before and now.
    pub change: Change,
    /// Whether the change is too small to count, whatever its percentage.
    pub is_noise: bool,
}

impl Reference {
    /// Creates a reference from a report.
    pub fn of(report: &EventReport) -> Self {
        let mut series = merged(&report.series);
        for one in &mut series {
            // Only the numbers are compared. The reference must not reveal where they come from.
            one.place.session_id = None;
            one.place.host = None;
            one.place.job_id = None;
        }
        Self { format: FORMAT.to_owned(), version: VERSION, series }
    }

    /// Reads a reference from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not a reference.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong =
            |what: String| Error::new(ErrorKind::Store, format!("{}: {what}", path.display()));
        let length = path.metadata().map_err(|error| wrong(error.to_string()))?.len();
        if length > LONGEST {
            return Err(wrong("it is too long to be a reference".to_owned()));
        }
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let none = "it is no reference; `--save-baseline` writes one";
        let reference: Self =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("{none} ({error})")))?;
        match (&*reference.format, reference.version) {
            (FORMAT, VERSION) => Ok(reference),
            (FORMAT, version) => {
                Err(wrong(format!("it has version {version}, of which this program knows nothing")))
            }
            _ => Err(wrong(none.to_owned())),
        }
    }

    /// Formats the reference as the text of a file.
    pub fn to_json(&self) -> String {
        // Serialising a reference to JSON cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns every figure of every series in the reference or the report, ordered by rank and
    /// device.
    pub fn changes(&self, report: &EventReport) -> Vec<ReferenceChange> {
        let now = merged(&report.series);
        let key =
            |one: &SeriesSummary| (one.place.rank.unwrap_or(0), one.place.device_id.unwrap_or(-1));
        let mut keys: Vec<(u64, i64)> = self.series.iter().chain(&now).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut changes = Vec::new();
        for (rank, device_id) in keys {
            let of = |all: &[SeriesSummary]| {
                all.iter().find(|one| key(one) == (rank, device_id)).cloned()
            };
            let (before, after) = (of(&self.series), of(&now));
            for figure in ReferenceFigure::ALL {
                let known = |series: &Option<SeriesSummary>| figure.of(series.as_ref()?);
                let change = Change { before: known(&before), after: known(&after) };
                let is_noise = figure == ReferenceFigure::Slope
                    && after.as_ref().is_some_and(|after| is_noise(change, after));
                if change.before.is_some() || change.after.is_some() {
                    changes.push(ReferenceChange { rank, device_id, figure, change, is_noise });
                }
            }
        }
        changes
    }
}

fn is_noise(slope: Change, series: &SeriesSummary) -> bool {
    let length = series.place.window.map_or(0, Window::length_ns) as f64 / 1e9;
    let peak = series.peak_bytes().unwrap_or(0) as f64;
    slope.difference().is_some_and(|more| more.abs() * length < peak * LEAST_OF_PEAK)
}

/// Merges the summaries of each rank and device. If there are several sessions, the highest value
/// of each figure counts.
fn merged(series: &[SeriesSummary]) -> Vec<SeriesSummary> {
    let mut all: Vec<SeriesSummary> = Vec::new();
    for one in series.iter().filter(|one| one.samples > 0) {
        let place = &one.place;
        let known = all.iter_mut().find(|known| {
            (known.place.rank, known.place.device_id) == (place.rank, place.device_id)
        });
        let Some(known) = known else {
            all.push(one.clone());
            continue;
        };
        known.samples += one.samples;
        known.peak_allocated_bytes = known.peak_allocated_bytes.max(one.peak_allocated_bytes);
        known.peak_reserved_bytes = known.peak_reserved_bytes.max(one.peak_reserved_bytes);
        known.peak_used_bytes = known.peak_used_bytes.max(one.peak_used_bytes);
        let slopes = [known.slope_bytes_per_sec, one.slope_bytes_per_sec].into_iter().flatten();
        known.slope_bytes_per_sec = slopes.reduce(f64::max);
    }
    all
}

/// The allowed change of a figure in any series: `peak:+20%`, `slope:+1MiB`, `used:+0`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceLimit {
    /// The limit as it was written.
    text: String,
    figure: ReferenceFigure,
    allowed: Allowed,
}

impl ReferenceLimit {
    /// Returns the changes that exceed the limit.
    ///
    /// # Errors
    ///
    /// If the figure is missing for some series in the reference or the run, or for all series in
    /// both. A limit that cannot be checked must not count as met.
    pub fn check<'a>(&self, changes: &'a [ReferenceChange]) -> Result<Vec<&'a ReferenceChange>> {
        let of_figure = changes.iter().filter(|change| change.figure == self.figure);
        let mut exceeded = Vec::new();
        let mut is_checked = false;
        for change in of_figure {
            let (rank, device) = (change.rank, change.device_id);
            let Some(is_exceeded) = self.allowed.is_exceeded(change.change) else {
                let which = match change.change.before {
                    None => "the reference does not tell",
                    Some(_) => "the run does not tell",
                };
                let what = format!(
                    "`{self}` cannot be checked: {which} it for rank {rank}, device {device}"
                );
                return Err(Error::new(ErrorKind::Query, what));
            };
            is_checked = true;
            if is_exceeded && !change.is_noise {
                exceeded.push(change);
            }
        }
        match is_checked {
            true => Ok(exceeded),
            false => {
                let what = format!(
                    "`{self}` cannot be checked: neither the reference nor the run tells it"
                );
                Err(Error::new(ErrorKind::Query, what))
            }
        }
    }
}

impl fmt::Display for ReferenceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ReferenceLimit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = ReferenceFigure::ALL.map(ReferenceFigure::name);
        let wrong = |what: String| {
            let form = "a limit for events is FIGURE:+N% or FIGURE:+N, as in peak:+20%, and a figure is one of";
            Error::new(ErrorKind::Query, format!("{what}; {form} {}", names.join(", ")))
        };
        let (name, allowed) = text
            .trim()
            .split_once(':')
            .ok_or_else(|| wrong(format!("{text:?} does not say how much is allowed")))?;
        let figure = ReferenceFigure::ALL.into_iter().find(|figure| figure.name() == name);
        let figure = figure.ok_or_else(|| {
            let near = nearest::nearest(name, &names);
            let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            wrong(format!("there is no figure {name:?}{near}"))
        })?;
        let allowed = Allowed::parse(allowed)
            .ok_or_else(|| wrong(format!("{allowed:?} is not a change such as +20% or +64MiB")))?;
        Ok(Self { text: text.trim().to_owned(), figure, allowed })
    }
}
