//! Runs the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program, in a fixed environment.
pub(crate) fn runlore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runlore"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUNLORE_STORE", "RUNLORE_CONTEXT"] {
        command.env_remove(name);
    }
    command.env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// The folder of records that the tests look at.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Runs the program on the test data and tells everything it said, and its exit code.
pub(crate) fn told<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    told_by(runlore().arg("--store").arg(data()).args(args))
}

pub(crate) fn told_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    let problems = String::from_utf8(output.stderr).unwrap();
    if !problems.is_empty() {
        text += &format!("--- stderr\n{problems}");
    }
    match output.status.code() {
        Some(0) => {}
        code => text += &format!("--- exit code {code:?}\n"),
    }
    text.replace(&data().display().to_string(), "DATA")
}
