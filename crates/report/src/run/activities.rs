//! Writes the table of activities into a page.

use super::facts::Activity;
use crate::svg::Markup;
use runlore_core::text::{human_bytes, rounded, thousands};
use runlore_query::analyze::text::duration;

/// Maximum number of activities with a row in the table.
const MOST: usize = 300;

/// A heading, and the function that formats the cell below it.
type Column = (&'static str, fn(&Activity) -> Option<String>);

const COLUMNS: [Column; 12] = [
    ("tasks", |it| Some(thousands(it.tasks))),
    ("failed", |it| Some(thousands(it.errors))),
    ("total", |it| Some(duration(it.total_ns))),
    ("mean", |it| Some(duration(it.mean_ns))),
    ("p50", |it| Some(duration(it.p50_ns))),
    ("p95", |it| Some(duration(it.p95_ns))),
    ("max", |it| Some(duration(it.max_ns))),
    ("CPU", |it| it.cpu_ns.map(duration)),
    ("memory", |it| it.peak_rss_bytes.map(human_bytes)),
    ("read", |it| it.read_bytes.map(human_bytes)),
    ("written", |it| it.write_bytes.map(human_bytes)),
    ("energy", |it| it.joules.map(|joules| format!("{} J", rounded(joules)))),
];

/// Writes the table. A column without any value is left out.
pub(super) fn write(to: &mut Markup, activities: &[Activity]) {
    let shown = &activities[..activities.len().min(MOST)];
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|(_, of)| shown.iter().any(|one| of(one).is_some())).collect();
    to.raw("<div class=\"scroll\"><table><thead><tr>");
    to.element("th", &[("scope", &"col")], "activity");
    for (heading, _) in &columns {
        to.element("th", &[("scope", &"col"), ("class", &"number")], heading);
    }
    to.raw("</tr></thead><tbody>");
    for activity in shown {
        let state = if activity.errors > 0 { "failed" } else { "" };
        to.open(
            "tr",
            &[
                ("data-text", &activity.name),
                ("data-state", &state),
                ("data-tasks", &activity.tasks),
                ("data-failed", &activity.errors),
            ],
        );
        to.element("th", &[("scope", &"row")], &activity.name);
        for (_, of) in &columns {
            to.element("td", &[("class", &"number")], of(activity).unwrap_or_default());
        }
        to.close("tr");
    }
    to.raw("</tbody></table></div>");
    if let Some(more @ 1..) = activities.len().checked_sub(MOST) {
        let told = format!("and {more} more activities, of less time");
        to.quiet(told);
    }
    let told = "Total has the time of tasks inside; CPU, read, written and energy are without them. Memory is the most that \
         the process was seen to have.";
    to.quiet(told);
}
