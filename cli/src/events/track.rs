//! `runlore events track`: tracks the memory of the machine, its graphics processors, a process or
//! a command.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use runlore::events::{Format, Schema, Target};
use runlore::push::Pusher;
use runlore::tracker::{
    Alert, AlertKind, Alerts, Device, FlightRecorder, ProcessTree, Stopped, Tracker,
    TrackerBuilder, TrackerStatistics,
};

use super::convert::schema;
use super::input::Named;
use super::push::with_headers;
use crate::Done;
use crate::child::Ended;
use crate::failure::{Failure, say};
use crate::out::{create_folder_of, stdout};
use crate::run::{exit_code, spawn, wait};
use crate::units::{bytes, count, counted, nanoseconds, percent, time};

/// Track the memory of the machine, a process, or a command and its child processes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events track --duration 60 --output run.json
  runlore events track --sink sink/ -- python train.py
  runlore events track --gpus --interval 0.5 --warning 85 --critical 97

Tracking ends after the duration, with the process, or with Ctrl-C. With a command, this program waits for the command,
and the duration ends only the tracking. The exit code is then that of the command, 128 + N if signal N ended it, 127 if
it was not found, and 126 if it could not be executed.")]
pub(crate) struct Args {
    /// How long to track: seconds, or a duration such as 5min
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    duration: Option<Duration>,

    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "0.1", value_parser = some_time)]
    interval: Duration,

    /// Write all events to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Format of the file [default: by its extension]
    #[arg(long, value_name = "FORMAT", requires = "output")]
    format: Option<Named>,

    /// Schema of the events: 2, 3 or 4
    #[arg(long, value_name = "N", default_value = "4", value_parser = schema)]
    schema: Schema,

    /// Write 0 for unknown counters, which schemas 2 and 3 cannot represent
    #[arg(long, requires = "output")]
    lossy: bool,

    /// Write all events to a sink in this folder, which stays readable if this program is killed
    #[arg(long, value_name = "FOLDER")]
    sink: Option<PathBuf>,

    /// Send all events to this monitoring endpoint
    #[arg(long, value_name = "URL")]
    push: Option<String>,

    /// A header for each request to the endpoint: `Name: value`
    #[arg(long, value_name = "HEADER", requires = "push")]
    header: Vec<String>,

    /// Keep events that the endpoint has not accepted in this folder (up to 64 MiB), and send them the
    /// next time
    #[arg(long, value_name = "FOLDER", requires = "push")]
    spool: Option<PathBuf>,

    /// On a critical alert, write the latest events to a new folder in this folder
    #[arg(long, value_name = "FOLDER")]
    dumps: Option<PathBuf>,

    /// Warn above this percentage of the memory
    #[arg(long, value_name = "PERCENT", default_value = "80")]
    warning: f64,

    /// Critical alert above this percentage of the memory
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    critical: f64,

    /// Warn above this many MiB of resident memory (critical above 1.25 times as many)
    #[arg(long, value_name = "MIB")]
    resident: Option<u64>,

    /// Disable alerts, separated by commas: memory, container, swap, pressure, jump, fragmentation
    #[arg(long, value_name = "KIND", value_delimiter = ',', hide_possible_values = true)]
    no_alert: Vec<Unwatched>,

    /// Track the graphics processors too
    #[arg(long)]
    gpus: bool,

    /// Track this process and its child processes
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,

    /// Name of the job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,

    /// Print a summary as one JSON object
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A kind of alert that can be turned off.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Unwatched {
    Memory,
    Container,
    Swap,
    Pressure,
    Jump,
    Fragmentation,
}

impl From<Unwatched> for AlertKind {
    fn from(unwatched: Unwatched) -> Self {
        match unwatched {
            Unwatched::Memory => Self::Memory,
            Unwatched::Container => Self::Container,
            Unwatched::Swap => Self::Swap,
            Unwatched::Pressure => Self::Pressure,
            Unwatched::Jump => Self::Jump,
            Unwatched::Fragmentation => Self::Fragmentation,
        }
    }
}

/// Parses a duration above zero.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() { Err("give a time above 0".to_owned()) } else { Ok(time) }
}

pub(crate) fn run(args: &Args) -> Done {
    let (tell, told) = channel();
    let builder = args.builder()?.on_alert(move |alert: &Alert| _ = tell.send(alert.clone()));
    if args.command.is_empty() {
        #[cfg(unix)]
        crate::signals::note_interrupts();
        if let Some(pid) = args.pid.filter(|pid| !is_alive(*pid)) {
            return Err(Failure::new(format!("there is no process {pid}")));
        }
        let builder = match args.pid {
            Some(pid) => builder.collector(ProcessTree::of(pid)),
            None => builder.device(Device::Machine),
        };
        let tracker = args.with_gpus(builder).start()?;
        tracker.sample_now();
        let mut live = Live::new(&told, io::stderr().is_terminal());
        let began = Instant::now();
        while !is_interrupted()
            && args.duration.is_none_or(|most| began.elapsed() < most)
            && args.pid.is_none_or(is_alive)
        {
            live.show(&tracker);
            let left = args.duration.map(|most| most.saturating_sub(began.elapsed()));
            std::thread::sleep(left.unwrap_or(STEP).min(STEP));
        }
        live.end();
        return args.tell(&tracker.stop(), &mut stdout()).map(|()| ExitCode::SUCCESS);
    }
    #[cfg(target_os = "linux")]
    crate::signals::adopt_orphans();
    // Until a new process executes the command's program, it has this program's memory. Nothing is
    // read before that.
    let prepared = args.with_gpus(builder.collector(ProcessTree::of_children())).prepare()?;
    let program = args.command[0].to_string_lossy().into_owned();
    let mut child = match spawn(Command::new(&args.command[0]).args(&args.command[1..])) {
        Ok(child) => child,
        Err(error) => {
            say(&format!("cannot run {program}: {error}"));
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            return Ok(ExitCode::from(code));
        }
    };
    let failed = |error: io::Error| Failure::new(format!("cannot wait for the command: {error}"));
    let tracker = match prepared.start() {
        Ok(tracker) => tracker,
        Err(error) => {
            say(&format!("{error}; {program} runs untracked"));
            let ended = wait(&mut child).map_err(failed)?;
            return Ok(ExitCode::from(exit_code(ended.status)));
        }
    };
    let (ended, stopped) = args.follow(child, tracker, &told);
    // The command has run, so the caller expects its exit code even if events are lost. Standard
    // output belongs to the command, too.
    if let Err(failure) = args.tell(&stopped, &mut anstream::stderr()) {
        failure.report();
    }
    Ok(ExitCode::from(exit_code(ended.map_err(failed)?.status)))
}

/// Whether the process runs. True if the system does not report it.
fn is_alive(pid: u32) -> bool {
    if cfg!(not(target_os = "linux")) {
        return true;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name is in parentheses, and may itself contain some.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.bytes().next());
    // A zombie has ended, unless only its main thread has.
    !matches!(state, Some(b'Z' | b'X'))
        || fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// Maximum size of a spool, in bytes.
const SPOOL: u64 = 64 << 20;

/// The interval between updates of the status line.
const STEP: Duration = Duration::from_millis(100);

impl Args {
    fn builder(&self) -> Result<TrackerBuilder, Failure> {
        let mut alerts = Alerts::default().memory(self.warning, self.critical);
        if self.resident.is_some() && self.is_machine() {
            return Err(Failure::new(
                "--resident needs a command or --pid; for the whole machine, use --warning PERCENT",
            ));
        }
        if let Some(mib) = self.resident {
            let warning = mib.saturating_mul(1 << 20);
            alerts = alerts.resident(warning, warning.saturating_add(warning / 4));
        }
        for kind in &self.no_alert {
            alerts = alerts.without((*kind).into());
        }
        let mut builder = Tracker::builder().interval(self.interval).alerts(alerts);
        if let Some(job) = &self.job {
            builder = builder.job(job);
        }
        if let Some(folder) = &self.sink {
            builder = builder.sink(folder);
        }
        if let Some(folder) = &self.dumps {
            builder = builder.flight_recorder(FlightRecorder::new(folder));
        }
        if let Some(url) = &self.push {
            let mut pusher = with_headers(Pusher::new(url)?, &self.header)?;
            if let Some(folder) = &self.spool {
                pusher = pusher.spool(folder, SPOOL);
            }
            builder = builder.push(pusher);
        }
        if let Some(path) = &self.output {
            if self.format.is_none() && Format::of_name(path).is_none() {
                let path = path.display();
                return Err(Failure::new(format!(
                    "cannot write {path}: name it *.json, *.jsonl or *.csv, or add --format"
                )));
            }
            if self.gpus && self.schema != Schema::V4 && !self.lossy {
                return Err(Failure::new(format!(
                    "schema {} cannot represent unknown values, and graphics processors do not report all of them: use \
                     --schema 4, or add --lossy to write 0 for them",
                    self.schema.number()
                )));
            }
            create_folder_of(path)?;
            let mut target = Target::from(self.schema);
            target.lossy = self.lossy;
            builder = builder.output(path, self.format.map(Format::from), target);
        }
        Ok(builder)
    }

    /// Whether the machine is tracked, not a process.
    fn is_machine(&self) -> bool {
        self.command.is_empty() && self.pid.is_none()
    }

    fn with_gpus(&self, builder: TrackerBuilder) -> TrackerBuilder {
        if self.gpus { builder.device(Device::Gpus) } else { builder }
    }

    /// Waits until the command has ended, and tracks it for at most the given duration.
    fn follow(
        &self,
        mut child: Child,
        tracker: Tracker,
        told: &Receiver<Alert>,
    ) -> (io::Result<Ended>, Stopped) {
        let (tell, ended) = channel();
        std::thread::spawn(move || _ = tell.send(wait(&mut child)));
        tracker.sample_now();
        // If the command writes to the terminal, a changing line would disturb its output.
        let mut live = Live::new(told, io::stderr().is_terminal() && !io::stdout().is_terminal());
        let began = Instant::now();
        let mut result = None;
        while result.is_none() && self.duration.is_none_or(|most| began.elapsed() < most) {
            live.show(&tracker);
            result = ended.recv_timeout(Duration::from_millis(20)).ok();
        }
        live.end();
        let mut stopped = tracker.stop();
        if let Some(Ok(Ended { used: Some(used), .. })) = &result {
            // Memory may have peaked between two samples, so include the peak that the system
            // reports. It is `None` if it cannot be distinguished from the peak of this program.
            let peak = &mut stopped.statistics.peak_memory;
            *peak = (*peak).max(used.peak_rss_bytes.unwrap_or(0));
        }
        let result = result
            .unwrap_or_else(|| ended.recv().unwrap_or_else(|error| Err(io::Error::other(error))));
        (result, stopped)
    }

    fn tell(&self, stopped: &Stopped, out: &mut dyn Write) -> Result<(), Failure> {
        let statistics = &stopped.statistics;
        if self.json {
            writeln!(out, "{}", serde_json::to_string(statistics).unwrap_or_default())?;
        } else {
            summary(statistics, self.is_machine(), out)?;
        }
        out.flush()?;
        match &stopped.problem {
            Some(problem) => Err(Failure::new(problem.to_string())),
            None => Ok(()),
        }
    }
}

fn summary(
    statistics: &TrackerStatistics,
    is_machine: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let duration = Duration::from_secs_f64(statistics.tracking_duration_seconds.max(0.0));
    let taken = nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let samples = counted(statistics.samples, "sample", "samples");
    writeln!(out, "{samples} in {taken}, {}", counted(statistics.total_events, "event", "events"))?;
    match (statistics.peak_memory, statistics.device_total) {
        (0, _) => writeln!(out, "peak       unknown: it ended before the first sample")?,
        (peak, Some(total)) if is_machine => {
            writeln!(out, "peak       {} of the machine's {}", bytes(peak), bytes(total))?;
        }
        (peak, _) => writeln!(out, "peak       {}", bytes(peak))?,
    }
    if let Some(total) = statistics.device_total.filter(|_| !is_machine) {
        let used = bytes(statistics.peak_device_used);
        writeln!(out, "device     at most {used} of {}", bytes(total))?;
    }
    if statistics.alert_count > 0 {
        writeln!(out, "alerts     {}", count(statistics.alert_count))?;
    }
    if statistics.missed_samples > 0 {
        writeln!(out, "missed     {}", counted(statistics.missed_samples, "sample", "samples"))?;
    }
    if statistics.sink_dropped_events > 0 {
        writeln!(out, "dropped    {}", counted(statistics.sink_dropped_events, "event", "events"))?;
    }
    if statistics.sink_removed_events > 0 {
        let events = counted(statistics.sink_removed_events, "event", "events");
        writeln!(out, "removed    {events}, because the sink was deleted")?;
    }
    if let Some(error) = &statistics.collector_last_error {
        writeln!(out, "collector  {}: {error}", statistics.collector_health_status)?;
    }
    if let Some(dump) = &statistics.last_oom_dump_path {
        writeln!(out, "dump       {dump}")?;
    }
    Ok(())
}

fn is_interrupted() -> bool {
    #[cfg(unix)]
    return crate::signals::is_interrupted();
    #[cfg(not(unix))]
    false
}

/// A status line, with alerts above it.
struct Live<'a> {
    told: &'a Receiver<Alert>,
    is_shown: bool,
    drawn: Option<Instant>,
}

impl<'a> Live<'a> {
    fn new(told: &'a Receiver<Alert>, is_shown: bool) -> Self {
        Self { told, is_shown, drawn: None }
    }

    fn show(&mut self, tracker: &Tracker) {
        self.alerts();
        if !self.is_shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < STEP) {
            return;
        }
        self.drawn = Some(Instant::now());
        _ = write!(io::stderr(), "\r\x1b[2K{}", line(&tracker.statistics()));
    }

    fn alerts(&mut self) {
        for alert in self.told.try_iter() {
            if self.drawn.take().is_some() {
                _ = write!(io::stderr(), "\r\x1b[2K");
            }
            say(&alert.message);
        }
    }

    fn end(&mut self) {
        self.alerts();
        if self.drawn.take().is_some() {
            _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn line(statistics: &TrackerStatistics) -> String {
    let mut parts = vec![format!("{:.0} s", statistics.tracking_duration_seconds)];
    if let Some(allocated) = statistics.current_memory_allocated {
        parts.push(format!("{} (peak {})", bytes(allocated), bytes(statistics.peak_memory)));
    }
    if let Some(used) = statistics.memory_utilization_percent {
        parts.push(format!("device {}", percent(used)));
    }
    if statistics.alert_count > 0 {
        parts.push(counted(statistics.alert_count, "alert", "alerts"));
    }
    parts.join("  ")
}
