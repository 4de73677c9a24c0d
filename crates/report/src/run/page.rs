//! Renders a run report as one HTML file.

use serde_json::Value;

use super::RunReport;
use super::activities;
use super::calls::Call;
use super::facts::{Crate, Failed, TaskFacts, Unavailable};
use super::lineage::Flow;
use crate::axis;
use crate::findings;
use crate::html::{figure, numbers, page, table, tiles};
use crate::svg::Markup;
use crate::timeline::mark_text;
use runlore_core::record::Shown;
use runlore_core::text::{human_bytes, printable, rounded, thousands};
use runlore_query::analyze::Finding;
use runlore_query::analyze::text::duration;

/// Maximum number of characters shown of a value.
const VALUE: usize = 2_000;
/// Maximum number of characters shown of the machine and of the settings.
const DOCUMENT: usize = 40_000;

impl RunReport {
    /// Renders the report as one HTML file. It loads nothing from the network, and all of its
    /// content is readable without scripts.
    pub fn to_html(&self) -> String {
        let mut to = Markup::default();
        to.open("main", &[]);
        self.head(&mut to);
        // Failures come first, because readers look for them first.
        self.failures(&mut to);
        self.findings(&mut to);
        self.what_ran(&mut to);
        self.activities(&mut to);
        self.tasks(&mut to);
        self.lineage_graph(&mut to);
        self.surroundings(&mut to);
        self.missing(&mut to);
        to.close("main");
        page(&format!("{} · Runlore", self.run.name), &to.finish())
    }

    fn head(&self, to: &mut Markup) {
        let run = &self.run;
        to.element("h1", &[], &run.name);
        let when = run.started_at.map_or_else(String::new, |at| axis::utc((at * 1e9) as u64));
        let who = [run.user.as_deref(), run.hostname.as_deref()];
        let who: Vec<&str> = who.into_iter().flatten().collect();
        to.quiet(format!("{when} · {} · {}", who.join(" on "), run.workflow_id));
        if let Some(description) = &run.description {
            to.element("p", &[], description);
        }
        to.raw(
            "<nav aria-label=\"Sections\"><a href=\"#failures\">Failures</a><a href=\"#findings\">Worth looking at</a><a href=\"#ran\">What ran</a>\
             <a href=\"#activities\">Activities</a><a href=\"#tasks\">Slowest tasks</a><a href=\"#lineage\">Lineage</a>\
             <a href=\"#machine\">Machine</a><a href=\"#missing\">What is missing</a></nav>",
        );
        let tasks = &self.tasks;
        let is_interrupted = run.shown == Shown::interrupted().to_string();
        let not_known = if is_interrupted { "unknown" } else { "not ended" };
        let mut all = vec![
            ("status", run.shown_or_unknown().to_owned(), run.failed),
            ("duration", run.duration_ns.map_or_else(|| not_known.to_owned(), duration), false),
            ("tasks", thousands(tasks.tasks), false),
            ("failed", thousands(tasks.errors), false),
        ];
        if tasks.running > 0 {
            let name = if is_interrupted { "interrupted" } else { "not ended" };
            all.push((name, thousands(tasks.running), is_interrupted));
        }
        let (lost, is_bad) = self.cost.lost_in_words();
        all.push(("not recorded", lost, is_bad));
        if let Some(percent) = self.cost.capture_percent {
            all.push(("cost of telemetry", format!("{} %", rounded(percent)), false));
        }
        tiles(to, all.iter().map(|(name, value, is_bad)| (*name, &**value, *is_bad)));
        if let Some(error) = &run.error {
            to.element("pre", &[("class", &"failed-text")], error);
        }
        if !self.started.is_empty() {
            to.element("p", &[], "It started other runs, whose tasks are here too:");
            to.open("ul", &[]);
            for run in self.started.iter().take(50) {
                let class = if run.failed { "failed-text" } else { "" };
                let told =
                    format!("{} ({}): {}", run.name, run.workflow_id, run.shown_or_unknown());
                to.element("li", &[("class", &class)], told);
            }
            to.close("ul");
        }
    }

    fn findings(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"findings")], "Worth looking at");
        if self.findings.is_empty() {
            return to.element("p", &[], "Nothing stands out.");
        }
        let number = |finding: &Finding| {
            let text = mark_text(finding);
            self.picture.marks.iter().position(|mark| mark.text == text).map(|at| at + 1)
        };
        let numbers: Vec<Option<usize>> = self.findings.iter().map(number).collect();
        findings::write(to, &self.findings, Some(self.picture.start_ns), &numbers);
    }

    fn what_ran(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"ran")], "What ran");
        to.raw(
            "<div class=\"tools\" id=\"tools\" hidden><label for=\"search\">Search</label>\
             <input type=\"search\" id=\"search\" autocomplete=\"off\">\
             <label><input type=\"checkbox\" id=\"only-failed\"> only what failed</label>\
             <span class=\"quiet\" id=\"found\" role=\"status\"></span></div>",
        );
        if self.picture.bars.is_empty() {
            to.element("p", &[], "No task tells when it began.");
        } else {
            if !self.picture.density.is_empty() {
                let bars = thousands(self.picture.bars.len() as u64);
                let all = thousands(self.tasks.tasks);
                let told = format!(
                    "{bars} of {all} tasks have bars: the longest, and the failed. The others are drawn as how many ran at a time."
                );
                to.quiet(told);
            }
            figure(to, &self.picture);
            numbers(to, &self.picture);
        }
        to.element("h3", &[], "Who called whom");
        to.quiet(
            "Calls that came the same way are one line; the time is that of all of them together.",
        );
        to.open("div", &[("class", &"tree")]);
        for call in &self.calls {
            tree(to, call, 0);
        }
        to.close("div");
    }

    fn failures(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"failures")], "Failures");
        if self.failures.is_empty() {
            to.element("p", &[], "No task failed.");
        }
        for (at, Failed { activity, message, tasks, example }) in self.failures.iter().enumerate() {
            let text = format!("{activity} {message}");
            let attributes: [(&str, &dyn std::fmt::Display); 3] =
                [("data-text", &text), ("data-state", &"failed"), ("open", &"")];
            to.open("details", if at == 0 { &attributes } else { &attributes[..2] });
            to.open("summary", &[]);
            to.element("strong", &[], activity);
            to.escaped(match tasks {
                1 => " failed: ".to_owned(),
                more => format!(" failed {} times: ", thousands(*more)),
            });
            to.element("span", &[("class", &"failed-text")], printable(message).at_most(300));
            to.close("summary");
            if *tasks > 1 {
                to.quiet("The first of them:");
            }
            task(to, example);
            to.close("details");
        }
    }

    fn activities(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"activities")], "Activities, and what they used");
        activities::write(to, &self.activities);
    }

    fn tasks(&self, to: &mut Markup) {
        let is_all = self.tasks.tasks as usize <= self.slowest.len();
        let heading = if is_all { "All tasks, the slowest first" } else { "The slowest tasks" };
        to.element("h2", &[("id", &"tasks")], heading);
        for one in &self.slowest {
            let state = if one.status.as_deref() == Some("ERROR") { "failed" } else { "" };
            to.open("details", &[("data-text", &one.activity), ("data-state", &state)]);
            to.open("summary", &[]);
            to.element("strong", &[], &one.activity);
            to.escaped(format!(" {}", duration(one.duration_ns)));
            if state == "failed" {
                to.raw(" <span class=\"level error\">failed</span>");
            }
            to.close("summary");
            task(to, one);
            to.close("details");
        }
    }

    fn lineage_graph(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"lineage")], "Lineage");
        if self.lineage.flows.is_empty() {
            to.element(
                "p",
                &[],
                "No activity used a value that another one made, as far as their hashes tell.",
            );
            return;
        }
        to.quiet("An arrow goes from the activity that made values to the one that used them.");
        to.open("div", &[("class", &"scroll")]);
        to.raw(&self.lineage.to_svg());
        to.close("div");
        to.raw("<details><summary>The same as a table</summary>");
        let row = |flow: &Flow| {
            vec![flow.from.clone(), flow.to.clone(), flow.name.clone(), thousands(flow.values)]
        };
        let rows: Vec<Vec<String>> = self.lineage.flows.iter().map(row).collect();
        table(to, &["made by", "used by", "as", ">values"], &rows);
        to.raw("</details>");
    }

    fn surroundings(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"machine")], "Machine, settings and code");
        let parts =
            [("Machine", &self.machine), ("Settings", &self.settings), ("Code", &self.code)];
        for (name, part) in parts {
            if name == "Code" && !self.crates.is_empty() {
                self.code_of_tasks(to);
                continue;
            }
            if part.is_empty() {
                to.quiet(format!("{name}: the run's record does not tell."));
                continue;
            }
            to.raw("<details>");
            to.open("summary", &[]);
            to.escaped(match name {
                "Machine" => format!("{name}: {}", machine(part).unwrap_or_default()),
                "Code" => format!("{name}: {}", plain(part)),
                _ => name.to_owned(),
            });
            to.close("summary");
            to.element("pre", &[], json(&Value::Object(part.clone()), DOCUMENT));
            to.raw("</details>");
        }
    }

    /// Writes the crates of the tasks, and the commit from the run's record.
    fn code_of_tasks(&self, to: &mut Markup) {
        let name = |one: &Crate| match &one.version {
            Some(version) => format!("{} {version}", one.name),
            None => one.name.clone(),
        };
        let names: Vec<String> = self.crates.iter().take(3).map(name).collect();
        let more = if self.crates.len() > names.len() { " and more" } else { "" };
        let commit = if self.code.is_empty() { String::new() } else { plain(&self.code) + ", " };
        to.raw("<details>");
        to.element("summary", &[], format!("Code: {commit}{}{more}", names.join(", ")));
        let row = |one: &Crate| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            vec![one.name.clone(), text(&one.version), text(&one.commit), thousands(one.tasks)]
        };
        let rows: Vec<Vec<String>> = self.crates.iter().map(row).collect();
        table(to, &["crate", "version", "commit", ">tasks"], &rows);
        if !self.code.is_empty() {
            to.element("pre", &[], json(&Value::Object(self.code.clone()), DOCUMENT));
        }
        to.raw("</details>");
    }

    fn missing(&self, to: &mut Markup) {
        to.element("h2", &[("id", &"missing")], "What is missing, and what recording cost");
        let cost = &self.cost;
        let told = |value: Option<u64>, text: &dyn Fn(u64) -> String| {
            value.map_or_else(|| "unknown".to_owned(), text)
        };
        to.raw("<ul>");
        let lines = [
            format!("tasks of which no record was kept: {}", told(cost.dropped, &thousands)),
            format!("records that a store would not have: {}", told(cost.refused, &thousands)),
            format!(
                "records that wait on disk for their store: {}",
                told(cost.spooled, &thousands)
            ),
            format!("bytes of records: {}", told(cost.bytes_written, &human_bytes)),
            format!(
                "time that reading telemetry took, on all threads together: {}{}",
                told(cost.capture_ns, &duration),
                cost.capture_percent
                    .map_or_else(String::new, |it| format!(" ({} % of the run)", rounded(it)))
            ),
        ];
        for line in lines.iter().chain(&self.notes) {
            to.element("li", &[], line);
        }
        to.raw("</ul>");
        if self.unavailable.is_empty() {
            return;
        }
        let row =
            |one: &Unavailable| vec![one.what.clone(), one.reason.clone(), thousands(one.tasks)];
        let rows: Vec<Vec<String>> = self.unavailable.iter().map(row).collect();
        table(to, &["not available", "why", ">tasks"], &rows);
    }
}

fn tree(to: &mut Markup, call: &Call, depth: usize) {
    let state = if call.errors > 0 { "failed" } else { "" };
    let attributes: [(&str, &dyn std::fmt::Display); 2] =
        [("data-text", &call.activity), ("data-state", &state)];
    let line = |to: &mut Markup| {
        to.element("strong", &[], &call.activity);
        if call.tasks > 1 {
            to.element("span", &[("class", &"many")], format!(" × {}", thousands(call.tasks)));
        }
        to.escaped(format!(" {}", duration(call.total_ns)));
        if call.errors > 0 {
            to.element(
                "span",
                &[("class", &"failed-text")],
                format!(" {} failed", thousands(call.errors)),
            );
        }
    };
    if call.calls.is_empty() {
        to.open("div", &[("class", &"leaf"), attributes[0], attributes[1]]);
        line(to);
        to.close("div");
        return;
    }
    match depth {
        0..3 => to.open("details", &[attributes[0], attributes[1], ("open", &"")]),
        _ => to.open("details", &attributes),
    }
    to.open("summary", &[]);
    line(to);
    to.close("summary");
    for inner in &call.calls {
        tree(to, inner, depth + 1);
    }
    to.close("details");
}

fn task(to: &mut Markup, task: &TaskFacts) {
    let began = task.started_at.map_or_else(String::new, |at| axis::utc((at * 1e9) as u64));
    let code = task.code.as_deref().unwrap_or_default();
    to.quiet(format!("{began} · {} · {} {code}", duration(task.duration_ns), task.task_id));
    for (name, value) in
        [("error", &task.error), ("used", &task.used), ("generated", &task.generated)]
    {
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !is_empty {
            to.element("h3", &[], name);
            to.element("pre", &[], json(value, VALUE));
        }
    }
}

fn json(value: &Value, most: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    printable(&text).keep_lines().at_most(most).to_string()
}

/// Returns a short description of the machine.
fn machine(all: &serde_json::Map<String, Value>) -> Option<String> {
    let one = all.values().find(|value| value.is_object())?;
    let text = |path: &str| one.pointer(path).and_then(Value::as_str);
    let parts = [
        text("/hostname").map(str::to_owned),
        text("/cpu/brand_raw").map(str::to_owned),
        one.pointer("/cpu/count")
            .and_then(Value::as_u64)
            .map(|count| format!("{count} processors")),
        one.pointer("/memory/virtual/total").and_then(Value::as_u64).map(human_bytes),
    ];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Joins the text values of an object into one line.
fn plain(all: &serde_json::Map<String, Value>) -> String {
    let texts = all.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_str()?)));
    printable(&texts.collect::<Vec<_>>().join(", ")).at_most(160).to_string()
}
