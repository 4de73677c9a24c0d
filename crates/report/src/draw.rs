//! Renders a picture as SVG. PNG and the static part of HTML are made from it.

use std::fmt::Write;

use super::axis;
use super::buckets::thinned;
use super::picture::{COLOURS, Level, Line, Mark, Panel, Picture, State};
use super::svg::Markup;
use runlore_core::text::printable;

/// The layout, in SVG units.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 170.0;
const ROW: f64 = 16.0;
const DENSITY: f64 = 36.0;
/// The average width of a character, relative to the font size.
const CHARACTER: f64 = 0.56;

/// Number of intervals of a curve: at most `STRETCHES`, about one per two pixels. All curves
/// together have about `ALL_STRETCHES`, but each at least `FEWEST_STRETCHES`.
const STRETCHES: usize = 500;
const ALL_STRETCHES: usize = 5_000;
const FEWEST_STRETCHES: usize = 12;
/// The width and height of a mark's number.
const FLAG: (f64, f64) = (16.0, 14.0);
/// Maximum number of marks described in words below the picture.
const MARKS_TOLD: usize = 12;
/// Maximum number of bars drawn, so that the file stays small enough for viewers.
const BARS: usize = 3_000;

/// Curve colours that are distinguishable with colour blindness. A page has other colours in dark
/// mode.
pub(super) const CURVES: [&str; COLOURS] =
    ["#0b63c4", "#c2410c", "#15803d", "#7e22ce", "#b4236b", "#0f766e", "#8a5a00", "#475569"];
const TEXT: &str = "#1b2330";
const QUIET: &str = "#566072";
const GRID: &str = "#e3e7ee";
const PAPER: &str = "#ffffff";

/// Returns the colour of a mark.
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
    /// Renders the picture as one SVG file, 1200 units wide, on white.
    pub fn to_svg(&self) -> String {
        Drawing::new(self).draw()
    }
}

struct Drawing<'a> {
    picture: &'a Picture,
    to: Markup,
    /// The position of the next part.
    y: f64,
    /// The areas of curves and bars, from the top down. Panels come first.
    areas: Vec<Area>,
}

/// A vertical range of the drawing.
#[derive(Clone, Copy)]
struct Area {
    top: f64,
    bottom: f64,
}

impl<'a> Drawing<'a> {
    fn new(picture: &'a Picture) -> Self {
        Self { picture, to: Markup::default(), y: 0.0, areas: Vec::new() }
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
        let head = std::mem::take(&mut self.to);
        for panel in &self.picture.panels {
            self.panel(panel);
        }
        self.bars();
        // The grid and the washes lie below everything else, but their positions are known only
        // now.
        let body = std::mem::replace(&mut self.to, head).finish();
        self.time_axis();
        self.washes();
        self.to.raw(&body);
        self.marks();
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

    /// Returns the horizontal position of a time.
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
        let (suspect, other) = self.picture.stretches(ALL_STRETCHES);
        let (is_grey, hidden) = (panel.is_grey(), panel.hidden());
        let has_suspects = panel.lines.iter().any(|line| line.is_suspect);
        // Draw the first curve last, so that it is on top.
        for (at, line) in panel.lines.iter().enumerate().rev() {
            let stretches = if line.is_suspect { suspect } else { other };
            let path = self.path(line, stretches.clamp(FEWEST_STRETCHES, STRETCHES), &y);
            let faded = has_suspects && !line.is_suspect;
            let (class, stroke) = match faded && is_grey {
                true => ("curve other".to_owned(), QUIET),
                false => (format!("curve c{}", at % COLOURS), CURVES[at % COLOURS]),
            };
            let dash = dash(hidden[at]);
            let mut attributes: Vec<(&str, &dyn std::fmt::Display)> = vec![
                ("class", &class),
                ("d", &path),
                ("fill", &"none"),
                ("stroke", &stroke),
                ("stroke-width", if line.is_suspect { &2.5 } else { &1.5 }),
                ("stroke-opacity", if faded { &0.45 } else { &1 }),
                ("stroke-linejoin", &"round"),
            ];
            if let Some(dash) = &dash {
                attributes.push(("stroke-dasharray", dash));
            }
            self.to.empty("path", &attributes);
        }
        self.areas.push(Area { top: bottom - PANEL, bottom });
        self.y = bottom + 20.0;
    }

    fn path(&self, line: &Line, stretches: usize, y: &dyn Fn(f64) -> f64) -> String {
        let mut path = String::new();
        for point in thinned(&line.points, self.picture.length_ns, stretches) {
            let (x, y) = (self.x(point.at_ns), y(point.value));
            // Writing to a string cannot fail.
            _ = match (path.is_empty(), line.is_step) {
                (true, _) => write!(path, "M{x:.1} {y:.1}"),
                (_, true) => write!(path, "V{y:.1}H{x:.1}"),
                _ => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        if line.points.len() == 1 {
            // A path with a single point would be invisible.
            path.push_str("h2");
        }
        path
    }

    /// Draws the names of the curves to the right of the title, as many as fit.
    fn legend(&mut self, panel: &Panel) {
        const MOST: usize = 8;
        let y = self.y + 12.0;
        let width = |text: &str| text.chars().count() as f64 * 11.0 * CHARACTER;
        let room = LEFT + panel.title.chars().count() as f64 * 13.0 * CHARACTER + 24.0;
        let is_named = |line: &&Line| !panel.is_grey() || line.is_suspect;
        let names = panel.lines.iter().filter(is_named).take(MOST);
        let mut names: Vec<String> =
            names.map(|line| printable(&line.name).at_most(36).to_string()).collect();
        let grey = panel.lines.iter().filter(|line| !is_named(line)).count();
        let more = |named: usize| match (panel.lines.len() - grey - named, grey) {
            (0, 0) => String::new(),
            (0, grey) => format!("{grey} others in grey"),
            (more, 0) => format!("and {more} more"),
            (more, grey) => format!("and {more} more; {grey} others in grey"),
        };
        let all = |names: &[String]| {
            let more = more(names.len());
            let swatches: f64 = names.iter().map(|name| width(name) + 38.0).sum();
            swatches + if more.is_empty() { 0.0 } else { width(&more) + 4.0 }
        };
        while !names.is_empty() && WIDTH - RIGHT - all(&names) < room {
            names.pop();
        }
        let mut x = WIDTH - RIGHT - all(&names) + 16.0;
        for (at, name) in names.iter().enumerate() {
            self.to.empty(
                "rect",
                &[
                    ("class", &format!("swatch c{}", at % COLOURS)),
                    ("x", &format!("{x:.1}")),
                    ("y", &(y - 7.0)),
                    ("width", &13),
                    ("height", &4),
                    ("fill", &CURVES[at % COLOURS]),
                ],
            );
            self.text(x + 18.0, y, 11.0, TEXT, "start", name);
            x += width(name) + 38.0;
        }
        let more = more(names.len());
        if !more.is_empty() {
            self.text(WIDTH - RIGHT, y, 11.0, QUIET, "end", &more);
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
        let bottom = top + f64::from(picture.rows()) * ROW;
        self.areas.push(Area { top: top - 2.0, bottom });
        self.y = bottom + 12.0;
    }

    /// Draws the number of tasks without a bar that ran at the same time.
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
        self.areas.push(Area { top: bottom - DENSITY, bottom });
        self.y = bottom + 8.0;
    }

    fn time_axis(&mut self) {
        for tick in axis::time_ticks(self.picture.length_ns, 8) {
            let x = self.x(tick);
            for area in self.areas.clone() {
                self.rule((x, area.top), (x, area.bottom), "grid", GRID);
            }
            let anchor = if x > WIDTH - 80.0 { "end" } else { "middle" };
            self.text(x, self.y + 16.0, 11.0, QUIET, anchor, &axis::elapsed(tick));
        }
    }

    /// Returns the areas in which a mark is drawn.
    fn areas_of(&self, mark: &Mark) -> Vec<Area> {
        match mark.panel.and_then(|panel| self.areas.get(panel)) {
            Some(&area) => vec![area],
            None => self.areas.clone(),
        }
    }

    fn span(&self, mark: &Mark) -> (f64, f64) {
        (self.x(mark.at_ns), self.x(mark.end_ns.max(mark.at_ns)))
    }

    /// Paints the spans of marks. Overlapping spans are painted once, in the colour of the worst
    /// mark.
    fn washes(&mut self) {
        let length_ns = self.picture.length_ns;
        let short: Vec<(Vec<Area>, (f64, f64), Level)> = self
            .picture
            .marks
            .iter()
            .filter(|mark| !mark.is_long(length_ns))
            .map(|mark| (self.areas_of(mark), self.span(mark), mark.level))
            .filter(|(_, (from, to), _)| to - from > 2.0)
            .collect();
        for area in self.areas.clone() {
            let here = short.iter().filter(|(areas, ..)| areas.iter().any(|it| it.top == area.top));
            let spans: Vec<(f64, f64, Level)> =
                here.map(|(_, (from, to), level)| (*from, *to, *level)).collect();
            for (from, to, level) in stretches_of(&spans) {
                self.to.empty(
                    "rect",
                    &[
                        ("class", &format!("mark {}", level.as_str())),
                        ("x", &format!("{from:.1}")),
                        ("y", &area.top),
                        ("width", &format!("{:.1}", to - from)),
                        ("height", &(area.bottom - area.top)),
                        ("fill", &paint(level)),
                        ("fill-opacity", &0.1),
                    ],
                );
            }
        }
    }

    fn marks(&mut self) {
        // Draw the worst marks last, so that they are on top.
        let marks = self.picture.marks.iter().enumerate();
        let mut order: Vec<(usize, &Mark)> = marks.collect();
        order.reverse();
        order.sort_by_key(|(_, mark)| mark.level);
        for (_, mark) in &order {
            let (from, to) = self.span(mark);
            let (fill, class) = (paint(mark.level), format!("mark {}", mark.level.as_str()));
            for area in self.areas_of(mark) {
                if mark.is_long(self.picture.length_ns) {
                    self.to.empty(
                        "rect",
                        &[
                            ("class", &class),
                            ("x", &format!("{from:.1}")),
                            ("y", &(area.top - 3.0)),
                            ("width", &format!("{:.1}", to - from)),
                            ("height", &3),
                            ("fill", &fill),
                        ],
                    );
                } else {
                    self.rule((from, area.top), (from, area.bottom), &class, fill);
                }
            }
        }
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let mut flags = Vec::new();
        // The worst marks choose their places first.
        for (at, mark) in order.into_iter().rev().filter(|(at, _)| *at < MARKS_TOLD) {
            let areas = self.areas_of(mark);
            let Some(&area) = areas.first() else { continue };
            let x = self.x(mark.at_ns).min(WIDTH - RIGHT - FLAG.0);
            if let Some(place) = free(x, area, &taken) {
                taken.push(place);
                flags.push((place, at + 1, mark.level));
            }
        }
        for ((x, y), number, level) in flags.into_iter().rev() {
            self.flag(x, y, number, level);
        }
        self.y += 40.0;
    }

    /// Draws a mark's number, under which the text below the picture describes it.
    fn flag(&mut self, x: f64, y: f64, number: usize, level: Level) {
        self.to.empty(
            "rect",
            &[
                ("class", &format!("flag {}", level.as_str())),
                ("x", &format!("{x:.1}")),
                ("y", &y),
                ("width", &FLAG.0),
                ("height", &FLAG.1),
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

/// Returns the dash pattern of a curve that hides `hidden` others, so that each is visible for the
/// same length.
fn dash(hidden: usize) -> Option<String> {
    const WHOLE: f64 = 14.0;
    let seen = WHOLE / (hidden + 1) as f64;
    (hidden > 0).then(|| format!("{seen:.1} {:.1}", WHOLE - seen))
}

/// Returns the first free place for a flag in an area: at `x` from the top down, then further
/// right.
fn free(x: f64, area: Area, taken: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (wide, high) = (FLAG.0 + 1.0, FLAG.1 + 1.0);
    let is_free = |&(x, y): &(f64, f64)| {
        taken
            .iter()
            .all(|&(other_x, other_y)| (other_x - x).abs() >= wide || (other_y - y).abs() >= high)
    };
    let rows = (((area.bottom - area.top) / high) as u32).max(1);
    // Try all rows before the next column.
    let mut places = (0..4).flat_map(|column| (0..rows).map(move |row| (column, row))).map(
        |(column, row): (u32, u32)| {
            let left = (x + f64::from(column) * wide).min(WIDTH - RIGHT - FLAG.0);
            (left, area.top + 2.0 + f64::from(row) * high)
        },
    );
    places.find(is_free)
}

/// Splits overlapping spans into separate ones. Each has the worst level of the spans that cover
/// it.
fn stretches_of(spans: &[(f64, f64, Level)]) -> Vec<(f64, f64, Level)> {
    let mut edges: Vec<f64> = spans.iter().flat_map(|&(from, to, _)| [from, to]).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let mut stretches: Vec<(f64, f64, Level)> = Vec::new();
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let over = spans.iter().filter(|span| span.0 <= from && span.1 >= to);
        let Some(level) = over.map(|span| span.2).max() else { continue };
        match stretches.last_mut().filter(|last| last.1 == from && last.2 == level) {
            Some(last) => last.1 = to,
            None => stretches.push((from, to, level)),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_painted_once_as_the_worst_of_it() {
        let spans = [
            (10.0, 40.0, Level::Info),
            (20.0, 30.0, Level::Critical),
            (30.0, 50.0, Level::Info),
            (70.0, 80.0, Level::Warning),
        ];
        let expected = [
            (10.0, 20.0, Level::Info),
            (20.0, 30.0, Level::Critical),
            (30.0, 50.0, Level::Info),
            (70.0, 80.0, Level::Warning),
        ];
        assert_eq!(stretches_of(&spans), expected);
    }

    #[test]
    fn no_flag_lies_on_another() {
        let area = Area { top: 100.0, bottom: 270.0 };
        let mut taken = Vec::new();
        for at in 0..30 {
            let place = free(500.0 + f64::from(at % 3) * 4.0, area, &taken);
            taken.push(place.unwrap_or_else(|| panic!("there is room for flag {at}")));
        }
        for (at, one) in taken.iter().enumerate() {
            let apart = |other: &(f64, f64)| {
                (one.0 - other.0).abs() >= FLAG.0 || (one.1 - other.1).abs() >= FLAG.1
            };
            assert!(taken[at + 1..].iter().all(apart), "{taken:?}");
            assert!(one.1 >= area.top && one.1 + FLAG.1 <= area.bottom, "{one:?}");
        }
    }
}
