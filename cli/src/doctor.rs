//! `runlore doctor`: shows what can be measured here, at what cost, and how to fix the rest.

mod json;
mod secrets;
mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{io::Write, process::ExitCode};

use runlore::Spooled;
use runlore::settings::{Loaded, Settings};
use runlore::store::sqlite::SqliteSource;
use runlore::telemetry::{
    MachineInfo, Sensor, SensorState, TelemetryCapture, TelemetryType, Types,
};

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;
use crate::store::Store;

/// Show what telemetry can measure on this machine, what it costs, and why values are missing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore doctor                 all types of telemetry
  runlore doctor cpu disk        only these types
  runlore doctor --secrets .env  the lines of a file that contain secrets
  runlore doctor --json | jq '.sensors[] | select(.reason) | {field, reason, advice}'

Exit codes: 0 success, 1 an error, 2 a finding: a field of an enabled type cannot be read, a store cannot be used, a
spool cannot be replayed, or a line contains a secret (`--secrets`). A field that the backend never provides, such as
most fields with `backend: portable`, is listed but is not a finding.")]
pub(crate) struct Args {
    /// The types of telemetry to check, by their names in the settings [default: all]
    #[arg(value_name = "TYPE")]
    types: Vec<String>,

    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,

    /// Check a file (- for standard input) instead: show the lines that contain secrets, the rule
    /// that found each, and how it would be recorded
    #[arg(long, value_name = "FILE", conflicts_with = "types")]
    secrets: Option<PathBuf>,
}

/// The timeout for a driver to describe its devices.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    if let Some(file) = &args.secrets {
        return secrets::run(file, args.json);
    }
    let loaded = Settings::load();
    for problem in loaded.problems() {
        store.say(&problem.to_string());
    }
    let report = Report::new(&loaded, store, wanted(&args.types)?);
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", json::of(&report))?;
    } else {
        text::write(&mut out, &report)?;
    }
    out.flush()?;
    let is_fine = report.findings().next().is_none() && !report.has_problem();
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The results of the checks.
struct Report<'a> {
    loaded: &'a Loaded,
    stores: Vec<Asked>,
    /// Records that wait on disk for a store, and the folder they are in.
    spooled: Vec<(PathBuf, Spooled)>,
    /// Spool folders that cannot be read.
    unreadable: Vec<String>,
    machine: MachineInfo,
    cost_of_machine: Duration,
    /// The types that the settings enable.
    enabled: Types,
    /// The types that have a sensor, with the cost of capturing each alone.
    types: Vec<(TelemetryType, Duration)>,
    /// The cost of capturing the enabled types, and of capturing all types.
    cost: Duration,
    cost_of_all: Duration,
    /// The fields of the selected types.
    sensors: Vec<Sensor>,
}

/// A store that was checked.
struct Asked {
    store: Store,
    /// Whether the file or folder exists. `None` for a server.
    exists: Option<bool>,
    /// The number of runs, or why they cannot be read. `None` if the store does not exist yet.
    runs: Option<Result<usize, String>>,
    /// Problems with individual records.
    problems: Vec<String>,
}

impl Asked {
    fn new(store: Store) -> Self {
        let exists = store.path().map(|path| path.exists());
        if exists == Some(false) && !store.is_written_wrongly() {
            return Self { store, exists, runs: None, problems: Vec::new() };
        }
        let (runs, problems) = match Self::ask(&store) {
            Ok((runs, problems)) => (Ok(runs), problems),
            Err(error) => (Err(error.to_string()), Vec::new()),
        };
        Self { store, exists, runs: Some(runs), problems }
    }

    fn ask(store: &Store) -> runlore::Result<(usize, Vec<String>)> {
        let records = runlore::Provenance::open(store.place())?;
        let runs = if store.is_server() { records.runs()? } else { records.list_runs()? };
        if let Some(path) = store.path().filter(|_| store.is_database()) {
            SqliteSource::open(path)?.check()?;
        }
        Ok((runs.len(), records.problems()))
    }
}

impl<'a> Report<'a> {
    fn new(loaded: &'a Loaded, store: &Store, wanted: Types) -> Self {
        let folders: BTreeSet<PathBuf> =
            store.each().filter_map(|store| store.spool(&loaded.settings)).collect();
        let (mut spooled, mut unreadable) = (Vec::new(), Vec::new());
        for folder in folders {
            match runlore::spooled(&folder) {
                Ok(found) => spooled.extend(found.into_iter().map(|one| (folder.clone(), one))),
                Err(error) => unreadable.push(error.to_string()),
            }
        }
        let settings = &loaded.settings.telemetry_capture;
        let enabled = Types::from_settings(settings);
        let capture = TelemetryCapture::configured(settings).with_types(Types::every());
        let mut sensors = capture.sensors();
        let sensed: Types = sensors.iter().map(|sensor| sensor.telemetry_type).collect();
        let types = sensed.iter().map(|one| (one, capture.cost_of(Types::from([one])))).collect();
        let before = Instant::now();
        let machine = MachineInfo::capture(settings);
        let cost_of_machine = before.elapsed();
        let machine = if enabled.contains(TelemetryType::Gpu) {
            machine.with_gpu(capture.gpu_info(PATIENCE))
        } else {
            machine
        };
        sensors.retain(|sensor| wanted.contains(sensor.telemetry_type));
        Self {
            loaded,
            stores: store.each().map(Asked::new).collect(),
            spooled,
            unreadable,
            machine,
            cost_of_machine,
            enabled,
            types,
            cost: capture.cost_of(enabled),
            cost_of_all: capture.cost_of(sensed),
            sensors,
        }
    }

    /// Whether a store cannot be used, or waiting records cannot be replayed.
    fn has_problem(&self) -> bool {
        self.stores.iter().any(|asked| matches!(asked.runs, Some(Err(_))))
            || self.spooled.iter().any(|(_, spooled)| spooled.problem.is_some())
            || !self.unreadable.is_empty()
    }

    /// Returns the fields of enabled types that cannot be read here, although their source normally
    /// provides them.
    fn findings(&self) -> impl Iterator<Item = &Sensor> {
        self.sensors.iter().filter(|sensor| {
            self.enabled.contains(sensor.telemetry_type)
                && matches!(sensor.state, SensorState::Missing { is_expected: false, .. })
        })
    }
}

/// Parses type names. Returns all types if there are no names.
fn wanted(names: &[String]) -> Result<Types, Failure> {
    if names.is_empty() {
        return Ok(Types::every());
    }
    let named = |name: &String| {
        Types::every().iter().find(|one| one.name() == name).ok_or_else(|| {
            let all: Vec<_> = Types::every().iter().map(TelemetryType::name).collect();
            Failure::new(format!("unknown type {name:?}: the types are {}", all.join(", ")))
        })
    };
    names.iter().map(named).collect()
}
