//! A picture as plain data, independent of the output format.

use serde::Serialize;

/// The number of colours for curves.
pub(super) const COLOURS: usize = 8;

/// A chart over time: curves in panels, bars beneath them, and marks.
///
/// Times are nanoseconds since [`start_ns`](Self::start_ns).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Picture {
    /// The title.
    pub title: String,
    /// The subject: the file, the run or the host.
    pub subtitle: String,
    /// The start, in Unix nanoseconds.
    pub start_ns: u64,
    /// The length of the time axis.
    pub length_ns: u64,
    /// The panels of curves, from the top down.
    pub panels: Vec<Panel>,
    /// What ran, as bars beneath the curves.
    pub bars: Vec<Bar>,
    /// How many tasks without a bar ran at the same time, in equal parts of the length. Empty if
    /// every task has a bar.
    pub density: Vec<u32>,
    /// Moments and spans to point out.
    pub marks: Vec<Mark>,
    /// What a reader needs to know to interpret the picture.
    pub notes: Vec<String>,
}

/// Curves with a common axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Panel {
    /// The title: what the curves show.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The curves.
    pub lines: Vec<Line>,
    /// An upper limit of the values, such as the memory of a device.
    pub limit: Option<f64>,
}

/// One curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Whether the curve is a suspected cause. It is drawn stronger than the others.
    pub is_suspect: bool,
    /// Whether each value holds for the time since the previous point, as rates and shares of time
    /// do. Such a curve is drawn as steps.
    pub is_step: bool,
    /// The points, ordered by time.
    pub points: Vec<Point>,
}

/// A value at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Point {
    pub at_ns: u64,
    pub value: f64,
}

/// A task or scope that ran for some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// The start.
    pub start_ns: u64,
    /// The duration.
    pub length_ns: u64,
    /// The row in which the bar is drawn, counted from the top.
    pub row: u32,
    /// How it ended.
    pub state: State,
}

/// How a [`Bar`] ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It finished without an error.
    #[default]
    Finished,
    /// It failed.
    Failed,
    /// It has not ended.
    Running,
}

/// A moment or a span to point out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Mark {
    /// The start.
    pub at_ns: u64,
    /// The end. Equal to `at_ns` for a moment.
    pub end_ns: u64,
    /// How important it is.
    pub level: Level,
    /// The description.
    pub text: String,
    /// The panel it belongs to, counted from the top. `None` if it belongs to all panels.
    pub panel: Option<usize>,
}

/// How important a [`Mark`] is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    #[default]
    Info,
    Warning,
    Critical,
}

impl Level {
    /// Returns the level's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The unit of a curve's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    #[default]
    Count,
    Bytes,
    BytesPerSecond,
    Percent,
    Watts,
    Celsius,
}

impl Picture {
    /// Returns the number of rows of bars.
    pub(super) fn rows(&self) -> u32 {
        self.bars.iter().map(|bar| bar.row + 1).max().unwrap_or(0)
    }

    /// Returns the number of curves in all panels.
    pub(super) fn lines(&self) -> usize {
        self.panels.iter().map(|panel| panel.lines.len()).sum()
    }

    /// Divides `all` intervals among the curves. Returns the number for each suspect and for each
    /// other curve. If there are both, suspects together get half of the intervals, and the others
    /// the other half.
    pub(super) fn stretches(&self, all: usize) -> (usize, usize) {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let suspects = lines.filter(|line| line.is_suspect).count();
        let others = self.lines() - suspects;
        let half = if suspects > 0 && others > 0 { 2 } else { 1 };
        (all / half / suspects.max(1), all / half / others.max(1))
    }
}

impl Mark {
    /// Whether the mark covers more than half of the picture. Painting all of that would highlight
    /// nothing.
    pub(super) fn is_long(&self, length_ns: u64) -> bool {
        self.end_ns.saturating_sub(self.at_ns) > length_ns / 2
    }
}

impl Panel {
    /// Returns the highest value to show: the maximum of the values and the limit, but at least 1
    /// for percentages and 1024 for bytes.
    pub(super) fn top(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let most = points.map(|point| point.value).chain(self.limit).fold(0.0, f64::max);
        match self.unit {
            Unit::Percent => most.max(1.0),
            Unit::Bytes | Unit::BytesPerSecond => most.max(1024.0),
            _ => most,
        }
    }

    /// Whether there are so many curves that only the suspects are coloured.
    pub(super) fn is_grey(&self) -> bool {
        let suspects = self.lines.iter().filter(|line| line.is_suspect).count();
        self.lines.len() > COLOURS && (1..self.lines.len()).contains(&suspects)
    }

    /// Returns for each curve how many almost equal curves it hides. The first curve is drawn on
    /// top. A curve that hides others is drawn dashed, so that all are visible.
    pub(super) fn hidden(&self) -> Vec<usize> {
        if self.lines.len() > COLOURS / 2 {
            return vec![0; self.lines.len()];
        }
        let near = (self.top() - self.bottom()) * 0.004;
        let is_same = |one: &Line, other: &Line| {
            let both = one.points.iter().zip(&other.points);
            let same = both.filter(|(one, other)| {
                one.at_ns == other.at_ns && (one.value - other.value).abs() <= near
            });
            one.points.len() == other.points.len() && same.count() * 2 > one.points.len()
        };
        let beneath = |at: usize| {
            self.lines[at + 1..].iter().filter(|other| is_same(&self.lines[at], other)).count()
        };
        (0..self.lines.len()).map(beneath).collect()
    }

    /// Returns the lowest value to show: the minimum of the values and 0.
    pub(super) fn bottom(&self) -> f64 {
        self.lines.iter().flat_map(|line| &line.points).map(|point| point.value).fold(0.0, f64::min)
    }
}
