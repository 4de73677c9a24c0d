//! Renders a report as Markdown, short enough for a comment on a change.

use std::fmt::Write;

use super::RunReport;
use runlore_core::text::{human_bytes, printable};
use runlore_query::analyze::text::duration;

/// Maximum number of entries of each list.
const ACTIVITIES: usize = 15;
const FAILURES: usize = 10;
const FINDINGS: usize = 6;

impl RunReport {
    /// Renders the report as Markdown that fits into a comment: the main numbers, the failures and
    /// the findings.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, to: &mut String) -> std::fmt::Result {
        let run = &self.run;
        let status = cell(run.shown_or_unknown());
        let took = run.duration_ns.map_or_else(String::new, |ns| format!(" in {}", duration(ns)));
        writeln!(to, "### {}: {status}{took}\n", cell(&run.name))?;
        let tasks = &self.tasks;
        write!(to, "{} tasks, **{} failed**", tasks.tasks, tasks.errors)?;
        if tasks.running > 0 {
            write!(to, ", {} not ended", tasks.running)?;
        }
        if let (lost, true) = self.cost.lost_in_words() {
            write!(to, ", {lost} not recorded")?;
        }
        if let Some(spooled @ 1..) = self.cost.spooled {
            write!(to, ", {spooled} waiting for their store")?;
        }
        writeln!(to, ". Run `{}`.\n", cell(&run.workflow_id).replace('`', "'"))?;
        if let Some(error) = &run.error {
            writeln!(to, "> {}\n", cell(error))?;
        }
        if !self.findings.is_empty() {
            writeln!(to, "**Worth looking at**\n")?;
            for finding in self.findings.iter().take(FINDINGS) {
                writeln!(to, "* {}", cell(&finding.to_string()))?;
            }
            more(to, self.findings.len(), FINDINGS)?;
        }
        if !self.failures.is_empty() {
            writeln!(to, "**Failures**\n\n| activity | times | error |\n|---|--:|---|")?;
            for failed in self.failures.iter().take(FAILURES) {
                let (activity, message) = (cell(&failed.activity), cell(&failed.message));
                writeln!(to, "| {activity} | {} | {message} |", failed.tasks)?;
            }
            more(to, self.failures.len(), FAILURES)?;
        }
        writeln!(
            to,
            "**Activities**\n\n| activity | tasks | failed | total | p50 | p95 | max | CPU | memory |"
        )?;
        writeln!(to, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
        for activity in self.activities.iter().take(ACTIVITIES) {
            writeln!(
                to,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                cell(&activity.name),
                activity.tasks,
                activity.errors,
                duration(activity.total_ns),
                duration(activity.p50_ns),
                duration(activity.p95_ns),
                duration(activity.max_ns),
                activity.cpu_ns.map(duration).unwrap_or_default(),
                activity.peak_rss_bytes.map(human_bytes).unwrap_or_default(),
            )?;
        }
        more(to, self.activities.len(), ACTIVITIES)?;
        if let (Some(ns), Some(percent)) = (self.cost.capture_ns, self.cost.capture_percent) {
            writeln!(to, "Reading telemetry took {} ({percent:.2} % of the run).", duration(ns))?;
        }
        Ok(())
    }
}

fn more(to: &mut String, all: usize, told: usize) -> std::fmt::Result {
    match all.checked_sub(told) {
        Some(more @ 1..) => writeln!(to, "\nand {more} more\n"),
        _ => writeln!(to),
    }
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for character in printable(text).at_most(200).to_string().chars() {
        match character {
            '<' => cell.push_str("&lt;"),
            '|' | '*' | '_' | '[' | ']' | '\\' | '@' | '#' => {
                // `_` stays unescaped, because names such as `load_rows` read better that way.
                if character != '_' {
                    cell.push('\\');
                }
                cell.push(character);
            }
            other => cell.push(other),
        }
    }
    cell
}
