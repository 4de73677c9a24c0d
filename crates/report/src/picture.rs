//! A picture as plain data: what is to be drawn, whatever it is drawn on.

use serde::Serialize;

/// How many colours curves have.
pub(super) const COLOURS: usize = 8;

/// Anything over time: curves in panels, bars beneath them, and marks.
///
/// Times are nanoseconds since [`start_ns`](Self::start_ns).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// What it is of: the file, the run, the host.
    pub subtitle: String,
    /// When it begins, in Unix nanoseconds.
    pub start_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// The curves, from the top down.
    pub panels: Vec<Panel>,
    /// What ran, beneath the curves.
    pub bars: Vec<Bar>,
    /// How many more ran at a time than there are bars, in equal parts of the length; empty where all have bars.
    pub density: Vec<u32>,
    /// What is worth looking at.
    pub marks: Vec<Mark>,
    /// What a reader must know to read it rightly.
    pub notes: Vec<String>,
}

/// Curves that share an axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Panel {
    /// What the curves are of.
    pub title: String,
    /// What they are counted in.
    pub unit: Unit,
    /// The curves.
    pub lines: Vec<Line>,
    /// What cannot be exceeded, such as the memory of a device.
    pub limit: Option<f64>,
}

/// One curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Whether it is what the picture is about: it is drawn stronger than the others.
    pub is_suspect: bool,
    /// Whether each value stands for the time since the point before it, as rates and shares of time do: it is drawn as steps.
    pub is_step: bool,
    /// Its points, in the order of time.
    pub points: Vec<Point>,
}

/// What was seen at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Point {
    pub at_ns: u64,
    pub value: f64,
}

/// Something that took its time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// When it began.
    pub start_ns: u64,
    /// How long it took.
    pub length_ns: u64,
    /// In which row it is drawn, from the top.
    pub row: u32,
    /// How it ended.
    pub state: State,
}

/// How a [`Bar`] ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Well.
    #[default]
    Finished,
    /// By an error.
    Failed,
    /// Not yet.
    Running,
}

/// A moment or a stretch that is worth looking at.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Mark {
    /// When.
    pub at_ns: u64,
    /// Until when; the same where it is a moment.
    pub end_ns: u64,
    /// How much it matters.
    pub level: Level,
    /// What it is.
    pub text: String,
    /// The panel that it is about, counted from the top; none where it is about all of them.
    pub panel: Option<usize>,
}

/// How much a [`Mark`] matters.
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
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What a curve is counted in.
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
    /// How many rows of bars there are.
    pub(super) fn rows(&self) -> u32 {
        self.bars.iter().map(|bar| bar.row + 1).max().unwrap_or(0)
    }

    /// How many curves there are in all.
    pub(super) fn lines(&self) -> usize {
        self.panels.iter().map(|panel| panel.lines.len()).sum()
    }

    /// In how many stretches a suspect and any other curve are told, where all curves together have so many: where there are both,
    /// each side has half of them.
    pub(super) fn stretches(&self, all: usize) -> (usize, usize) {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let suspects = lines.filter(|line| line.is_suspect).count();
        let others = self.lines() - suspects;
        let half = if suspects > 0 && others > 0 { 2 } else { 1 };
        (all / half / suspects.max(1), all / half / others.max(1))
    }
}

impl Mark {
    /// Whether it is about most of the picture: to paint all of that would say nothing.
    pub(super) fn is_long(&self, length_ns: u64) -> bool {
        self.end_ns.saturating_sub(self.at_ns) > length_ns / 2
    }
}

impl Panel {
    /// The greatest value, of the limit too.
    pub(super) fn top(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let most = points.map(|point| point.value).chain(self.limit).fold(0.0, f64::max);
        match self.unit {
            Unit::Percent => most.max(1.0),
            Unit::Bytes | Unit::BytesPerSecond => most.max(1024.0),
            _ => most,
        }
    }

    /// Whether there are so many curves that only the suspects have colours.
    pub(super) fn is_grey(&self) -> bool {
        let suspects = self.lines.iter().filter(|line| line.is_suspect).count();
        self.lines.len() > COLOURS && (1..self.lines.len()).contains(&suspects)
    }

    /// How many curves lie beneath each one and are mostly the same: the first curve lies on top. One that hides others is
    /// dashed, so that all are seen.
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

    /// The least value, and 0.
    pub(super) fn bottom(&self) -> f64 {
        self.lines.iter().flat_map(|line| &line.points).map(|point| point.value).fold(0.0, f64::min)
    }
}
