//! The recording process. Its fields have the same names as in the `process` part of a capture.

use super::facts::{ONLY_LIVE, Reasons, facts};
use super::{kernel, secrets};
use crate::root::Root;
use crate::system_calls;
use crate::{
    IoCounters, ProcessMemory, ProcessTimes, Switches, TelemetryCapture, TelemetryType, Types,
};
use runlore_core::settings::TelemetrySettings;

/// More arguments than people write by hand.
const MOST_ARGUMENTS: usize = 256;

facts! {
    /// The recording process.
    pub struct Process {
        /// Process ID.
        pub pid: u32,
        /// Path of the executable.
        pub executable: String,
        /// The command line, starting with the program's name, with secrets redacted.
        pub cmd_line: Vec<String>,
        /// Current working directory.
        pub cwd: String,
        /// ID of the user who runs the process.
        pub user_id: u32,
        /// Start time in seconds since 1970, accurate to a second.
        pub started_at: f64,
        /// The CPU that the capturing thread ran on.
        pub cpu_number: u64,
        /// Its memory.
        pub memory: ProcessMemory,
        /// Resident memory, in percent of the machine's memory.
        pub memory_percent: f64,
        /// CPU time of the process.
        pub cpu_times: ProcessTimes,
        /// CPU usage since an earlier capture of this process, in percent of one CPU.
        pub cpu_percent: f64,
        /// Reads and writes of the process.
        pub io_counters: IoCounters,
        /// Open file descriptors, without those that captures keep open.
        pub num_open_file_descriptors: u64,
        /// Open regular files.
        pub num_open_files: u64,
        /// TCP and UDP sockets that have an address.
        pub num_connections: u64,
        /// Threads.
        pub num_threads: u64,
        /// Context switches of its threads.
        pub num_ctx_switches: Switches,
    }
}

pub(super) fn read(root: &Root, settings: &TelemetrySettings, reasons: &mut Reasons) -> Process {
    if !root.is_live() {
        reasons.note("process", ONLY_LIVE);
        return Process::default();
    }
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let cmd_line = secrets::arguments(arguments.by_ref().take(MOST_ARGUMENTS));
    let more = arguments.count();
    if more > 0 {
        reasons.note("process.cmd_line", format!("{more} more arguments are left out"));
    }
    let path = |path: std::io::Result<std::path::PathBuf>| {
        path.map(|path| path.to_string_lossy().into_owned()).map_err(|error| error.to_string())
    };
    let capture = TelemetryCapture::configured(settings);
    let now = capture.with_types(Types::from([TelemetryType::ProcessInfo])).capture();
    let used = now.process.unwrap_or_default();
    let process = Process {
        pid: Some(std::process::id()),
        executable: reasons.unless_ok("process.executable", path(std::env::current_exe())),
        cmd_line: Some(cmd_line).filter(|words| !words.is_empty()),
        cwd: reasons.unless_ok("process.cwd", path(std::env::current_dir())),
        user_id: runlore_core::host::user_id(),
        started_at: started_at(root),
        cpu_number: used.cpu_number,
        memory: used.memory,
        memory_percent: used.memory_percent,
        cpu_times: used.cpu_times,
        cpu_percent: used.cpu_percent,
        io_counters: used.io_counters,
        num_open_file_descriptors: used.num_open_file_descriptors,
        num_open_files: used.num_open_files,
        num_connections: used.num_connections,
        num_threads: used.num_threads,
        num_ctx_switches: used.num_ctx_switches,
    };
    for (field, why) in &now.unavailable {
        // These two are read above, with reasons of their own.
        let is_own = matches!(field, "process.executable" | "process.cmd_line");
        if field.starts_with("process.") && !is_own {
            reasons.note(field, why.as_str());
        }
    }
    process.explain("process", reasons, |_| "the system does not tell it");
    process
}

fn started_at(root: &Root) -> Option<f64> {
    let stat = root.read("/proc/self/stat").ok()?;
    // The program's name is in parentheses and may contain any characters.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let since_boot = ticks as f64 / system_calls::ticks_per_second()? as f64;
    Some(kernel::booted_at(root)? + since_boot)
}
