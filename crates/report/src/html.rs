//! Renders a picture as one HTML file. Data and code are embedded, it loads nothing from the
//! network, and it shows a static picture if scripts are disabled.

use sha2::{Digest as _, Sha256};

use super::axis;
use super::data;
use super::picture::{Bar, Line, Panel, Picture, State};
use super::svg::{Markup, escape};
use super::timeline;
use runlore_core::record::base64;
use runlore_core::text::thousands;

const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// Maximum size of a picture in a page, in bytes of SVG and data together. A page should stay below
/// a megabyte.
const FIGURE: usize = 600_000;
/// Maximum number of rows of a table beside a picture.
const ROWS: usize = 150;

/// Returns the content security policy: the page loads nothing and runs no script but ours,
/// whatever its contents are.
fn policy() -> String {
    let hash = base64(&Sha256::digest(script()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

/// Returns the exact bytes between the script tags, because the browser hashes these.
fn script() -> String {
    format!("\n{SCRIPT}")
}

/// Returns a complete page with the given body.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"runlore {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <script>{}</script>\n</body>\n</html>\n",
        policy(),
        env!("CARGO_PKG_VERSION"),
        script(),
    )
}

/// Writes a few named facts at the top of a page.
pub(super) fn facts(to: &mut Markup, facts: &[(&str, String)]) {
    tiles(to, facts.iter().map(|(name, value)| (*name, value.as_str(), false)));
}

/// Writes facts like [`facts`], with those in red whose flag is set.
pub(super) fn tiles<'a>(to: &mut Markup, facts: impl Iterator<Item = (&'a str, &'a str, bool)>) {
    to.open("dl", &[("class", &"facts")]);
    for (name, value, is_bad) in facts {
        to.open("div", if is_bad { &[("class", &"bad")] } else { &[] });
        to.element("dt", &[], name);
        to.element("dd", &[], value);
        to.close("div");
    }
    to.close("dl");
}

/// Writes a table that scrolls if it is too wide. A heading that begins with `>` marks a column of
/// numbers. The first cell of a row is its heading. Empty columns are left out.
pub(super) fn table(to: &mut Markup, headings: &[&str], rows: &[Vec<String>]) {
    let is_empty = |at: usize| rows.iter().all(|row| row.get(at).is_none_or(String::is_empty));
    let columns: Vec<usize> = (0..headings.len()).filter(|&at| at == 0 || !is_empty(at)).collect();
    to.raw("<div class=\"scroll\"><table><thead><tr>");
    for heading in columns.iter().map(|&at| headings[at]) {
        match heading.strip_prefix('>') {
            Some(heading) => {
                to.element("th", &[("scope", &"col"), ("class", &"number")], heading);
            }
            None => to.element("th", &[("scope", &"col")], heading),
        }
    }
    to.raw("</tr></thead><tbody>");
    for row in rows {
        to.open("tr", &[]);
        for &at in &columns {
            let cell = row.get(at).map_or("", String::as_str);
            match (at, headings[at].starts_with('>')) {
                (0, _) => to.element("th", &[("scope", &"row")], cell),
                (_, true) => to.element("td", &[("class", &"number")], cell),
                (_, false) => to.element("td", &[], cell),
            }
        }
        to.close("tr");
    }
    to.raw("</tbody></table></div>");
}

/// Writes a picture into a page.
pub(super) fn figure(to: &mut Markup, picture: &Picture) {
    let svg = picture.to_svg();
    to.open("figure", &[("class", &"chart"), ("aria-label", &picture.title)]);
    to.open("div", &[("class", &"static")]);
    to.raw(&svg);
    to.close("div");
    to.open("script", &[("type", &"application/json")]);
    to.raw(&data::of(picture, FIGURE.saturating_sub(svg.len())));
    to.close("script");
    to.close("figure");
}

/// Writes a summary of the curves as a table, for readers who cannot see them.
pub(super) fn numbers(to: &mut Markup, picture: &Picture) {
    if picture.lines() == 0 {
        return;
    }
    to.open("details", &[]);
    to.element("summary", &[], "The curves as numbers");
    let of = |panel: &Panel, line: &Line| {
        let values = || line.points.iter().map(|point| point.value);
        let count = line.points.len();
        let label = |value: f64| axis::label(value, panel.unit);
        vec![
            panel.title.clone(),
            line.name.clone(),
            thousands(count as u64),
            label(values().fold(f64::INFINITY, f64::min)),
            label(values().sum::<f64>() / count.max(1) as f64),
            label(values().fold(f64::NEG_INFINITY, f64::max)),
            label(line.points.last().map_or(0.0, |point| point.value)),
        ]
    };
    let panels = picture.panels.iter();
    let lines = panels.flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)));
    // Suspects first, because only some of many curves are listed.
    let (suspects, others): (Vec<_>, Vec<_>) = lines.partition(|(_, line)| line.is_suspect);
    let lines = suspects.into_iter().chain(others).take(ROWS);
    let rows: Vec<Vec<String>> = lines.map(|(panel, line)| of(panel, line)).collect();
    let headings = ["", "curve", ">samples", ">least", ">mean", ">greatest", ">last"];
    table(to, &headings, &rows);
    more(to, picture.lines());
    to.close("details");
}

/// Writes the bars as a table, for readers who cannot see them. Failed tasks come first, then the
/// longest.
fn tasks(to: &mut Markup, picture: &Picture) {
    if picture.bars.is_empty() {
        return;
    }
    to.open("details", &[("class", &"tasks")]);
    to.element("summary", &[], "The tasks as a table");
    let mut bars: Vec<&Bar> = picture.bars.iter().collect();
    bars.sort_by_key(|bar| (bar.state != State::Failed, std::cmp::Reverse(bar.length_ns)));
    let row = |bar: &&Bar| {
        let state = match bar.state {
            State::Finished => "finished",
            State::Failed => "failed",
            State::Running => "running",
        };
        vec![
            bar.name.clone(),
            state.to_owned(),
            axis::elapsed(bar.start_ns),
            axis::elapsed(bar.length_ns),
        ]
    };
    let rows: Vec<Vec<String>> = bars.iter().take(ROWS).map(row).collect();
    table(to, &["task", "state", ">began at", ">took"], &rows);
    more(to, bars.len());
    to.close("details");
}

/// Writes how many rows of a table were left out.
fn more(to: &mut Markup, all: usize) {
    if let Some(more @ 1..) = all.checked_sub(ROWS) {
        let told = format!("and {} more", thousands(more as u64));
        to.quiet(told);
    }
}

impl Picture {
    /// Renders the picture as one interactive HTML file, with zoom, pan, hover and keyboard
    /// control. It loads nothing from the network.
    pub fn to_html(&self) -> String {
        let mut to = Markup::default();
        to.open("main", &[]);
        to.element("h1", &[], &self.title);
        to.quiet(&self.subtitle);
        figure(&mut to, self);
        if !self.marks.is_empty() {
            to.element("h2", &[], "Worth looking at");
            to.open("ol", &[("class", &"marks")]);
            for (at, mark) in self.marks.iter().enumerate() {
                timeline::write_mark(&mut to, at + 1, mark);
            }
            to.close("ol");
        }
        for note in &self.notes {
            to.quiet(note);
        }
        numbers(&mut to, self);
        tasks(&mut to, self);
        to.close("main");
        page(&self.title, &to.finish())
    }
}
