//! Groups events into series of samples, which are analysed and plotted. Each combination of job,
//! session, host, rank and device has its own series.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::finding::{Place, Severity, Window};
use super::gauge::{self, Gauge, GaugeSeries};
use crate::events::{TelemetryEvent, Text};

/// The counters of one event. Unknown counters are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the event, without `_bytes`")]
pub struct Sample {
    pub timestamp_ns: u64,
    pub allocated: Option<u64>,
    pub reserved: Option<u64>,
    pub inactive: Option<u64>,
    pub used: Option<u64>,
    pub total: Option<u64>,
}

impl Sample {
    /// Returns the used memory of the device that the allocator has not reserved. Negative if the
    /// allocator has reserved more than is in use.
    pub fn gap(&self) -> Option<f64> {
        Some(self.used? as f64 - self.reserved? as f64)
    }

    /// Returns the memory that the process holds: allocated bytes, or else used bytes of the
    /// device.
    pub fn held(&self) -> Option<u64> {
        self.allocated.or(self.used)
    }
}

/// An event of note besides the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mark {
    /// The time, in Unix nanoseconds.
    pub timestamp_ns: u64,
    /// The kind of event.
    pub kind: MarkKind,
    /// The context of the event, or else its type.
    pub text: String,
}

/// The kind of a [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MarkKind {
    /// A `warning`, `critical` or `error` of the collector.
    Alert(Severity),
    /// Memory ran out.
    OutOfMemory,
    /// A collective operation.
    Collective,
    /// A phase began or ended.
    Phase,
    /// The collector could not read all its counters.
    Degraded,
}

/// The samples of one device of one rank, of one job and session on one host, ordered by time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Series {
    /// The origin of the samples.
    pub place: Place,
    /// The number of processes in the job.
    pub world_size: u64,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Events of note besides the samples.
    pub marks: Vec<Mark>,
    /// Other values that a tracker recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<GaugeSeries>,
}

impl Series {
    /// Returns the time from the first to the last sample. `None` if there are no samples.
    pub fn window(&self) -> Option<Window> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        Some(Window { start_ns: first.timestamp_ns, end_ns: last.timestamp_ns })
    }

    /// Returns the readings of a gauge. `None` if there are none.
    pub fn gauge(&self, gauge: Gauge) -> Option<&[(u64, f64)]> {
        let found = self.gauges.iter().find(|known| known.gauge == gauge)?;
        Some(&found.points)
    }

    /// Whether this is a separate device, such as a GPU. For the host, used memory is that of the
    /// whole machine, so the gap belongs to other programs.
    pub(super) fn is_device(&self) -> bool {
        self.place.device_id.is_some_and(|device| device >= 0)
    }

    /// Returns the seconds since the first sample.
    pub(super) fn seconds(&self, sample: &Sample) -> f64 {
        let first = self.samples.first().map_or(0, |first| first.timestamp_ns);
        sample.timestamp_ns.saturating_sub(first) as f64 / 1e9
    }

    /// Returns the marks of one kind.
    pub(super) fn marks_of(&self, kind: MarkKind) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(move |mark| mark.kind == kind)
    }

    fn put_in_order(&mut self) {
        self.samples.sort_by_key(|sample| sample.timestamp_ns);
        // The same file may be given twice, or an export beside its sink.
        self.samples.dedup();
        self.marks.sort_by_key(|mark| mark.timestamp_ns);
        self.marks.dedup();
        for gauge in &mut self.gauges {
            gauge.points.sort_by_key(|point| point.0);
            gauge.points.dedup();
        }
        self.gauges.sort_by_key(|gauge| gauge.gauge);
    }
}

/// The series of any number of files, created by [`Collector`].
///
/// ```
/// use runlore::analyze::{Thresholds, Timelines};
/// use runlore::events::TelemetryEvent;
///
/// let events = (0..20).map(|second: u64| TelemetryEvent {
///     timestamp_ns: second * 1_000_000_000,
///     device_used_bytes: Some(14 << 30),
///     device_total_bytes: Some(16 << 30),
///     ..TelemetryEvent::default()
/// });
/// let timelines: Timelines = events.collect();
/// assert_eq!(timelines.series()[0].samples.len(), 20);
///
/// let report = timelines.analyze(&Thresholds::default());
/// assert_eq!(report.findings[0].to_string(), "warning high_utilization: rank 0, processor of unknown: \
///     14 GiB of 16 GiB were in use at the peak (88 %)");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Timelines {
    series: Vec<Series>,
}

impl Timelines {
    /// Returns the series, sorted by job, rank, device, session and host.
    pub fn series(&self) -> &[Series] {
        &self.series
    }
}

impl FromIterator<TelemetryEvent> for Timelines {
    fn from_iter<I: IntoIterator<Item = TelemetryEvent>>(events: I) -> Self {
        let mut collector = Collector::default();
        for event in events {
            collector.add(&event);
        }
        collector.finish()
    }
}

/// Identifies a series within a session: rank, device, job and host. A file without session ids may
/// combine several jobs and hosts in one session.
type Key = (u64, i64, Option<Text>, Text);

/// Collects events into [`Timelines`], in any order and from any number of files. It keeps only the
/// numbers of each sample, less than a hundred bytes.
#[derive(Debug, Default)]
pub struct Collector {
    series: HashMap<String, BTreeMap<Key, Series>>,
}

impl Collector {
    /// Adds an event.
    pub fn add(&mut self, event: &TelemetryEvent) {
        let session = match self.series.get_mut(&*event.session_id) {
            Some(session) => session,
            None => self.series.entry(event.session_id.to_string()).or_default(),
        };
        let key = (event.rank, event.device_id, event.job_id.clone(), event.host.clone());
        let series = session.entry(key).or_insert_with(|| Series {
            place: Place {
                job_id: event.job_id.clone().map(String::from),
                session_id: Some(event.session_id.to_string()),
                host: Some(event.host.to_string()),
                rank: Some(event.rank),
                device_id: Some(event.device_id),
                ..Place::default()
            },
            world_size: event.world_size,
            samples: Vec::new(),
            marks: Vec::new(),
            gauges: Vec::new(),
        });
        series.world_size = series.world_size.max(event.world_size);
        if event.event_type == "sample" {
            gauge::add(&mut series.gauges, event);
            series.samples.push(Sample {
                timestamp_ns: event.timestamp_ns,
                allocated: event.allocator_allocated_bytes,
                reserved: event.allocator_reserved_bytes,
                inactive: event.allocator_inactive_bytes,
                used: event.device_used_bytes,
                total: event.device_total_bytes,
            });
        }
        if let Some(kind) = super::marks::kind_of(event) {
            let text = event.context.as_deref().unwrap_or(&event.event_type).to_owned();
            series.marks.push(Mark { timestamp_ns: event.timestamp_ns, kind, text });
        }
    }

    /// Returns all series, each ordered by time.
    pub fn finish(self) -> Timelines {
        let mut series: Vec<Series> =
            self.series.into_values().flat_map(BTreeMap::into_values).collect();
        for one in &mut series {
            one.put_in_order();
        }
        series.sort_by_cached_key(|one| {
            let Place { job_id, session_id, host, rank, device_id, .. } = one.place.clone();
            (job_id, rank, device_id, session_id, host)
        });
        Timelines { series }
    }
}
/// Returns the time from a sample until the device is full at this rate, in nanoseconds and as
/// text. `None` if that is unknown or never happens.
pub(super) fn time_until_full(sample: &Sample, slope: f64) -> Option<(u64, String)> {
    let free = sample.total?.checked_sub(sample.used?)?;
    let seconds = free as f64 / slope;
    // Times beyond some decades are of no interest.
    let taken =
        (slope > 0.0 && seconds < 1e9).then(|| std::time::Duration::from_secs_f64(seconds))?;
    Some((u64::try_from(taken.as_nanos()).ok()?, runlore_core::text::human_duration(taken)))
}
