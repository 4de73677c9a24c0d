//! `runlore doctor`: what can be measured here, what it costs, and what to do about the rest.

mod json;
mod text;

use std::time::{Duration, Instant};
use std::{io::Write, process::ExitCode};

use runlore::Spooled;
use runlore::settings::{Loaded, Settings};
use runlore::telemetry::{
    MachineInfo, Sensor, SensorState, TelemetryCapture, TelemetryType, Types,
};

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;
use crate::store::Store;

/// Show what telemetry can measure here, what it costs, and why something is missing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore doctor                 every type
  runlore doctor cpu disk        only these
  runlore doctor --json | jq '.sensors[] | select(.reason) | {field, reason, advice}'

Exit codes: 0 fine, 1 an error, 2 a finding: a field of a type that is on in the settings cannot be read. What the source
never tells, such as most fields of `backend: portable`, is listed and is no finding.")]
pub(crate) struct Args {
    /// The types to look at, as the settings name them; none: all
    #[arg(value_name = "TYPE")]
    types: Vec<String>,

    /// What was found as one JSON object
    #[arg(long)]
    json: bool,
}

/// How long a driver may take to tell what it drives.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Args, store: &Store) -> Done {
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
    Ok(if report.findings().next().is_some() { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// What was found.
struct Report<'a> {
    loaded: &'a Loaded,
    store: &'a Store,
    /// What a server that is the store says.
    server: Option<Server>,
    /// What waits on disk for a store.
    spooled: Vec<Spooled>,
    machine: MachineInfo,
    cost_of_machine: Duration,
    /// The types that are on in the settings.
    enabled: Types,
    /// The types that have a sensor, with what a capture of each alone costs.
    types: Vec<(TelemetryType, Duration)>,
    /// What a capture of the types that are on costs, and of all.
    cost: Duration,
    cost_of_all: Duration,
    /// The fields of the types that were asked for.
    sensors: Vec<Sensor>,
}

/// A server that was asked.
struct Server {
    /// The runs that it has, or why it does not tell.
    runs: Result<usize, String>,
    /// What is wrong with single records.
    problems: Vec<String>,
}

impl Server {
    fn ask(store: &Store) -> Self {
        let asked = runlore::Provenance::open(store.place()).and_then(|records| {
            let runs = records.runs()?.len();
            Ok((runs, records.problems()))
        });
        match asked {
            Ok((runs, problems)) => Self { runs: Ok(runs), problems },
            Err(error) => Self { runs: Err(error.to_string()), problems: Vec::new() },
        }
    }
}

impl<'a> Report<'a> {
    fn new(loaded: &'a Loaded, store: &'a Store, wanted: Types) -> Self {
        let spool = loaded.settings.recorder.spool.clone().or_else(|| store.folder());
        let settings = &loaded.settings.telemetry_capture;
        let enabled = Types::from_settings(settings);
        let capture = TelemetryCapture::from_settings(settings).with_types(Types::every());
        let mut sensors = capture.sensors();
        let sensed: Types = sensors.iter().map(|sensor| sensor.telemetry_type).collect();
        let types = sensed.iter().map(|one| (one, capture.cost_of(Types::from([one])))).collect();
        let before = Instant::now();
        let machine = MachineInfo::capture(settings);
        let cost_of_machine = before.elapsed();
        let machine = match enabled.contains(TelemetryType::Gpu) {
            true => machine.with_gpu(capture.gpu_info(PATIENCE)),
            false => machine,
        };
        sensors.retain(|sensor| wanted.contains(sensor.telemetry_type));
        Self {
            loaded,
            store,
            server: store.is_server().then(|| Server::ask(store)),
            // One that cannot be looked into is told by whoever replays it.
            spooled: spool.and_then(|spool| runlore::spooled(spool).ok()).unwrap_or_default(),
            machine,
            cost_of_machine,
            enabled,
            types,
            cost: capture.cost_of(enabled),
            cost_of_all: capture.cost_of(sensed),
            sensors,
        }
    }

    /// The fields of a type that is on which cannot be read, although their source tells them elsewhere.
    fn findings(&self) -> impl Iterator<Item = &Sensor> {
        self.sensors.iter().filter(|sensor| {
            self.enabled.contains(sensor.telemetry_type)
                && matches!(sensor.state, SensorState::Missing { is_expected: false, .. })
        })
    }
}

/// The types of these names; all, where none is named.
fn wanted(names: &[String]) -> Result<Types, Failure> {
    if names.is_empty() {
        return Ok(Types::every());
    }
    let named = |name: &String| {
        Types::every().iter().find(|one| one.name() == name).ok_or_else(|| {
            let all: Vec<_> = Types::every().iter().map(TelemetryType::name).collect();
            Failure::new(format!("there is no type {name:?}: the types are {}", all.join(", ")))
        })
    };
    names.iter().map(named).collect()
}
