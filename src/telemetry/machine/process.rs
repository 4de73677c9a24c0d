//! The process that records.

use super::facts::{ONLY_LIVE, Reasons, facts};
use super::{kernel, secrets, system};
use crate::telemetry::root::Root;

/// More arguments than people write.
const MOST_ARGUMENTS: usize = 256;

facts! {
    /// The process that records.
    pub struct Process {
        /// Its number.
        pub pid: u32,
        /// The program's file.
        pub executable: String,
        /// The program's arguments, its own name first, secrets hidden.
        pub cmd_line: Vec<String>,
        /// The folder it stands in.
        pub cwd: String,
        /// The number of the user it belongs to.
        pub user_id: u32,
        /// When it was started, in seconds since 1970. The system tells it to the second.
        pub started_at: f64,
    }
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> Process {
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
    let process = Process {
        pid: Some(std::process::id()),
        executable: reasons.unless_ok("process.executable", path(std::env::current_exe())),
        cmd_line: Some(cmd_line).filter(|words| !words.is_empty()),
        cwd: reasons.unless_ok("process.cwd", path(std::env::current_dir())),
        user_id: crate::host::user_id(),
        started_at: started_at(root),
    };
    process.explain("process", reasons, |_| "the system does not tell it");
    process
}

fn started_at(root: &Root) -> Option<f64> {
    let stat = root.read("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may hold anything.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let since_boot = ticks as f64 / system::ticks_per_second()? as f64;
    Some(kernel::booted_at(root)? + since_boot)
}
