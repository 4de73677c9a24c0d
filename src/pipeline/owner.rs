//! Identifies a session's owner process, and checks whether it may be alive although its lock is
//! free.
//!
//! A process loses its record lock when any code in it closes a descriptor of the file, and on some
//! shared file systems the lock is only valid on one machine. In these cases the system's process
//! table decides.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A process, distinguished from others that have the same number at another time or elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) pid: u32,
    #[serde(default)]
    pub(super) hostname: String,
    /// Its start time, in clock ticks since the system started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<u64>,
    /// The id of the system's boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    /// The namespace of its process number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<String>,
}

impl Owner {
    /// Returns the calling process.
    pub(super) fn this_process() -> Self {
        Self {
            pid: std::process::id(),
            hostname: runlore_core::host::name(),
            started: system::started("self"),
            boot: system::boot(),
            pid_namespace: system::pid_namespace(),
        }
    }

    /// Returns whether this is the calling process, possibly before it called `exec`.
    pub(super) fn is_this_process(&self) -> bool {
        let this = Self::this_process();
        self.pid == this.pid && self.started.is_some() && self.with_name_of(&this) == this
    }

    /// Returns whether the process is known to be alive and to have this file open. In that case it
    /// has lost its lock on the file. A process that called `exec` no longer has the file open.
    pub(super) fn has_open(&self, file: &Path) -> bool {
        let this = Self::this_process();
        // In another boot or namespace, the number belongs to another process.
        let is_in_sight = self.boot.is_some()
            && self.boot == this.boot
            && self.pid_namespace.is_some()
            && self.pid_namespace == this.pid_namespace;
        is_in_sight
            && self.started.is_some()
            && system::started(&self.pid.to_string()) == self.started
            && system::has_open(self.pid, file)
    }

    /// Returns whether the process ran on another machine.
    pub(super) fn ran_elsewhere(&self) -> bool {
        let this = Self::this_process();
        let is_another_boot = match (&self.boot, &this.boot) {
            (Some(one), Some(other)) => one != other,
            _ => true,
        };
        is_another_boot && !self.hostname.is_empty() && self.hostname != this.hostname
    }

    /// Returns the same process with its machine's current name.
    fn with_name_of(&self, other: &Self) -> Self {
        Self { hostname: other.hostname.clone(), ..self.clone() }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    /// Returns when a process started, given its number or `self`. `None` if it has ended, whether
    /// or not its parent has waited for it.
    pub(super) fn started(process: &str) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The program's name is in parentheses, and may contain anything.
        let (_, after_name) = stat.rsplit_once(") ")?;
        let mut fields = after_name.split(' ');
        let state = fields.next()?;
        let threads: u64 = fields.nth(16)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        // The first thread may end before the others.
        let has_ended = matches!(state, "Z" | "X") && threads <= 1;
        (!has_ended).then_some(started)
    }

    pub(super) fn boot() -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }

    pub(super) fn pid_namespace() -> Option<String> {
        Some(fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
    }

    /// Returns whether a process has a file open. `true` if the system does not permit this check.
    pub(super) fn has_open(pid: u32, file: &Path) -> bool {
        let Ok(wanted) = fs::metadata(file) else { return false };
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
        open.flatten()
            .filter_map(|entry| fs::metadata(entry.path()).ok())
            .any(|facts| (facts.dev(), facts.ino()) == (wanted.dev(), wanted.ino()))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;

    pub(super) fn started(_: &str) -> Option<u64> {
        None
    }

    pub(super) fn boot() -> Option<String> {
        None
    }

    pub(super) fn pid_namespace() -> Option<String> {
        None
    }

    pub(super) fn has_open(_: u32, _: &Path) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_knows_less_of_its_process_can_be_read() {
        let owner: Owner = serde_json::from_str(r#"{"pid":7,"hostname":"a"}"#).unwrap();
        assert_eq!((owner.pid, owner.started, owner.boot), (7, None, None));
    }

    #[test]
    fn another_machine_has_another_name_and_another_boot() {
        let this = Owner::this_process();
        let renamed = Owner { hostname: "another".to_owned(), ..this.clone() };
        let restarted = Owner { boot: Some("another".to_owned()), ..this.clone() };
        let other = Owner { boot: Some("another".to_owned()), ..renamed.clone() };
        let unknown = Owner { boot: None, ..renamed.clone() };
        assert!(!this.ran_elsewhere() && !restarted.ran_elsewhere());
        assert!(other.ran_elsewhere() && unknown.ran_elsewhere());
        assert_eq!(renamed.ran_elsewhere(), this.boot.is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_process_itself_is_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = std::fs::File::create(&path).unwrap();
        let this = Owner::this_process();
        assert!(this.is_this_process() && this.has_open(&path));
        let others = [
            Owner { started: this.started.map(|ticks| ticks + 1), ..this.clone() },
            Owner { started: None, ..this.clone() },
            Owner { boot: Some("another".to_owned()), ..this.clone() },
            Owner { pid_namespace: None, ..this.clone() },
        ];
        for other in others {
            assert!(!other.is_this_process() && !other.has_open(&path), "{other:?}");
        }
        drop(file);
        assert!(!this.has_open(&path));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_is_dead_before_anybody_waited_for_it() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while system::started(&child.id().to_string()).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
