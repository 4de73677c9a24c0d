//! A picture as one file for a browser: data and code inside, nothing from the network, and a static picture where
//! scripts are off.

use super::axis;
use super::data;
use super::picture::{Line, Panel, Picture};
use super::svg::{Markup, escape};

const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// Nothing is fetched, whatever a page is made of.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     img-src data:; base-uri 'none'; form-action 'none'";

/// A whole page around what is in its body.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"runlore {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// A picture within a page.
pub(super) fn figure(to: &mut Markup, picture: &Picture) {
    to.open("figure", &[("class", &"chart"), ("aria-label", &picture.title)]);
    to.open("div", &[("class", &"static")]);
    to.raw(&picture.to_svg());
    to.close("div");
    to.open("script", &[("type", &"application/json")]);
    to.raw(&data::of(picture));
    to.close("script");
    to.close("figure");
}

/// What the curves come to, for those who do not see them.
pub(super) fn numbers(to: &mut Markup, picture: &Picture) {
    if picture.lines() == 0 {
        return;
    }
    to.open("details", &[]);
    to.element("summary", &[], "The curves as numbers");
    to.open("div", &[("class", &"scroll")]);
    to.open("table", &[]);
    to.raw("<thead><tr>");
    for heading in ["", "curve"] {
        to.element("th", &[("scope", &"col")], heading);
    }
    for heading in ["samples", "least", "mean", "greatest", "last"] {
        to.element("th", &[("scope", &"col"), ("class", &"number")], heading);
    }
    to.raw("</tr></thead><tbody>");
    for panel in &picture.panels {
        for line in &panel.lines {
            row(to, panel, line);
        }
    }
    to.raw("</tbody></table></div></details>");
}

fn row(to: &mut Markup, panel: &Panel, line: &Line) {
    let values = || line.points.iter().map(|point| point.value);
    let count = line.points.len();
    let label = |value: f64| axis::label(value, panel.unit);
    to.open("tr", &[]);
    to.element("td", &[], &panel.title);
    to.element("th", &[("scope", &"row")], &line.name);
    let told = [
        count.to_string(),
        label(values().fold(f64::INFINITY, f64::min)),
        label(values().sum::<f64>() / count.max(1) as f64),
        label(values().fold(f64::NEG_INFINITY, f64::max)),
        label(line.points.last().map_or(0.0, |point| point.value)),
    ];
    for text in told {
        to.element("td", &[("class", &"number")], text);
    }
    to.close("tr");
}

impl Picture {
    /// The picture as one HTML file, to be looked into: zoom, pan, hover, keys. It needs no network.
    pub fn to_html(&self) -> String {
        let mut to = Markup::default();
        to.open("main", &[]);
        to.element("h1", &[], &self.title);
        to.element("p", &[("class", &"quiet")], &self.subtitle);
        figure(&mut to, self);
        if !self.marks.is_empty() {
            to.element("h2", &[], "Worth looking at");
            to.open("ol", &[("class", &"marks")]);
            for mark in &self.marks {
                let level = mark.level.as_str();
                to.open("li", &[]);
                to.element("span", &[("class", &format!("level {level}"))], level);
                to.escaped(format!(" {} — {}", axis::elapsed(mark.at_ns), mark.text));
                to.close("li");
            }
            to.close("ol");
        }
        for note in &self.notes {
            to.element("p", &[("class", &"quiet")], note);
        }
        numbers(&mut to, self);
        to.close("main");
        page(&self.title, &to.finish())
    }
}
