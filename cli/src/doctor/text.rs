//! The report as text: the summary first, then what is missing, then every field.

use std::io::{self, Write};

use runlore::settings::{Key, Settings};
use runlore::telemetry::{Sensor, SensorState, TelemetryType};
use runlore_core::text::{human_duration, printable};

use super::{Asked, Report};
use crate::machine;
use crate::out::{BOLD, DIM, RED};
use crate::replay::waits;
use crate::table::{self, Cell};
use crate::units::{bytes, counted, measured};

/// Maximum number of characters shown of a value.
const VALUE_LENGTH: usize = 28;
/// Maximum number of fields named that are missing for the same reason.
const NAMED: usize = 3;

pub(super) fn write(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    summary(out, report)?;
    missing(out, report)?;
    writeln!(out)?;
    let mut rows = Vec::new();
    for (one, cost) in &report.types {
        let sensors = report.sensors.iter().filter(|sensor| sensor.telemetry_type == *one);
        let mut fields = sensors.map(row).peekable();
        if fields.peek().is_none() {
            continue;
        }
        if !rows.is_empty() {
            rows.push(Vec::new());
        }
        let is_on = if report.enabled.contains(*one) { "on" } else { "off" };
        let heading = format!("{} ({is_on}, {})", one.name(), human_duration(*cost));
        rows.push(vec![Cell::styled(&heading, BOLD)]);
        rows.extend(fields);
    }
    table::write(out, &["FIELD", ">VALUE NOW", ">ONE READ", "SOURCE"], &rows)
}

fn summary(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let (on, off): (Vec<TelemetryType>, Vec<TelemetryType>) =
        report.types.iter().map(|(one, _)| *one).partition(|one| report.enabled.contains(*one));
    let names = |types: &[TelemetryType]| match types {
        [] => "nothing".to_owned(),
        types => types.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
    };
    let is_machine_on = report.loaded.settings.telemetry_capture.machine_info;
    let (once_on, once_off) =
        if is_machine_on { (", machine_info once per run", "") } else { ("", ", machine_info") };
    line(out, "on", &(names(&on) + once_on))?;
    line(out, "off", &(names(&off) + once_off))?;
    line(out, "settings", &settings(report))?;
    let (cost, all) = (human_duration(report.cost), human_duration(report.cost_of_all));
    line(
        out,
        "a capture",
        &format!("{cost} for the enabled types, {all} for all types; twice per task"),
    )?;
    let once = human_duration(report.cost_of_machine);
    let build =
        if cfg!(debug_assertions) { "; not optimised: a release build is faster" } else { "" };
    line(out, "", &format!("{once} for machine_info{build}"))?;
    let about = &report.machine;
    let (processors, memory) = (machine::processors(about), machine::memory(about));
    line(out, "machine", &format!("{processors}; memory {memory}"))?;
    let container = about.container.as_ref().map(machine::container);
    let container = container.map_or("no container".to_owned(), |it| format!("container {it}"));
    line(out, "", &format!("{}; {container}", machine::system(about)))?;
    if let Some(gpus) = &about.gpu {
        line(out, "", &machine::gpus(gpus))?;
    }
    report.stores.iter().try_for_each(|asked| store(out, asked))?;
    for (folder, spooled) in &report.spooled {
        let text = match &spooled.problem {
            Some(problem) => format!("{}: {problem}", bytes(spooled.bytes)),
            None => waits(folder, spooled),
        };
        line(out, "spool", &text)?;
    }
    report.unreadable.iter().try_for_each(|why| line(out, "spool", why))
}

fn store(out: &mut impl Write, asked: &Asked) -> io::Result<()> {
    let is_missing = asked.exists == Some(false) && asked.runs.is_none();
    let made = if is_missing { " (the first run creates it)" } else { "" };
    line(out, "store", &format!("{}{made}", asked.store.display()))?;
    let answers = if asked.exists.is_none() { "it responds, and has" } else { "it has" };
    match &asked.runs {
        Some(Ok(runs)) => {
            let runs = counted(*runs as u64, "run", "runs");
            line(out, "", &format!("{answers} {runs}"))?;
        }
        Some(Err(why)) => line(out, "", why)?,
        None => {}
    }
    asked.problems.iter().try_for_each(|problem| line(out, "", problem))
}

fn line(out: &mut impl Write, heading: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{DIM}{heading:<9}{DIM:#}  {}", printable(text))
}

/// Describes where the telemetry settings come from that differ from the defaults.
fn settings(report: &Report<'_>) -> String {
    let defaults = Settings::default().keys();
    let is_default =
        |key: &Key| defaults.iter().any(|(path, value)| (path, value) == (&key.path, &key.value));
    let changed: Vec<String> = report
        .loaded
        .keys()
        .into_iter()
        .filter(|key| !is_default(key))
        .filter_map(|key| {
            let name = key.path.strip_prefix("telemetry_capture.")?;
            Some(format!("{name} by {}", key.origin))
        })
        .collect();
    let files: Vec<String> = report.loaded.files().map(|path| path.display().to_string()).collect();
    match (&files[..], &changed[..]) {
        ([], []) => "no settings file found; the defaults are used".to_owned(),
        (files, []) => format!("{}, with the default telemetry", files.join(", ")),
        (_, changed) => format!("{}; defaults for the rest", changed.join(", ")),
    }
}

/// Writes which fields cannot be read, why, and what to do. Fields with the same reason are
/// grouped.
fn missing(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let mut reasons: Vec<(&str, &str, Vec<&Sensor>)> = Vec::new();
    for sensor in &report.sensors {
        if let SensorState::Missing { reason, advice, .. } = &sensor.state {
            match reasons.iter_mut().find(|(known, ..)| known == reason) {
                Some((.., sensors)) => sensors.push(sensor),
                None => reasons.push((reason, advice, vec![sensor])),
            }
        }
    }
    if reasons.is_empty() {
        let fields = counted(report.sensors.len() as u64, "field", "fields");
        if report.has_problem() {
            let problem = "A store has a problem, see above;";
            return writeln!(out, "\n{RED}{problem}{RED:#} {fields} can be read.");
        }
        return writeln!(out, "\nAll is well: {fields} can be read.");
    }
    let lost: usize = reasons.iter().map(|(.., sensors)| sensors.len()).sum();
    let fields = counted(report.sensors.len() as u64, "field", "fields");
    let findings = report.findings().count() as u64;
    let style = if findings > 0 { RED } else { BOLD };
    let findings = match findings {
        0 => "no finding".to_owned(),
        more => counted(more, "finding", "findings"),
    };
    writeln!(out, "\n{style}{lost} of {fields} cannot be read, {findings}:{style:#}")?;
    for (reason, advice, sensors) in reasons {
        let mut names: Vec<&str> = sensors.iter().map(|sensor| &*sensor.field).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(out, "  {}{more}", names.join(", "))?;
        writeln!(out, "    {DIM}why{DIM:#}   {}", printable(reason))?;
        writeln!(out, "    {DIM}to do{DIM:#} {}", printable(advice))?;
    }
    Ok(())
}

fn row(sensor: &Sensor) -> Vec<Cell> {
    let value = match &sensor.state {
        SensorState::Value(value) => {
            // A process id is an identifier, so its digits are not grouped.
            let is_name = sensor.field.ends_with(".pid");
            let text = if is_name { value.to_string() } else { measured(value, sensor.unit) };
            Cell::new(&printable(&text).at_most(VALUE_LENGTH).to_string())
        }
        _ => Cell::styled("cannot be read", RED),
    };
    vec![
        Cell::new(&format!("  {}", sensor.field)),
        value,
        Cell::new(&sensor.cost.map(human_duration).unwrap_or_default()),
        Cell::styled(&sensor.source, DIM),
    ]
}
