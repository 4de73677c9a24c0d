//! A process and its descendants as one device, for programs that watch others.

use std::fs;

use super::activity::{Meter, Used};
use super::collector::{About, Collector, Reading};
use super::host_memory::{about, reading_of};
use runlore_telemetry::machine::ticks_per_second;
use runlore_telemetry::memory_now;

/// The resident memory of a process and its descendants. Pages that several of them share count for
/// each.
///
/// ```no_run
/// use runlore::tracker::{ProcessTree, Tracker};
///
/// let child = std::process::Command::new("make").spawn()?;
/// let tracker = Tracker::builder().collector(ProcessTree::of(child.id())).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ProcessTree {
    root: u32,
    includes_root: bool,
    meter: Meter,
}

impl ProcessTree {
    /// Tracks a process and its descendants.
    pub fn of(pid: u32) -> Self {
        Self { root: pid, includes_root: true, meter: Meter::of_machine() }
    }

    /// Tracks all descendants of this process, without the process itself.
    pub fn of_children() -> Self {
        Self { root: std::process::id(), includes_root: false, meter: Meter::of_machine() }
    }

    /// Returns the current processes and the resident memory of each. Processes whose memory is
    /// unknown are left out.
    fn members(&self) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root];
        let all = std::cell::OnceCell::new();
        while let Some(pid) = waiting.pop() {
            if pid != self.root || self.includes_root {
                // A process that has just ended is left out.
                found.extend(resident(pid).map(|rss| (pid, rss)));
            }
            match children(pid) {
                Some(children) => waiting.extend(children),
                None => {
                    let all: &Vec<(u32, u32)> = all.get_or_init(parents);
                    waiting.extend(
                        all.iter().filter(|(_, parent)| *parent == pid).map(|(pid, _)| *pid),
                    );
                }
            }
        }
        found
    }
}

/// Returns the children of all threads of a process. `None` if the kernel does not list them.
fn children(pid: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A kernel without this list lacks it for every thread.
        let text = fs::read_to_string(thread.path().join("children")).ok()?;
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Some(found)
}

/// Returns every process and its parent.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses, and may itself contain parentheses.
        let rest = stat.rsplit_once(')')?.1;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    })
    .collect()
}

fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // A zombie process has no resident memory.
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// Returns the sum of what processes have used. It includes their ended children, so it does not
/// fall when one of them ends.
fn used_by(members: &[(u32, u64)]) -> Used {
    let mut used = Used::default();
    let add = |sum: &mut Option<f64>, more: Option<f64>| {
        if let Some(more) = more {
            *sum = Some(sum.unwrap_or(0.0) + more);
        }
    };
    for (pid, _) in members {
        add(&mut used.cpu_seconds, cpu_seconds(*pid));
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let number = |name: &str| {
            io.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<f64>().ok()
        };
        add(&mut used.read_bytes, number("read_bytes:"));
        add(&mut used.write_bytes, number("write_bytes:"));
    }
    used
}

fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may itself contain parentheses. After it, words 12 to 15 are
    // the user and system time of the process, and those of its ended children.
    let words = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: u64 = words.filter_map(|word| word.parse::<u64>().ok()).sum();
    Some(ticks as f64 / ticks_per_second()? as f64)
}

impl Collector for ProcessTree {
    fn about(&self) -> About {
        about("process tree")
    }

    fn collect(&mut self) -> Result<Reading, String> {
        if cfg!(not(target_os = "linux")) {
            return Err("this system does not tell which processes another has started".to_owned());
        }
        let members = self.members();
        let rss = members.iter().map(|(_, rss)| rss).sum();
        let mut reading = reading_of(&memory_now(true, 0.0), Some(rss), None);
        reading.activity = self.meter.read(|| Some(used_by(&members)));
        if let Some(host) = &mut reading.host {
            host.processes = Some(members.len() as u64);
        }
        Ok(reading)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_of_children_count() {
        let script = "sleep 30 & echo started; wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut told = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut told, &mut line).unwrap();
        let members = ProcessTree::of(shell.id()).members();
        let listed = parents();
        for (pid, _) in &members {
            _ = Command::new("kill").arg(pid.to_string()).status();
        }
        shell.wait().unwrap();
        assert_eq!(members.len(), 2, "{members:?}");
        let used = used_by(&[(std::process::id(), 0)]);
        assert!(used.cpu_seconds.is_some_and(|seconds| seconds < 1e6), "{used:?}");
        assert!(members.iter().all(|(_, rss)| *rss > 0), "{members:?}");
        let sleep = members.iter().find(|(pid, _)| *pid != shell.id()).unwrap().0;
        assert!(listed.contains(&(sleep, shell.id())), "the slow way finds the same");
    }
}
