//! Draws events as a picture.

use std::collections::BTreeMap;

use super::alike::{self, Occurrence};
use super::axis::{elapsed, utc};
use super::gauges;
use super::picture::{Level, Line, Mark, Panel, Picture, Point, Unit};
use super::svg::Markup;
use runlore_core::text::{human_bytes, human_duration, thousands};
use runlore_events::analyze::{EventReport, MarkKind, Sample, Series, Timelines};
use runlore_query::analyze::{Finding, Kind, Place, Severity, Window};

/// Up to this many series, each one has a panel of its own.
const PANELS: usize = 4;
/// Maximum number of memory curves. With many devices, whole counters are left out, because that
/// loses less than thinning every curve. One counter is always drawn.
const LINES: usize = 48;
/// Maximum number of devices drawn.
const DEVICES: usize = 400;
/// A limit is drawn only if it is at most this many times the highest value.
pub(super) const NEAR: f64 = 2.5;
/// Maximum number of marks drawn. The most important ones are kept.
const MARKS: usize = 40;

/// A memory counter: its name, and how to read it from a sample.
type Counter = (&'static str, fn(&Sample) -> Option<u64>);

/// The suffix of a panel's title if its device is a suspected first cause.
const BEGAN_HERE: &str = ": it may have begun here";

const COUNTERS: [Counter; 3] = [
    ("in use of the device", |sample| sample.used),
    ("reserved", |sample| sample.reserved),
    ("allocated", |sample| sample.allocated),
];

impl Picture {
    /// Draws the memory of each rank and device over time. Findings and the collectors' messages
    /// are marked. The other values that trackers read are drawn beneath. The ranks are aligned to
    /// one clock, with the offsets in the report.
    ///
    /// ```
    /// use runlore::analyze::{Thresholds, Timelines};
    /// use runlore::events::TelemetryEvent;
    /// use runlore::report::Picture;
    ///
    /// let timelines: Timelines = (0..60_u64)
    ///     .map(|second| TelemetryEvent {
    ///         timestamp_ns: second * 1_000_000_000,
    ///         allocator_allocated_bytes: Some((1 + second % 7) << 28),
    ///         ..TelemetryEvent::default()
    ///     })
    ///     .collect();
    /// let picture = Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()));
    /// assert_eq!(picture.panels[0].lines[0].points.len(), 60);
    /// assert!(picture.to_svg().starts_with("<svg"));
    /// assert!(picture.to_html().contains("<script>"));
    /// assert_eq!(&picture.to_png(1.0)?[1..4], b"PNG");
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn of_events(timelines: &Timelines, report: &EventReport) -> Self {
        drawn(timelines, report).0
    }
}

/// Returns the picture, and for each finding the number of its mark.
pub(super) fn drawn(timelines: &Timelines, report: &EventReport) -> (Picture, Vec<Option<usize>>) {
    let clock = Clock::of(timelines, report);
    let mut picture = Picture {
        title: "Memory over time".to_owned(),
        subtitle: subtitle(timelines, &clock),
        start_ns: clock.start_ns,
        length_ns: clock.length_ns,
        ..Picture::default()
    };
    let suspects = Suspects::of(report);
    let series = timelines.series();
    let mut layout = match series.len() {
        0..=PANELS => Layout::each(&clock, series, &suspects),
        _ => Layout::all(&clock, series, &suspects, &mut picture.notes),
    };
    let at = |series: &Series, ns: u64| clock.shared(series, ns).saturating_sub(clock.start_ns);
    layout.panels.extend(gauges::panels(series, &at));
    let (marks, numbers) = clock.marks(timelines, report, &layout, &mut picture.notes);
    picture.panels = layout.panels;
    picture.marks = marks;
    if clock.is_aligned() {
        let note = "the clocks of the ranks differ: each rank begins where the first one does";
        picture.notes.push(note.to_owned());
    }
    picture.notes.extend(report.notes.iter().cloned());
    picture.notes.truncate(8);
    (picture, numbers)
}

/// The devices that are suspected first causes.
struct Suspects<'a>(Vec<&'a Place>);

impl<'a> Suspects<'a> {
    fn of(report: &'a EventReport) -> Self {
        let causes = report.findings.iter().filter(|finding| finding.kind == Kind::FirstCause);
        Self(causes.map(|finding| &finding.place).collect())
    }

    fn includes(&self, series: &Series) -> bool {
        self.0.iter().any(|place| is_of(place, series))
    }

    /// Returns the suffix of the title of a panel with many devices.
    fn told(&self) -> String {
        match &self.0[..] {
            [] => String::new(),
            [Place { rank: Some(rank), .. }] => format!(": rank {rank} may have begun it"),
            several => format!(": {} may have begun it", several.len()),
        }
    }
}

/// Whether a finding's place is that of the series.
fn is_of(place: &Place, series: &Series) -> bool {
    let key = |place: &Place| (place.rank, place.device_id);
    key(place) == key(&series.place)
        && place.session_id == series.place.session_id
        && place.job_id == series.place.job_id
        && place.host == series.place.host
}

/// The panels, and which series is in which panel.
struct Layout {
    panels: Vec<Panel>,
    /// Indexed by series: the panel with the memory in use on the device, and the panel with the
    /// program's own memory.
    of: Vec<(Option<usize>, Option<usize>)>,
}

impl Layout {
    /// Creates panels for each device.
    fn each(clock: &Clock, all: &[Series], suspects: &Suspects<'_>) -> Self {
        let mut layout = Self { panels: Vec::new(), of: Vec::new() };
        for series in all {
            let mut add = |panel: Panel| {
                let is_empty = panel.lines.is_empty();
                layout.panels.extend((!is_empty).then_some(panel));
                (!is_empty).then(|| layout.panels.len() - 1)
            };
            let places = match clock.panels_of(series, suspects) {
                (one, None) => (add(one), None),
                (machine, Some(own)) => (add(machine), add(own)),
            };
            layout.of.push(match places {
                (used, None) => (used, used),
                (None, own) => (own, own),
                both => both,
            });
        }
        layout
    }

    /// Creates one panel per counter, with all devices.
    fn all(
        clock: &Clock,
        all: &[Series],
        suspects: &Suspects<'_>,
        notes: &mut Vec<String>,
    ) -> Self {
        // Suspects get the first colours and the first places in the legend.
        let (mut shown, mut others): (Vec<&Series>, Vec<&Series>) =
            all.iter().partition(|series| suspects.includes(series));
        shown.append(&mut others);
        if let Some(more @ 1..) = shown.len().checked_sub(DEVICES) {
            notes.push(format!("{} more devices are not drawn", thousands(more as u64)));
            shown.truncate(DEVICES);
        }
        let is_device = |series: &Series| series.place.device_id.is_some_and(|it| it >= 0);
        // The memory in use on a machine includes that of other programs, so the program's own
        // memory comes first.
        let mut counters = COUNTERS;
        if !all.iter().any(is_device) {
            counters.reverse();
        }
        let made = counters
            .iter()
            .map(|counter| (counter.0, clock.panel_of_all(&shown, *counter, suspects)));
        let mut made: Vec<(&str, Panel)> =
            made.filter(|(_, panel)| !panel.lines.is_empty()).collect();
        let most = (LINES / shown.len()).max(1);
        let left_out: Vec<&str> = made.iter().skip(most).map(|(name, _)| *name).collect();
        if !left_out.is_empty() {
            notes.push(format!(
                "of so many devices one counter is drawn, and not what is {}",
                left_out.join(" or ")
            ));
        }
        made.truncate(most);
        let place = |name: &str| made.iter().position(|(known, _)| *known == name);
        let first = (!made.is_empty()).then_some(0);
        let used = place(COUNTERS[0].0).or(first);
        let own = place(COUNTERS[2].0).or(first);
        Self {
            of: vec![(used, own); all.len()],
            panels: made.into_iter().map(|(_, panel)| panel).collect(),
        }
    }

    /// Returns the panel that shows a finding.
    fn of_finding(&self, finding: &Finding, all: &[Series]) -> Option<usize> {
        let titled = |title: &str| self.panels.iter().position(|panel| panel.title == title);
        let told = match finding.kind {
            Kind::MemoryPressure => titled(gauges::WAITING),
            Kind::Swapping => titled(gauges::SWAP),
            _ => None,
        };
        let at = || all.iter().position(|series| is_of(&finding.place, series));
        told.or_else(|| {
            let (used, own) = self.of.get(at()?).copied()?;
            match finding.kind {
                Kind::LeakSuspect | Kind::Churn | Kind::Fragmentation => own,
                Kind::FirstCause if finding.place.device_id.is_some_and(|it| it < 0) => own,
                _ => used,
            }
        })
    }
}

fn subtitle(timelines: &Timelines, clock: &Clock) -> String {
    let samples: usize = timelines.series().iter().map(|series| series.samples.len()).sum();
    let series = match timelines.series() {
        [one] if one.place.device_id.is_none_or(|device| device < 0) => {
            one.place.host.clone().unwrap_or_default()
        }
        [one] => one.place.to_string(),
        all => format!("{} devices", all.len()),
    };
    let length = human_duration(std::time::Duration::from_nanos(clock.length_ns));
    let from = utc(clock.start_ns);
    format!("{series}: {samples} samples in {length}, from {from}")
}

/// The picture's time axis, and the offset of each rank's clock.
struct Clock {
    start_ns: u64,
    length_ns: u64,
    offsets: BTreeMap<(Option<String>, u64), i64>,
    /// Whether the series belong to several jobs. Their names then include the job.
    names_jobs: bool,
}

impl Clock {
    fn of(timelines: &Timelines, report: &EventReport) -> Self {
        let mut offsets = BTreeMap::new();
        for job in &report.cross_rank {
            for (&rank, &offset) in &job.alignment_offsets_ns {
                offsets.insert((job.job_id.clone(), rank), offset);
            }
        }
        let places = timelines.series().iter().map(|series| &series.place);
        let names_jobs = Place::are_of_several_jobs(places);
        let mut clock = Self { start_ns: 0, length_ns: 0, offsets, names_jobs };
        let windows = timelines.series().iter().filter_map(|series| {
            // A collector's message may precede the first sample or follow the last.
            let marks = series.marks.iter().map(|mark| mark.timestamp_ns);
            let samples = series.samples.iter().map(|sample| sample.timestamp_ns);
            let times = samples.chain(marks);
            let (start, end) = (times.clone().min()?, times.max()?);
            Some((clock.shared(series, start), clock.shared(series, end)))
        });
        let whole = windows.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let (start, end) = whole.unwrap_or_default();
        clock.start_ns = start;
        clock.length_ns = end - start;
        clock
    }

    /// Returns the name of a series.
    fn name(&self, series: &Series) -> String {
        if self.names_jobs { format!("{:#}", series.place) } else { series.place.to_string() }
    }

    fn is_aligned(&self) -> bool {
        self.offsets.values().any(|offset| *offset != 0)
    }

    fn shared(&self, series: &Series, at_ns: u64) -> u64 {
        let rank = series.place.rank.unwrap_or(0);
        let offset = self.offsets.get(&(series.place.job_id.clone(), rank)).copied();
        at_ns.saturating_add_signed(offset.unwrap_or(0).saturating_neg())
    }

    fn line(&self, series: &Series, name: String, of: fn(&Sample) -> Option<u64>) -> Option<Line> {
        let rank = series.place.rank.unwrap_or(0);
        let offset = self.offsets.get(&(series.place.job_id.clone(), rank)).copied().unwrap_or(0);
        let point = |sample: &Sample| {
            let at = sample.timestamp_ns.saturating_add_signed(offset.saturating_neg());
            Some(Point { at_ns: at.saturating_sub(self.start_ns), value: of(sample)? as f64 })
        };
        let points: Vec<Point> = series.samples.iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Line { name, points, ..Line::default() })
    }

    /// Creates the panels of one device. For main memory, the memory in use by all programs and the
    /// program's own memory get separate panels.
    fn panels_of(&self, series: &Series, suspects: &Suspects<'_>) -> (Panel, Option<Panel>) {
        let panel = self.panel_of(series, suspects);
        if series.place.device_id.is_some_and(|device| device >= 0) {
            return (panel, None);
        }
        let (mut used, mut own): (Vec<Line>, Vec<Line>) =
            panel.lines.into_iter().partition(|line| line.name == COUNTERS[0].0);
        // Without a count of allocations, the resident memory is in both counters.
        own.dedup_by(|one, other| one.points == other.points);
        let total = series.samples.iter().filter_map(|sample| sample.total).max();
        // A tracker of the machine reports the machine's use in all counters. A tracker of a single
        // process reports no total.
        if own.iter().all(|line| used.iter().any(|used| used.points == line.points)) {
            if total.is_some() { own.clear() } else { used.clear() }
        }
        let mut of_rank = match series.place.rank {
            Some(rank) if series.world_size > 1 => format!(", rank {rank}"),
            _ => String::new(),
        };
        if let Some(job) = series.place.job_id.as_ref().filter(|_| self.names_jobs) {
            of_rank += &format!(", job {job}");
        }
        let host = series.place.host.as_deref().unwrap_or_default();
        let of = total.map_or_else(String::new, |total| format!(", {} in all", human_bytes(total)));
        for line in used.iter_mut().chain(&mut own) {
            line.name = match &*line.name {
                "allocated" => "allocated",
                "reserved" => "resident",
                _ => "in use, by whomever",
            }
            .to_owned();
        }
        let made = |title: String, lines: Vec<Line>, limit: Option<f64>| Panel {
            title,
            unit: Unit::Bytes,
            lines,
            limit,
        };
        let suspicion = if suspects.includes(series) { BEGAN_HERE } else { "" };
        (
            made(format!("Memory of the machine {host}{of_rank}{of}"), used, panel.limit),
            Some(made(format!("Memory of the program{of_rank}{suspicion}"), own, None)),
        )
    }

    /// Creates a panel with all counters of one device.
    fn panel_of(&self, series: &Series, suspects: &Suspects<'_>) -> Panel {
        let lines =
            COUNTERS.iter().filter_map(|(name, of)| self.line(series, (*name).to_owned(), *of));
        let lines: Vec<Line> = lines.collect();
        let total = series.samples.iter().filter_map(|sample| sample.total).max();
        let values = lines.iter().flat_map(|line| &line.points).map(|point| point.value);
        let most = values.fold(0.0, f64::max);
        let of = total.map_or_else(String::new, |total| format!(", {} in all", human_bytes(total)));
        let suspicion = if suspects.includes(series) { BEGAN_HERE } else { "" };
        Panel {
            title: format!("{}{of}{suspicion}", self.name(series)),
            unit: Unit::Bytes,
            lines,
            // A limit far above the curves would flatten them.
            limit: total.map(|total| total as f64).filter(|total| most * NEAR >= *total),
        }
    }

    /// Creates a panel with one counter of all devices.
    fn panel_of_all(&self, all: &[&Series], (name, of): Counter, suspects: &Suspects<'_>) -> Panel {
        let lines = all.iter().filter_map(|series| {
            let line = self.line(series, self.name(series), of)?;
            Some(Line { is_suspect: suspects.includes(series), ..line })
        });
        Panel {
            title: format!("Memory {name}, by rank and device{}", suspects.told()),
            unit: Unit::Bytes,
            lines: lines.collect(),
            limit: None,
        }
    }

    /// Returns the marks, and for each finding the number of its mark.
    fn marks(
        &self,
        timelines: &Timelines,
        report: &EventReport,
        layout: &Layout,
        notes: &mut Vec<String>,
    ) -> (Vec<Mark>, Vec<Option<usize>>) {
        let mut all: Vec<Occurrence> = Vec::new();
        for (number, finding) in report.findings.iter().enumerate() {
            let Some(Window { start_ns, end_ns }) = finding.place.window else { continue };
            let key = (finding.place.job_id.clone(), finding.place.rank.unwrap_or(0));
            let offset = self.offsets.get(&key).copied().unwrap_or(0);
            let at = |ns: u64| {
                ns.saturating_add_signed(offset.saturating_neg()).saturating_sub(self.start_ns)
            };
            all.push(Occurrence {
                at_ns: at(start_ns),
                end_ns: at(end_ns),
                level: level(finding.severity),
                panel: layout.of_finding(finding, timelines.series()),
                what: finding.what.clone(),
                place: finding.place.clone(),
                finding: Some((number, finding.kind)),
            });
        }
        for (series, (_, own)) in timelines.series().iter().zip(&layout.of) {
            for told in &series.marks {
                let level = match told.kind {
                    MarkKind::Alert(severity) => level(severity),
                    MarkKind::OutOfMemory => Level::Critical,
                    MarkKind::Degraded => Level::Warning,
                    _ => Level::Info,
                };
                let at = self.shared(series, told.timestamp_ns).saturating_sub(self.start_ns);
                all.push(Occurrence {
                    at_ns: at,
                    end_ns: at,
                    level,
                    panel: *own,
                    what: told.text.clone(),
                    place: series.place.clone(),
                    finding: None,
                });
            }
        }
        let (mut marks, mut numbers) = alike::joined(all, report.findings.len(), self.length_ns);
        if let Some(more @ 1..) = marks.len().checked_sub(MARKS) {
            let more = thousands(more as u64);
            notes.push(format!("{more} more that matter less are not marked"));
            marks.truncate(MARKS);
            numbers.iter_mut().for_each(|number| *number = number.filter(|it| *it <= MARKS));
        }
        (marks, numbers)
    }
}

/// Returns the text of a finding's mark.
pub(super) fn mark_text(finding: &Finding) -> String {
    let place = match finding.place.to_string() {
        place if place.is_empty() => place,
        place => format!(" ({place})"),
    };
    format!("{}{place}: {}", finding.kind, finding.what)
}

/// Writes a mark as a list item beside its picture: number, level, time and text.
pub(super) fn write_mark(to: &mut Markup, number: usize, mark: &Mark) {
    let level = mark.level.as_str();
    to.open("li", &[]);
    to.element("span", &[("class", &format!("number-of {level}"))], number);
    to.raw(" ");
    to.element("span", &[("class", &format!("level {level}"))], level);
    to.element("span", &[("class", &"quiet")], format!(" {} ", elapsed(mark.at_ns)));
    to.escaped(&mark.text);
    to.close("li");
}

pub(super) fn level(severity: Severity) -> Level {
    match severity {
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warning,
        Severity::Critical => Level::Critical,
    }
}
