//! The tree as a table with the resources that each task used.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use runlore::query::{Item, Node, Tree};
use runlore::record::TaskObject;
use runlore_core::text::human_duration;
use serde_json::Value;

use super::names;
use crate::out::{RED, paint};
use crate::show::used::{Figure, load};
use crate::table::{self, Cell};
use crate::units::{bytes, change, nanoseconds};

pub(super) fn write(out: &mut impl Write, tree: &Tree) -> io::Result<()> {
    let names = names::of(tree);
    let mut totals: HashMap<&str, Duration> = HashMap::new();
    for (_, node) in tree.walk() {
        if let Item::Task(task) = &node.item
            && let (Some(run), Some(cpu)) = (task.workflow_id.as_deref(), task.own_cpu())
        {
            *totals.entry(run).or_default() += cpu;
        }
    }
    let rows: Vec<_> =
        names.iter().zip(tree.walk()).map(|(name, (_, node))| row(name, node, &totals)).collect();
    let headings = [
        "TASK",
        "STATUS",
        ">DURATION",
        ">CPU",
        ">SELF",
        ">LOAD",
        ">MEMORY",
        ">READ",
        ">WRITTEN",
        "ERROR",
    ];
    table::write(out, &headings, &rows)
}

fn row(name: &str, node: &Node, totals: &HashMap<&str, Duration>) -> Vec<Cell> {
    let shown = node.shown().unwrap_or_default();
    let (duration, error) = match &node.item {
        Item::Task(task) => (task.duration(), task.error_message()),
        Item::Workflow(run) => (run.duration(), run.error_message()),
    };
    let used = match &node.item {
        Item::Task(task) => Used::by(task),
        Item::Workflow(run) => Used::of_time(totals.get(&*run.workflow_id).copied()),
    };
    let nanos = duration.and_then(|duration| u64::try_from(duration.as_nanos()).ok());
    let load = used.cpu.and_then(|cpu| load(cpu.inclusive, nanos));
    let time = |nanos: Option<i64>| nanos.map(|nanos| nanoseconds(nanos.unsigned_abs()));
    let cell = |text: Option<String>| Cell::new(&text.unwrap_or_default());
    vec![
        Cell::whole(name),
        Cell::styled(&shown.to_string(), paint(shown.tone())),
        cell(duration.map(human_duration)),
        cell(time(used.cpu.map(|cpu| cpu.inclusive))),
        cell(time(used.cpu.and_then(|cpu| cpu.own))),
        cell(load.map(|load| format!("{load:.0} %"))),
        cell(used.memory),
        cell(used.read.map(|figure| of_process(figure, |read| bytes(read.unsigned_abs())))),
        cell(used.written.map(|figure| of_process(figure, |it| bytes(it.unsigned_abs())))),
        Cell::styled(error.filter(|_| node_failed(node)).as_deref().unwrap_or_default(), RED),
    ]
}

fn node_failed(node: &Node) -> bool {
    match &node.item {
        Item::Task(task) => task.is_error(),
        Item::Workflow(run) => run.status == Some(runlore::record::Status::Error),
    }
}

#[derive(Default)]
struct Used {
    cpu: Option<Figure>,
    memory: Option<String>,
    read: Option<Figure>,
    written: Option<Figure>,
}

impl Used {
    /// Only processor time, as for all tasks of a run together.
    fn of_time(cpu: Option<Duration>) -> Self {
        let figure = |cpu: Duration| Figure {
            inclusive: i64::try_from(cpu.as_nanos()).unwrap_or(i64::MAX),
            own: None,
            is_shared: false,
        };
        Self { cpu: cpu.map(figure), ..Self::default() }
    }

    fn by(task: &TaskObject) -> Self {
        let Some(resources) = &task.resources else { return Self::default() };
        let figure = |name: &str| resources.get(name).and_then(Figure::of);
        let memory = match resources.get("child") {
            // The change in memory is that of the process that waited for the command, so show the
            // command's peak.
            Some(child) => {
                let peak = child.get("peak_rss_bytes").and_then(Value::as_u64);
                peak.map(|peak| format!("peak {}", bytes(peak)))
            }
            None => figure("rss_bytes").map(|figure| of_process(figure, change)),
        };
        // Without telemetry, only the command's usage is known.
        let cpu = figure("cpu_ns").or_else(|| Self::of_time(task.own_cpu()).cpu);
        Self { cpu, memory, read: figure("read_bytes"), written: figure("write_bytes") }
    }
}

/// Formats a figure of the whole process, with `~` if other tasks ran at the same time.
fn of_process(figure: Figure, tell: impl Fn(i64) -> String) -> String {
    let mark = if figure.is_shared { "~" } else { "" };
    format!("{mark}{}", tell(figure.inclusive))
}
