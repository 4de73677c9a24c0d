//! Samples a machine and its devices for a few seconds and writes a bundle. A bundle can be read
//! wherever a file of events can.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::diagnosis::{DiagnosticSummary, HostMemory, RiskFlags};
use super::finding::{Finding, Place};
use super::series::Timelines;
use super::thresholds::Thresholds;
use crate::events::TelemetryEvent;
use runlore_core::record::{Id, scrub_arguments};
use runlore_core::settings::{Search, TelemetrySettings};
use runlore_core::store::{create_folder, create_folders, write_file};
use runlore_core::{Error, ErrorKind, Result, clock, host};
use runlore_telemetry::{GpuInfo, MachineInfo, Telemetry, TelemetryCapture, memory_now};

/// Reads the memory of the machine and of the container, and the used memory of each GPU.
const SETTINGS: &str =
    "telemetry_capture: {cpu: false, mem: true, process_info: false, gpu: [used]}";
/// How long to wait for the drivers of GPUs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Configures and runs a diagnosis of the machine.
///
/// ```
/// use std::time::Duration;
/// use runlore::analyze::{Diagnose, Thresholds};
///
/// # let folder = std::env::temp_dir().join(format!("runlore-doc-diagnose-{}", std::process::id()));
/// let look = Diagnose { duration: Duration::from_millis(20), interval: Duration::from_millis(10) };
/// let found = look.run(&Thresholds::default());
/// let bundle = found.write(&folder, ["runlore", "events", "diagnose"])?;
/// assert!(!runlore::events::load(&bundle)?.sessions[0].events.is_empty());
/// println!("{} of memory in use", found.summary.utilization_ratio);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnose {
    /// How long to sample.
    pub duration: Duration,
    /// The time between two samples.
    pub interval: Duration,
}

/// The results of a diagnosis.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Diagnosed {
    /// The measured values and the risks among them.
    pub summary: DiagnosticSummary,
    /// The risks as findings.
    pub findings: Vec<Finding>,
    samples: Vec<Looked>,
    device_id: i64,
    environment: Value,
    session_id: String,
    started: Timestamp,
    ended: Timestamp,
    /// Additional files for the bundle.
    attached: Vec<(String, String)>,
}

/// One sample of the device that is summarised.
#[derive(Debug, Clone, Copy)]
struct Looked {
    seconds: f64,
    used: u64,
    total: u64,
}

impl Diagnose {
    /// Samples for the configured duration, at least once.
    pub fn run(&self, thresholds: &Thresholds) -> Diagnosed {
        let settings = Search::nowhere().text("diagnose", SETTINGS).load().settings;
        let capture = TelemetryCapture::configured(&settings.telemetry_capture);
        let gpu = capture.gpu_info(PATIENCE);
        let started = Timestamp::now();
        let begin = Instant::now();
        let mut readings: Vec<(f64, Telemetry)> = Vec::new();
        loop {
            let now = Timestamp::now().as_nanosecond() as f64 / 1e9;
            readings.push((now, capture.capture()));
            let left = self.duration.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            sleep(self.interval.max(Duration::from_millis(1)).min(left));
        }
        let (device_id, samples) = fullest(&readings, gpu.as_ref().ok());
        let host = host_memory(&readings, thresholds);
        let summary =
            summed_up(&samples, device_id, gpu.as_ref().ok(), host, &readings, thresholds);
        let name = host::name();
        // The id needs the clock's anchor, which is otherwise set when a run begins.
        clock::anchor();
        let session_id = Id::new().to_string();
        let place = Place {
            session_id: Some(session_id.clone()),
            host: Some(name),
            device_id: Some(device_id),
            ..Place::default()
        };
        Diagnosed {
            findings: summary.findings(&place),
            environment: environment(&summary, &settings.telemetry_capture, gpu),
            summary,
            samples,
            device_id,
            session_id,
            started,
            ended: Timestamp::now(),
            attached: Vec::new(),
        }
    }
}

/// Returns the samples of the GPU with the highest utilisation at its peak, or of the machine if
/// there is no GPU.
fn fullest(readings: &[(f64, Telemetry)], gpu: Option<&GpuInfo>) -> (i64, Vec<Looked>) {
    let names = gpu.into_iter().flat_map(|gpu| &gpu.devices);
    let devices = names.enumerate().filter_map(|(number, (name, device))| {
        let total = device.memory_total.filter(|total| *total > 0)?;
        let samples: Vec<Looked> = readings
            .iter()
            .filter_map(|(seconds, reading)| {
                let value = serde_json::to_value(reading.gpu.as_ref()?).ok()?;
                let used = value.get(name)?.get("used")?.as_u64()?;
                Some(Looked { seconds: *seconds, used: used.min(total), total })
            })
            .collect();
        let most = samples.iter().map(|looked| looked.used).max()?;
        Some((most as f64 / total as f64, number as i64, samples))
    });
    let fullest = devices.max_by(|one, other| one.0.total_cmp(&other.0));
    if let Some((_, number, samples)) = fullest {
        return (number, samples);
    }
    let host = readings.iter().filter_map(|(seconds, reading)| {
        let memory = reading.memory.as_ref()?.r#virtual.as_ref()?;
        let used = memory.total.saturating_sub(memory.available);
        Some(Looked { seconds: *seconds, used, total: memory.total })
    });
    (-1, host.collect())
}

fn host_memory(readings: &[(f64, Telemetry)], thresholds: &Thresholds) -> Option<HostMemory> {
    let all: Vec<_> = readings.iter().filter_map(|(_, reading)| reading.memory.as_ref()).collect();
    let available = all.iter().filter_map(|memory| memory.r#virtual.as_ref());
    let least = available.min_by_key(|memory| memory.available)?;
    let swaps: Vec<_> = all.iter().filter_map(|memory| memory.swap.as_ref()).collect();
    let (first, last) = (swaps.first(), swaps.last());
    let grown = |of: fn(&runlore_telemetry::Swap) -> Option<u64>| {
        let (first, last) = (first.and_then(|it| of(it)), last.and_then(|it| of(it)));
        last.zip(first).map_or(0, |(last, first)| last.saturating_sub(first))
    };
    let container = readings.iter().rev().find_map(|(_, reading)| reading.container.as_ref());
    let bounded = container.filter(|it| it.memory.limit_is_host != Some(true));
    Some(HostMemory {
        total_bytes: least.total,
        available_bytes: least.available,
        swap_total_bytes: last.map_or(0, |swap| swap.total),
        swap_used_bytes: last.map_or(0, |swap| swap.used),
        swapped_in_bytes: grown(|swap| swap.sin),
        swapped_out_bytes: grown(|swap| swap.sout),
        pressure_percent: memory_now(true, f64::INFINITY).pressure,
        container_limit_bytes: bounded.and_then(|it| it.memory.max),
        container_used_bytes: bounded.and_then(|it| it.memory.current),
        available_ratio_threshold: Some(thresholds.available_ratio),
        pressure_ratio_threshold: Some(thresholds.pressure_ratio),
    })
}

fn summed_up(
    samples: &[Looked],
    device_id: i64,
    gpu: Option<&GpuInfo>,
    host: Option<HostMemory>,
    readings: &[(f64, Telemetry)],
    thresholds: &Thresholds,
) -> DiagnosticSummary {
    let last = samples.last().copied().unwrap_or(Looked { seconds: 0.0, used: 0, total: 0 });
    let peak = samples.iter().map(|looked| looked.used).max().unwrap_or(0);
    let ratio = |bytes: u64| if last.total > 0 { bytes as f64 / last.total as f64 } else { 0.0 };
    let kills =
        readings.iter().rev().find_map(|(_, reading)| reading.container.as_ref()?.memory.oom_kills);
    let num_ooms = kills.unwrap_or(0);
    // A container's usage includes cache that the kernel reclaims at once. It is a risk only
    // together with pressure or past kills.
    let is_full = |host: &HostMemory| {
        let used = host.container_used_bytes.zip(host.container_limit_bytes);
        let full = |limit: u64| limit as f64 * thresholds.container_ratio;
        let is_near = used.is_some_and(|(used, limit)| used as f64 >= full(limit));
        is_near && (num_ooms > 0 || host.pressure_percent.is_some_and(|percent| percent > 1.0))
    };
    let risk_flags = RiskFlags {
        oom_occurred: num_ooms > 0,
        high_utilization: ratio(peak) >= thresholds.utilization_ratio,
        fragmentation_warning: false,
        memory_pressure: host.as_ref().is_some_and(|host| host.is_low() || host.is_waiting()),
        swapping: host.as_ref().is_some_and(|host| {
            host.swapped_in_bytes + host.swapped_out_bytes >= thresholds.min_bytes
        }),
        container_limit: host.as_ref().is_some_and(is_full),
    };
    let backend = match gpu.filter(|_| device_id >= 0).map(|gpu| &*gpu.vendor) {
        Some("nvidia") => "cuda",
        Some("amd") => "rocm",
        _ => "cpu",
    };
    let mut summary = DiagnosticSummary {
        backend: backend.to_owned(),
        allocated_bytes: last.used,
        reserved_bytes: last.used,
        peak_bytes: peak,
        total_bytes: last.total,
        utilization_ratio: ratio(last.used),
        num_ooms,
        risk_flags,
        host,
        ..DiagnosticSummary::default()
    };
    let advice = summary.findings(&Place::default());
    summary.suggestions = advice.into_iter().flat_map(|finding| finding.to_try).collect();
    summary.suggestions.dedup();
    summary
}

fn environment(
    summary: &DiagnosticSummary,
    settings: &TelemetrySettings,
    gpu: std::result::Result<GpuInfo, String>,
) -> Value {
    let machine = MachineInfo::capture(settings);
    let host = summary.host.clone().unwrap_or_default();
    let used = host.total_bytes.saturating_sub(host.available_bytes);
    let percent = used as f64 / host.total_bytes.max(1) as f64 * 100.0;
    json!({
        "system": {
            "platform": machine.platform.system,
            "architecture": machine.platform.machine,
            "runlore_version": env!("CARGO_PKG_VERSION"),
            "detected_backend": summary.backend,
            "cpu_count": machine.cpu.cores.or(machine.cpu.count),
            "cpu_count_logical": machine.cpu.count,
            "memory_total": host.total_bytes,
            "memory_available": host.available_bytes,
            "memory_percent": (percent * 10.0).round() / 10.0,
        },
        "gpu": match gpu {
            Ok(gpu) => json!(gpu),
            Err(reason) => json!({"error": reason}),
        },
        "fragmentation": {"error": "only a program itself can tell what its allocator does"},
        "machine": machine,
    })
}

impl Diagnosed {
    /// Whether there is a risk.
    pub fn is_risk(&self) -> bool {
        self.summary.risk_flags.any()
    }

    /// Returns the exit code for a program that runs the diagnosis: 2 if there is a risk, else 0.
    pub fn exit_code(&self) -> u8 {
        if self.is_risk() { 2 } else { 0 }
    }

    /// Returns the samples as timelines, as if read from a file of events.
    pub fn timelines(&self) -> Timelines {
        let event = |looked: &Looked| TelemetryEvent {
            timestamp_ns: (looked.seconds * 1e9) as u64,
            session_id: self.session_id.as_str().into(),
            host: host::name().into(),
            device_id: self.device_id,
            device_used_bytes: Some(looked.used),
            device_total_bytes: Some(looked.total),
            ..TelemetryEvent::default()
        };
        self.samples.iter().map(event).collect()
    }

    /// Adds a file to the bundle. `name` is a plain file name. With the feature `report`, `to_html`
    /// creates a report for people.
    pub fn attach(&mut self, name: &str, content: impl Into<String>) {
        self.attached.push((name.to_owned(), content.into()));
    }

    /// Returns the machine and its devices, as in the bundle's `environment.json`.
    pub fn environment(&self) -> &Value {
        &self.environment
    }

    /// Returns the name of the machine.
    pub fn host(&self) -> String {
        host::name()
    }

    /// Writes the bundle and returns its path. If the folder already exists, the bundle becomes a
    /// new folder inside it. The bundle is written completely or not at all. Secrets in the command
    /// line are redacted.
    ///
    /// # Errors
    ///
    /// If the bundle cannot be written, or the folder is a bundle itself: readers would not look
    /// for another one inside.
    pub fn write<S: AsRef<str>>(
        &self,
        folder: &Path,
        command_line: impl IntoIterator<Item = S>,
    ) -> Result<PathBuf> {
        let failed = |path: &Path, error: &io::Error| {
            Error::new(ErrorKind::Store, format!("cannot write {}: {error}", path.display()))
        };
        Self::can_hold_a_bundle(folder)?;
        let aside = aside(folder).map_err(|error| failed(folder, &error))?;
        let placed = self
            .write_files(&aside, command_line)
            .and_then(|()| self.place(&aside, folder).map_err(|error| failed(folder, &error)));
        if placed.is_err() {
            // An incomplete folder would be mistaken for a bundle.
            _ = fs::remove_dir_all(&aside);
        }
        placed
    }

    /// Checks that a bundle can be written to a folder. Call it before a diagnosis, which takes its
    /// time.
    ///
    /// # Errors
    ///
    /// If the folder is already a bundle.
    pub fn can_hold_a_bundle(folder: &Path) -> Result<()> {
        let parts = ["telemetry_timeline.json", "diagnostic_summary.json"];
        if !parts.iter().any(|name| folder.join(name).exists()) {
            return Ok(());
        }
        let what = format!(
            "{} is a bundle already; name another folder, or remove it first",
            folder.display()
        );
        Err(Error::new(ErrorKind::Store, what))
    }

    fn write_files<S: AsRef<str>>(
        &self,
        folder: &Path,
        command_line: impl IntoIterator<Item = S>,
    ) -> Result<()> {
        let arguments: Vec<String> =
            command_line.into_iter().map(|it| it.as_ref().to_owned()).collect();
        let hidden: Vec<String> = scrub_arguments(&arguments).collect();
        let column = |of: fn(&Looked) -> Value| self.samples.iter().map(of).collect::<Vec<Value>>();
        let timeline = json!({
            "timestamps": column(|looked| json!(looked.seconds)),
            "allocated": column(|looked| json!(looked.used)),
            "reserved": column(|looked| json!(looked.used)),
            "device_used": column(|looked| json!(looked.used)),
            "device_total": column(|looked| json!(looked.total)),
            "device_id": self.device_id,
        });
        // The manifest is last, so a bundle with a manifest is complete.
        let files = [
            ("environment.json", self.environment.clone()),
            ("telemetry_timeline.json", timeline),
            ("diagnostic_summary.json", json!(self.summary)),
            ("findings.json", json!(self.findings)),
        ];
        let mut names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        names.extend(self.attached.iter().map(|(name, _)| &**name));
        names.push("manifest.json");
        let manifest = self.manifest(&names, &hidden.join(" "));
        let json = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        let write = |name: &str, text: &str| {
            write_file(folder.join(name), text.as_bytes()).map_err(|error| {
                Error::new(ErrorKind::Store, format!("cannot write {name} of the bundle: {error}"))
            })
        };
        for (name, value) in &files {
            write(name, &json(value))?;
        }
        for (name, text) in &self.attached {
            write(name, text)?;
        }
        write("manifest.json", &json(&manifest))
    }

    /// Moves the temporary folder to its destination, under a name that does not exist yet.
    fn place(&self, aside: &Path, wanted: &Path) -> io::Result<PathBuf> {
        if !wanted.exists() {
            fs::rename(aside, wanted)?;
            return Ok(wanted.to_owned());
        }
        let stamp = self.started.strftime("%Y%m%d-%H%M%S");
        for number in 0_u32.. {
            let name = match number {
                0 => format!("runlore-diagnose-{stamp}"),
                number => format!("runlore-diagnose-{stamp}-{number}"),
            };
            let folder = wanted.join(name);
            if !folder.exists() {
                return fs::rename(aside, &folder).map(|()| folder);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn manifest(&self, files: &[&str], command_line: &str) -> Value {
        let nanos = |at: Timestamp| i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
        json!({
            "schema_version": 2,
            "version": 2,
            "created_iso": self.ended.to_string(),
            "command_line": command_line,
            "native_history_enabled": false,
            "files": files,
            "exit_code": self.exit_code(),
            "risk_detected": self.is_risk(),
            "session_id": self.session_id,
            "session_status": "completed",
            "session": {
                "session_id": self.session_id,
                "status": "completed",
                "started_at_ns": nanos(self.started),
                "ended_at_ns": nanos(self.ended),
                "host": host::name(),
                "pid": std::process::id(),
                "job_id": null,
                "rank": 0,
                "local_rank": 0,
                "world_size": 1,
                "source": "runlore events diagnose",
            },
        })
    }
}

/// Creates a temporary folder beside the destination, or inside it if it exists. It must be on the
/// same file system to be renamed.
fn aside(wanted: &Path) -> io::Result<PathBuf> {
    let within = match wanted.parent().filter(|_| !wanted.exists()) {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => {
            create_folders(parent)?;
            parent
        }
        None => wanted,
    };
    let folder = within.join(format!(".runlore-diagnose-{}.part", Id::new()));
    create_folder(&folder)?;
    Ok(folder)
}
