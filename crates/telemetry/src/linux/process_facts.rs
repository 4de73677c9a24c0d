//! Facts that stay the same while a process runs: executable, command line, and whether the kernel
//! counts its I/O waits.

use std::fs;
use std::path::Path;

use super::Host;
use crate::command;
use crate::snapshot::{Code, List, Maybe, Text};

#[derive(Debug)]
pub(super) struct ProcessFacts {
    /// The executable and the command line, encoded as in a snapshot.
    pub(super) encoded: Vec<u8>,
    /// Whether these two could be read.
    pub(super) has_executable: bool,
    pub(super) has_cmd_line: bool,
    /// Whether the kernel counts how long the process waits for disks (`kernel.task_delayacct`). If
    /// that was off when the process started, its count stays 0.
    pub(super) waits_are_counted: bool,
}

impl Host {
    #[inline]
    pub(super) fn facts(&self) -> &ProcessFacts {
        self.facts.get_or_init(|| ProcessFacts::read(&self.root))
    }
}

impl ProcessFacts {
    fn read(root: &Path) -> Self {
        let executable = fs::read_link(root.join("proc/self/exe")).ok();
        let executable = executable.map(|path| path.to_string_lossy().into_owned());
        let cmd_line = fs::read(root.join("proc/self/cmdline")).ok().map(|line| {
            let line = line.strip_suffix(b"\0").unwrap_or(&line);
            command::arguments(line.split(|byte| *byte == 0))
        });
        let mut encoded = Vec::new();
        Maybe::<Text>::put(&executable, &mut encoded);
        Maybe::<List<Text>>::put(&cmd_line, &mut encoded);
        let setting = fs::read(root.join("proc/sys/kernel/task_delayacct")).unwrap_or_default();
        Self {
            encoded,
            has_executable: executable.is_some(),
            has_cmd_line: cmd_line.is_some(),
            waits_are_counted: setting.trim_ascii() != b"0",
        }
    }
}
