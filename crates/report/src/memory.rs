//! Draws the measurements of a profiler or a tracker as a picture.

use super::axis::utc;
use super::picture::{Level, Line, Mark, Panel, Picture, Point, State, Unit};
use super::run::gantt::{self, Row};
use super::timeline::NEAR;
use runlore_core::text::{human_bytes, human_duration};
use runlore_events::profile::{ProfileResult, Report, Snapshot};
use runlore_events::tracker::Timeline;

/// Maximum number of snapshots with marks. The first ones are kept.
const MARKS: usize = 40;

impl Picture {
    /// Draws the memory of this program as a profiler measured it: snapshots and the edges of
    /// scopes as curves, scopes as bars.
    ///
    /// ```
    /// use runlore::profile::Profiler;
    /// use runlore::report::Picture;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("memory.svg");
    /// let profiler = Profiler::new();
    /// let rows = profiler.scope("load").run(|| vec![1_u8; 1 << 20]);
    /// profiler.snapshot("loaded");
    /// let picture = Picture::of_profiler(&profiler);
    /// assert_eq!(picture.bars[0].name.split(' ').next(), Some("load"));
    /// picture.save(&path)?; // or .png, .html
    /// # drop(rows);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_profiler(report: impl Into<Report>) -> Self {
        let report = report.into();
        let mut resident: Vec<(u64, u64)> = Vec::new();
        let snapshot = |snapshot: &Snapshot, bytes: Option<u64>| {
            Some((nanoseconds(snapshot.timestamp), bytes?))
        };
        resident.extend(report.snapshots.iter().filter_map(|it| snapshot(it, it.rss_bytes)));
        let mut end_ns = report.snapshots.iter().map(|it| nanoseconds(it.timestamp)).max();
        for result in &report.results {
            let began = nanoseconds(result.started_at);
            let ended = began.saturating_add(result.duration_ns);
            resident.extend(result.before_bytes.map(|bytes| (began, bytes)));
            resident.extend(result.after_bytes.map(|bytes| (ended, bytes)));
            end_ns = end_ns.max(Some(ended));
        }
        let allocated = report.snapshots.iter().filter_map(|it| snapshot(it, it.allocated_bytes));
        let allocated: Vec<(u64, u64)> = allocated.collect();
        let snapshots = report.snapshots.iter().map(|it| nanoseconds(it.timestamp));
        let scopes = report.results.iter().map(|result| nanoseconds(result.started_at));
        let start_ns = snapshots.chain(scopes).min().unwrap_or(0);
        let length_ns = end_ns.unwrap_or(0).saturating_sub(start_ns);
        let lines = [("resident", resident), ("allocated", allocated)];
        let marks = report.snapshots.iter().take(MARKS).map(|it| {
            let at_ns = nanoseconds(it.timestamp).saturating_sub(start_ns);
            let text = match it.rss_bytes {
                Some(bytes) => format!("{}: {}", it.label, human_bytes(bytes)),
                None => it.label.clone(),
            };
            Mark { at_ns, end_ns: at_ns, level: Level::Info, text, panel: None }
        });
        let mut picture = Self {
            title: "Memory of the program".to_owned(),
            subtitle: format!(
                "{} scopes and {} snapshots{}",
                report.results.len(),
                report.snapshots.len(),
                told(start_ns, length_ns)
            ),
            start_ns,
            length_ns,
            panels: panels("Memory of the program", lines, None, start_ns),
            marks: marks.collect(),
            ..Self::default()
        };
        if let Some(more @ 1..) = report.snapshots.len().checked_sub(MARKS) {
            picture.notes.push(format!("{more} more snapshots are in the curve without a mark"));
        }
        if report.dropped > 0 {
            let note =
                "older results and snapshots are not drawn: the profiler had no room for them";
            picture.notes.push(note.to_owned());
        }
        let name = |result: &ProfileResult| match result.peak_bytes {
            Some(peak) => format!("{} (at most {})", result.name, human_bytes(peak)),
            None => result.name.clone(),
        };
        let names: Vec<String> = report.results.iter().map(name).collect();
        let row = |(at, result): (usize, &ProfileResult)| Row {
            id: at.to_string().into(),
            parent: None,
            activity: at as u32,
            start_ns: nanoseconds(result.started_at),
            length_ns: result.duration_ns,
            state: State::Finished,
        };
        let rows: Vec<Row> = report.results.iter().enumerate().map(row).collect();
        (picture.bars, picture.density) = gantt::bars(&rows, &names, start_ns, length_ns);
        picture
    }

    /// Draws the memory of one device over time, from
    /// [`Tracker::timeline`](runlore_events::tracker::Tracker::timeline).
    ///
    /// ```
    /// use std::time::Duration;
    /// use runlore::report::Picture;
    /// use runlore::tracker::Tracker;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("timeline.png");
    /// let stopped = Tracker::builder().start()?.stop();
    /// Picture::of_timeline(&stopped.timeline(Duration::from_millis(100))).save(&path)?;
    /// # assert!(std::fs::read(&path)?.starts_with(b"\x89PNG"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_timeline(timeline: &Timeline) -> Self {
        let column = |values: &[Option<u64>]| -> Vec<(u64, u64)> {
            let both = timeline.timestamps.iter().zip(values);
            both.filter_map(|(at, value)| Some((nanoseconds(*at), (*value)?))).collect()
        };
        let start_ns = timeline.timestamps.first().copied().map_or(0, nanoseconds);
        let end_ns = timeline.timestamps.last().copied().map_or(0, nanoseconds);
        let length_ns = end_ns.saturating_sub(start_ns);
        let own =
            [("reserved", column(&timeline.reserved)), ("allocated", column(&timeline.allocated))];
        let used = [("in use, by anybody", column(&timeline.device_used))];
        let total = timeline.device_total.iter().flatten().max().copied();
        let of = total.map_or_else(String::new, |total| format!(", {} in all", human_bytes(total)));
        let most = timeline.device_used.iter().flatten().max().copied().unwrap_or(0) as f64;
        // A limit far above the curve would flatten it.
        let limit = total.map(|total| total as f64).filter(|total| most * NEAR >= *total);
        let mut all = panels(&format!("Memory of the device{of}"), used, limit, start_ns);
        all.extend(panels("Memory of the program", own, None, start_ns));
        Self {
            title: "Memory over time".to_owned(),
            subtitle: format!("{} points{}", timeline.timestamps.len(), told(start_ns, length_ns)),
            start_ns,
            length_ns,
            panels: all,
            ..Self::default()
        }
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn told(start_ns: u64, length_ns: u64) -> String {
    let length = human_duration(std::time::Duration::from_nanos(length_ns));
    if start_ns > 0 { format!(" in {length}, from {}", utc(start_ns)) } else { String::new() }
}

/// Creates a panel of the curves that have points. Empty if no curve has any.
fn panels<const N: usize>(
    title: &str,
    lines: [(&str, Vec<(u64, u64)>); N],
    limit: Option<f64>,
    start_ns: u64,
) -> Vec<Panel> {
    let line = |(name, mut points): (&str, Vec<(u64, u64)>)| {
        points.sort_unstable();
        let point = |(at, bytes): (u64, u64)| Point {
            at_ns: at.saturating_sub(start_ns),
            value: bytes as f64,
        };
        let points: Vec<Point> = points.into_iter().map(point).collect();
        (!points.is_empty()).then(|| Line { name: name.to_owned(), points, ..Line::default() })
    };
    let lines: Vec<Line> = lines.into_iter().filter_map(line).collect();
    let panel = Panel { title: title.to_owned(), unit: Unit::Bytes, lines, limit };
    if panel.lines.is_empty() { Vec::new() } else { vec![panel] }
}
