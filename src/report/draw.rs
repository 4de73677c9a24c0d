//! A picture as SVG: the one form from which PNG and the static part of HTML are made.

use std::fmt::Write;

use super::axis;
use super::buckets::thinned;
use super::picture::{Level, Panel, Picture, State};
use super::svg::Markup;
use crate::query::text::printable;

/// The size in which all is laid out.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 170.0;
const ROW: f64 = 16.0;
const DENSITY: f64 = 36.0;
/// How wide a character is of its size, on average.
const CHARACTER: f64 = 0.56;

/// How many stretches a curve has at most: one for each pixel or two; fewer where there are many curves.
const STRETCHES: usize = 500;
const ALL_STRETCHES: usize = 12_000;
/// How many marks are told in words, beside the picture.
const MARKS_TOLD: usize = 12;
/// How many bars are drawn, so that a file stays one that programs open.
const BARS: usize = 3_000;

/// Colours of curves, told apart by those who do not see all colours, too. A page has others in the dark.
pub(super) const CURVES: [&str; 8] =
    ["#0b63c4", "#c2410c", "#15803d", "#7e22ce", "#b4236b", "#0f766e", "#8a5a00", "#475569"];
const TEXT: &str = "#1b2330";
const QUIET: &str = "#566072";
const GRID: &str = "#e3e7ee";
const PAPER: &str = "#ffffff";

/// What a mark is painted with.
fn paint(level: Level) -> &'static str {
    match level {
        Level::Info => "#566072",
        Level::Warning => "#a34a00",
        Level::Critical => "#c2141c",
    }
}

fn bar_paint(state: State) -> (&'static str, &'static str) {
    match state {
        State::Finished => ("bar finished", "#4a86c8"),
        State::Failed => ("bar failed", "#c2141c"),
        State::Running => ("bar running", "#8a5a00"),
    }
}

impl Picture {
    /// The picture as one SVG file, 1200 units wide, on white.
    pub fn to_svg(&self) -> String {
        Drawing::new(self).draw()
    }
}

struct Drawing<'a> {
    picture: &'a Picture,
    to: Markup,
    /// Where the next thing goes.
    y: f64,
}

impl<'a> Drawing<'a> {
    fn new(picture: &'a Picture) -> Self {
        Self { picture, to: Markup::default(), y: 0.0 }
    }

    fn draw(mut self) -> String {
        let height = self.height();
        self.to.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {WIDTH} {height}")),
                ("width", &WIDTH),
                ("height", &height),
                ("font-family", &"DejaVu Sans, sans-serif"),
                ("role", &"img"),
                ("class", &"picture"),
            ],
        );
        self.to.element("title", &[], &self.picture.title);
        self.to.empty(
            "rect",
            &[("class", &"paper"), ("width", &"100%"), ("height", &"100%"), ("fill", &PAPER)],
        );
        self.text(24.0, 34.0, 20.0, TEXT, "start", &self.picture.title.clone());
        self.text(24.0, 56.0, 13.0, QUIET, "start", &self.picture.subtitle.clone());
        self.y = 84.0;
        let top = self.y;
        let head = std::mem::take(&mut self.to);
        for panel in &self.picture.panels {
            self.panel(panel);
        }
        self.bars();
        // How far down the grid goes is known only now, and it lies below all else.
        let body = std::mem::replace(&mut self.to, head).finish();
        self.time_axis(top);
        self.to.raw(&body);
        self.marks(top);
        self.words();
        self.to.close("svg");
        self.to.finish()
    }

    fn height(&self) -> f64 {
        let picture = self.picture;
        let panels = picture.panels.len() as f64 * (PANEL + 44.0);
        let bars = match picture.rows() {
            0 => 0.0,
            rows => f64::from(rows) * ROW + 34.0,
        };
        let density = if picture.density.is_empty() { 0.0 } else { DENSITY + 26.0 };
        let words = (picture.marks.len().min(MARKS_TOLD + 1) + picture.notes.len()) as f64 * 20.0;
        84.0 + panels + bars + density + 52.0 + words
    }

    /// Where a time is.
    fn x(&self, at_ns: u64) -> f64 {
        let share = at_ns as f64 / self.picture.length_ns.max(1) as f64;
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn text(&mut self, x: f64, y: f64, size: f64, fill: &str, anchor: &str, text: &str) {
        let room = match anchor {
            "end" => x,
            "middle" => WIDTH,
            _ => WIDTH - x,
        };
        let most = (room / (size * CHARACTER)) as usize;
        let class = if fill == TEXT { "text" } else { "quiet" };
        self.to.element(
            "text",
            &[
                ("class", &class),
                ("x", &format!("{x:.1}")),
                ("y", &format!("{y:.1}")),
                ("font-size", &size),
                ("fill", &fill),
                ("text-anchor", &anchor),
            ],
            printable(text).at_most(most),
        );
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64), class: &str, stroke: &str) {
        self.to.empty(
            "line",
            &[
                ("class", &class),
                ("x1", &format!("{:.1}", from.0)),
                ("y1", &format!("{:.1}", from.1)),
                ("x2", &format!("{:.1}", to.0)),
                ("y2", &format!("{:.1}", to.1)),
                ("stroke", &stroke),
            ],
        );
    }

    fn panel(&mut self, panel: &Panel) {
        self.text(LEFT, self.y + 12.0, 13.0, TEXT, "start", &panel.title);
        self.legend(panel);
        let bottom = self.y + 24.0 + PANEL;
        let ticks = axis::ticks(panel.bottom(), panel.top(), panel.unit, 4);
        let (Some(&least), Some(&most)) = (ticks.first(), ticks.last()) else { return };
        let y = |value: f64| bottom - (value - least) / (most - least) * PANEL;
        for &tick in &ticks {
            self.rule((LEFT, y(tick)), (WIDTH - RIGHT, y(tick)), "grid", GRID);
            let label = axis::label(tick, panel.unit);
            self.text(LEFT - 8.0, y(tick) + 4.0, 11.0, QUIET, "end", &label);
        }
        if let Some(limit) = panel.limit {
            self.to.empty(
                "line",
                &[
                    ("class", &"limit"),
                    ("x1", &LEFT),
                    ("x2", &(WIDTH - RIGHT)),
                    ("y1", &format!("{:.1}", y(limit))),
                    ("y2", &format!("{:.1}", y(limit))),
                    ("stroke", &paint(Level::Critical)),
                    ("stroke-dasharray", &"6 4"),
                ],
            );
        }
        let lines = self.picture.lines().max(1);
        let stretches = (ALL_STRETCHES / lines).clamp(20, STRETCHES);
        let has_suspects = panel.lines.iter().any(|line| line.is_suspect);
        for (at, line) in panel.lines.iter().enumerate() {
            let mut path = String::new();
            for point in thinned(&line.points, self.picture.length_ns, stretches) {
                let command = if path.is_empty() { 'M' } else { 'L' };
                // Writing to a string cannot fail.
                _ = write!(path, "{command}{:.1} {:.1}", self.x(point.at_ns), y(point.value));
            }
            if line.points.len() == 1 {
                // A path of one point is not drawn.
                path.push_str("h2");
            }
            let faded = has_suspects && !line.is_suspect;
            self.to.empty(
                "path",
                &[
                    ("class", &format!("curve c{}", at % CURVES.len())),
                    ("d", &path),
                    ("fill", &"none"),
                    ("stroke", &CURVES[at % CURVES.len()]),
                    ("stroke-width", if line.is_suspect { &2.5 } else { &1.5 }),
                    ("stroke-opacity", if faded { &0.45 } else { &1 }),
                    ("stroke-linejoin", &"round"),
                ],
            );
        }
        self.y = bottom + 20.0;
    }

    /// The names of the curves, from the right.
    fn legend(&mut self, panel: &Panel) {
        const MOST: usize = 8;
        let y = self.y + 12.0;
        let mut x = WIDTH - RIGHT;
        let room = LEFT + panel.title.chars().count() as f64 * 13.0 * CHARACTER + 24.0;
        if panel.lines.len() > MOST {
            let text = format!("and {} more", panel.lines.len() - MOST);
            self.text(x, y, 11.0, QUIET, "end", &text);
            x -= text.chars().count() as f64 * 11.0 * CHARACTER + 18.0;
        }
        for (at, line) in panel.lines.iter().enumerate().take(MOST).rev() {
            let name = printable(&line.name).at_most(36).to_string();
            let width = name.chars().count() as f64 * 11.0 * CHARACTER + 4.0;
            if x - width - 20.0 < room {
                break;
            }
            self.text(x - width, y, 11.0, TEXT, "start", &name);
            self.to.empty(
                "rect",
                &[
                    ("class", &format!("swatch c{}", at % CURVES.len())),
                    ("x", &format!("{:.1}", x - width - 18.0)),
                    ("y", &(y - 7.0)),
                    ("width", &13),
                    ("height", &4),
                    ("fill", &CURVES[at % CURVES.len()]),
                ],
            );
            x -= width + 34.0;
        }
    }

    fn bars(&mut self) {
        let picture = self.picture;
        if !picture.density.is_empty() {
            self.density();
        }
        if picture.bars.is_empty() {
            return;
        }
        self.text(LEFT, self.y + 12.0, 13.0, TEXT, "start", "Tasks");
        let top = self.y + 22.0;
        for bar in picture.bars.iter().take(BARS) {
            let (x, y) = (self.x(bar.start_ns), top + f64::from(bar.row) * ROW);
            let width = (self.x(bar.start_ns.saturating_add(bar.length_ns)) - x).max(1.0);
            let (class, fill) = bar_paint(bar.state);
            self.to.empty(
                "rect",
                &[
                    ("class", &class),
                    ("x", &format!("{x:.1}")),
                    ("y", &format!("{y:.1}")),
                    ("width", &format!("{width:.1}")),
                    ("height", &(ROW - 2.0)),
                    ("rx", &2),
                    ("fill", &fill),
                ],
            );
            let most = ((width - 8.0) / (10.0 * CHARACTER)) as usize;
            if most >= 4 {
                let name = printable(&bar.name).at_most(most).to_string();
                self.to.element(
                    "text",
                    &[
                        ("class", &"on-bar"),
                        ("x", &format!("{:.1}", x + 4.0)),
                        ("y", &format!("{:.1}", y + 10.5)),
                        ("font-size", &10),
                        ("fill", &if bar.state == State::Finished { "#0a1220" } else { "#ffffff" }),
                    ],
                    name,
                );
            }
        }
        self.y = top + f64::from(picture.rows()) * ROW + 12.0;
    }

    /// How many ran at a time, where there are too many for bars of their own.
    fn density(&mut self) {
        let counts = &self.picture.density;
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let title = format!("Tasks too short for a bar of their own: up to {most} at a time");
        self.text(LEFT, self.y + 12.0, 13.0, TEXT, "start", &title);
        let bottom = self.y + 18.0 + DENSITY;
        let width = (WIDTH - LEFT - RIGHT) / counts.len() as f64;
        let mut path = format!("M{LEFT:.1} {bottom:.1}");
        for (at, &count) in counts.iter().enumerate() {
            let y = bottom - f64::from(count) / f64::from(most) * DENSITY;
            let x = LEFT + at as f64 * width;
            _ = write!(path, "L{x:.1} {y:.1}H{:.1}", x + width);
        }
        _ = write!(path, "V{bottom:.1}Z");
        self.to.empty("path", &[("class", &"density"), ("d", &path), ("fill", &"#9db8d9")]);
        self.y = bottom + 8.0;
    }

    fn time_axis(&mut self, top: f64) {
        for tick in axis::time_ticks(self.picture.length_ns, 8) {
            let x = self.x(tick);
            self.rule((x, top + 24.0), (x, self.y), "grid", GRID);
            let anchor = if x > WIDTH - 80.0 { "end" } else { "middle" };
            self.text(x, self.y + 16.0, 11.0, QUIET, anchor, &axis::elapsed(tick));
        }
    }

    fn marks(&mut self, top: f64) {
        let bottom = self.y;
        for (at, mark) in self.picture.marks.iter().enumerate() {
            let (from, to) = (self.x(mark.at_ns), self.x(mark.end_ns.max(mark.at_ns)));
            let (fill, class) = (paint(mark.level), format!("mark {}", mark.level.as_str()));
            if to - from > 2.0 {
                self.to.empty(
                    "rect",
                    &[
                        ("class", &class),
                        ("x", &format!("{from:.1}")),
                        ("y", &(top + 24.0)),
                        ("width", &format!("{:.1}", to - from)),
                        ("height", &(bottom - top - 24.0)),
                        ("fill", &fill),
                        ("fill-opacity", &0.07),
                    ],
                );
            }
            self.rule((from, top + 24.0), (from, bottom), &class, fill);
            if at < MARKS_TOLD {
                self.flag(from, top + 24.0 + (at % 6) as f64 * 15.0, at + 1, mark.level);
            }
        }
        self.y += 40.0;
    }

    /// The number under which a mark is told in words.
    fn flag(&mut self, x: f64, y: f64, number: usize, level: Level) {
        let x = x.min(WIDTH - RIGHT - 16.0);
        self.to.empty(
            "rect",
            &[
                ("class", &format!("flag {}", level.as_str())),
                ("x", &format!("{x:.1}")),
                ("y", &y),
                ("width", &16),
                ("height", &14),
                ("rx", &2),
                ("fill", &paint(level)),
            ],
        );
        self.to.element(
            "text",
            &[
                ("class", &"on-flag"),
                ("x", &format!("{:.1}", x + 8.0)),
                ("y", &(y + 10.5)),
                ("font-size", &10),
                ("fill", &"#ffffff"),
                ("text-anchor", &"middle"),
            ],
            number,
        );
    }

    fn words(&mut self) {
        let picture = self.picture;
        for (at, mark) in picture.marks.iter().enumerate().take(MARKS_TOLD) {
            self.flag(24.0, self.y - 11.0, at + 1, mark.level);
            let text = format!("{}: {}", mark.level.as_str(), mark.text);
            self.text(48.0, self.y, 12.0, TEXT, "start", &text);
            self.y += 20.0;
        }
        if let Some(more @ 1..) = picture.marks.len().checked_sub(MARKS_TOLD) {
            self.text(48.0, self.y, 12.0, QUIET, "start", &format!("and {more} more"));
            self.y += 20.0;
        }
        for note in &picture.notes {
            self.text(24.0, self.y, 12.0, QUIET, "start", note);
            self.y += 20.0;
        }
    }
}
