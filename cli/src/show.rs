//! `runlore show`: shows one record in readable form.

mod telemetry;
pub(crate) mod used;

use std::io::{self, Write};
use std::process::ExitCode;

use runlore::Provenance;
use runlore::query::field;
use runlore::record::{Record, Shown, Status, TaskObject};
use runlore::telemetry::MachineInfo;
use runlore_core::text::{human_duration, printable};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::out::{BOLD, DIM, RED, paint, precise_time, stdout};
use crate::store::Store;
use crate::{Done, machine, select};

/// Show one task or run
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore show a350e9a46279      the record whose id ends with these characters
  runlore show quickstart        the newest run named `quickstart`
  runlore show a350e9a46279 --json | jq .telemetry_at_end.memory")]
pub(crate) struct Args {
    /// The id of a task or run, the first or last characters of it (at least 4), or the name of a run,
    /// which selects the newest run of that name
    id: String,

    /// Print the complete record as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let (record, is_interrupted) = find(&args.id, store)?;
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", record.to_json())?;
    } else {
        write(&mut out, &record, is_interrupted)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the record, and whether it is an open task of an interrupted run.
fn find(given: &str, store: &Store) -> Result<(Record, bool), Failure> {
    let records = store.open()?;
    let record = find_in(&records, given, store)?;
    let is_interrupted = match &record {
        Record::Task(task) => is_interrupted(&records, task)?,
        _ => false,
    };
    Ok((record, is_interrupted))
}

fn is_interrupted(records: &Provenance, task: &TaskObject) -> Result<bool, Failure> {
    let (Some(Status::Running), Some(run)) = (task.status, &task.workflow_id) else {
        return Ok(false);
    };
    Ok(records.workflow(run)?.is_some_and(|run| run.is_interrupted()))
}

fn find_in(records: &Provenance, given: &str, store: &Store) -> Result<Record, Failure> {
    let tasks = records.tasks().filter(select::by_id("task_id", given)).to_vec()?;
    let runs = records.workflows().filter(select::by_id("workflow_id", given)).to_vec()?;
    store.tell(records);
    let mut found: Vec<(String, String, Record)> = Vec::new();
    for task in tasks {
        found.push((task.task_id.clone(), task.name().to_owned(), task.into()));
    }
    for run in runs {
        found.push((run.workflow_id.clone(), run.display_name().to_owned(), run.into()));
    }
    if found.iter().any(|(id, ..)| id == given) {
        found.retain(|(id, ..)| id == given);
    }
    match found.len() {
        0 => newest_run(given, records)?.ok_or_else(|| {
            Failure::new(format!(
                "no record in {} has the id {given:?}, and no run has this name; `runlore ls` lists runs, \
                 `runlore tasks` lists tasks; give at least 4 characters of an id",
                store.display()
            ))
        }),
        1 => Ok(found.remove(0).2),
        _ => {
            let all = found.iter().map(|(id, name, _)| (&**id, &**name));
            Err(select::ambiguous("records", given, all))
        }
    }
}

fn newest_run(name: &str, records: &Provenance) -> Result<Option<Record>, Failure> {
    let named = records.workflows().filter(field("name").eq(name));
    Ok(named.sort("-started_at").first()?.map(Record::from))
}

/// Fields at the top of the page, with their headings.
const FACTS: [(&str, &str); 22] = [
    ("task_id", "task"),
    ("workflow_id", "run"),
    ("campaign_id", "campaign"),
    ("parent_task_id", "parent"),
    ("parent_workflow_id", "parent run"),
    ("subtype", "subtype"),
    ("group_id", "group"),
    ("tags", "tags"),
    ("workflow_description", "description"),
    ("submitted_at", "submitted"),
    ("started_at", "started"),
    ("ended_at", "ended"),
    ("duration_ns", "duration"),
    ("ended_early", "ended early"),
    ("ended_by", "ended by"),
    ("exit_code", "exit code"),
    ("user", "user"),
    ("hostname", "host"),
    ("pid", "process"),
    ("thread", "thread"),
    ("rank", "rank"),
    ("job_id", "job"),
];

/// Fields with a section of their own, in this order. `SECTIONS` come before the resources and the
/// telemetry, `LAST_SECTIONS` after them.
const SECTIONS: [&str; 7] =
    ["used", "generated", "error", "stderr", "stdout", "code", "custom_metadata"];
const LAST_SECTIONS: [&str; 3] = ["unavailable", "hashes", "totals"];

/// Large fields. Only the names of their parts are shown; `--json` has the rest.
const LARGE: [&str; 8] = [
    "telemetry_at_start",
    "telemetry_at_end",
    "machine_info",
    "catalogue",
    "settings",
    "flowcept_settings",
    "code_repository",
    "extra_metadata",
];

fn write(out: &mut impl Write, record: &Record, is_interrupted: bool) -> io::Result<()> {
    let (name, status, duration) = match record {
        Record::Task(task) => (task.name(), task.status, task.duration()),
        Record::Workflow(run) => (run.display_name(), run.shown().tone(), run.duration()),
        Record::Other(_) => ("", None, None),
    };
    let json = record.to_json();
    let Value::Object(mut fields) = json else {
        return Ok(());
    };
    for shown in ["type", "activity_id", "name"] {
        fields.remove(shown);
    }

    write!(out, "{BOLD}{}{BOLD:#}", printable(name))?;
    if let Some(status) = status {
        // Show the status as it is recorded, which may be a word unknown to us.
        let word = fields.remove("status");
        let word = word.as_ref().and_then(Value::as_str).unwrap_or(status.as_str());
        let (word, paint) = match record {
            Record::Workflow(run) => (run.shown().to_string(), paint(Some(status))),
            _ if is_interrupted => (Shown::interrupted().to_string(), RED),
            _ => (word.to_owned(), paint(Some(status))),
        };
        write!(out, "  {paint}{}{paint:#}", printable(&word))?;
    }
    if let Some(duration) = duration {
        write!(out, "  {}", human_duration(duration))?;
    }
    writeln!(out)?;
    if let Record::Workflow(run) = record
        && let Some(lost) = run.lost()
    {
        writeln!(out, "  {RED}{}{RED:#}", printable(&lost.to_string()))?;
    }
    for (field, heading) in FACTS {
        if let Some(value) = fields.remove(field) {
            fact(out, heading, &told(field, &value))?;
        }
    }
    for heading in SECTIONS {
        if let Some(value) = fields.remove(heading) {
            section(out, heading, value)?;
        }
    }
    let duration_ns = duration.map(|duration| duration.as_nanos() as u64);
    if let Some(Value::Object(resources)) = fields.get("resources").cloned() {
        fields.remove("resources");
        used::write(out, resources, duration_ns)?;
    }
    let capture = fields.remove("capture");
    let (before, after) = (fields.get("telemetry_at_start"), fields.get("telemetry_at_end"));
    telemetry::write(out, before, after, capture.as_ref())?;
    if let Some(Value::Object(machines)) = fields.get("machine_info") {
        write_machines(out, machines)?;
    }
    for heading in LAST_SECTIONS {
        if let Some(value) = fields.remove(heading) {
            section(out, heading, value)?;
        }
    }
    let large: Vec<(&str, Value)> =
        LARGE.iter().filter_map(|name| Some((*name, fields.remove(*name)?))).collect();
    if !fields.is_empty() {
        section(out, "more", Value::Object(fields))?;
    }
    if !large.is_empty() {
        writeln!(out, "\n{BOLD}shown in full by --json{BOLD:#}")?;
        let width = large.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, value) in large {
            writeln!(out, "  {DIM}{name:<width$}{DIM:#}  {}", printable(&outline(&value)))?;
        }
    }
    Ok(())
}

/// Writes the machines of a run. Processes on the same machine are grouped.
fn write_machines(out: &mut impl Write, machines: &Map<String, Value>) -> io::Result<()> {
    let mut told: Vec<(Vec<&str>, Facts)> = Vec::new();
    for (name, machine) in machines {
        // Another tool may have written a different structure. Its field names are listed with the
        // rest.
        let Ok(machine) = serde_json::from_value(machine.clone()) else { continue };
        let facts = machine_facts(&machine);
        match told.iter_mut().find(|(_, known)| *known == facts) {
            Some((names, _)) => names.push(name),
            None => told.push((vec![name], facts)),
        }
    }
    for (names, facts) in told {
        let names = names.join(", ");
        writeln!(out, "\n{BOLD}machine{BOLD:#} {}", printable(&names).at_most(100))?;
        for (heading, text) in facts {
            fact(out, heading, &text)?;
        }
    }
    Ok(())
}

/// Headings and their texts.
type Facts = Vec<(&'static str, String)>;

fn machine_facts(machine: &MachineInfo) -> Facts {
    let mut facts = vec![
        ("cpu", machine::processors(machine)),
        ("memory", machine::memory(machine)),
        ("system", machine::system(machine)),
    ];
    facts.extend(machine.gpu.as_ref().map(|gpus| ("gpu", machine::gpus(gpus))));
    facts.extend(machine.container.as_ref().map(|it| ("container", machine::container(it))));
    facts.push(("build", machine::build(machine)));
    facts
}

fn fact(out: &mut impl Write, heading: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {DIM}{:<12}{DIM:#}  {}", printable(heading).to_string(), printable(text))
}

/// Formats a value at the top of the page.
fn told(field: &str, value: &Value) -> String {
    let time = || precise_time(value.as_f64()?);
    let duration = || Some(human_duration(std::time::Duration::from_nanos(value.as_u64()?)));
    match field {
        "submitted_at" | "started_at" | "ended_at" => time(),
        "duration_ns" => duration().map(|text| format!("{text}  ({value} ns)")),
        "tags" => value.as_array().map(|tags| {
            let tags: Vec<String> = tags.iter().map(plain).collect();
            tags.join(", ")
        }),
        "thread" => value.as_object().map(|thread| {
            let parts: Vec<String> = thread.values().map(plain).collect();
            parts.join(" ")
        }),
        _ => None,
    }
    .unwrap_or_else(|| plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn section(out: &mut impl Write, heading: &str, value: Value) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{heading}{BOLD:#}")?;
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let width = fields.keys().map(|name| name.chars().count()).max().unwrap_or(0).min(24);
            for (name, value) in fields {
                let name = printable(&name).to_string();
                write!(out, "  {DIM}{name:<width$}{DIM:#}  ")?;
                lines(out, &pretty(heading, &value), width + 4)?;
            }
            Ok(())
        }
        Value::Object(_) => writeln!(out, "  {DIM}(nothing){DIM:#}"),
        other => {
            write!(out, "  ")?;
            lines(out, &plain(&other), 2)
        }
    }
}

/// Formats a value: short ones on one line, others as indented JSON. Error texts keep their line
/// breaks.
fn pretty(heading: &str, value: &Value) -> String {
    match value {
        Value::String(text) if matches!(heading, "error" | "code") => text.clone(),
        Value::Object(_) | Value::Array(_) => {
            let short = value.to_string();
            if short.chars().count() <= 80 {
                short
            } else {
                serde_json::to_string_pretty(value).unwrap_or(short)
            }
        }
        other => other.to_string(),
    }
}

/// Writes lines. All but the first are indented.
fn lines(out: &mut impl Write, text: &str, indent: usize) -> io::Result<()> {
    for (at, line) in text.lines().enumerate() {
        let blanks = if at == 0 { 0 } else { indent };
        writeln!(out, "{:blanks$}{}", "", printable(line).keep_lines())?;
    }
    if text.is_empty() { writeln!(out) } else { Ok(()) }
}

/// Returns the names of a value's parts.
fn outline(value: &Value) -> String {
    let names = |object: &Map<String, Value>| object.keys().cloned().collect::<Vec<_>>().join(", ");
    match value {
        Value::Object(object) => names(object),
        Value::Array(items) => format!("{} entries", items.len()),
        other => plain(other),
    }
}
