//! Pythons with packages of other programs, which the tests compare with.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A Python that has these packages: a virtual environment of this name under the target folder, made on first
/// use. None where there is no Python; then the test says so and passes, except under `CI=true`.
pub(crate) fn with(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let Some(system) = system_python() else {
        let notice = format!("{name}: skipped, for there is no Python 3.11 or newer on PATH");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{notice}");
        eprintln!("{notice}");
        return None;
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = target.join(name);
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let is_ready = home.join("is-ready");

    // Test processes run side by side; one of them makes it, the others wait. The system takes the lock
    // back however a process ends.
    fs::create_dir_all(target).unwrap();
    let lock = File::create(target.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let wanted = packages.join("\n");
    if !fs::read_to_string(&is_ready).is_ok_and(|made| made == wanted) {
        let mut venv = Command::new(system);
        venv.args(["-m", "venv", "--clear"]).arg(&home);
        succeeded("python -m venv", &venv.output().unwrap());
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"]).args(packages);
        succeeded("pip install", &pip.output().unwrap());
        fs::write(&is_ready, wanted).unwrap();
    }
    Some(python)
}

fn system_python() -> Option<&'static str> {
    ["python3", "python3.13", "python3.12", "python3.11", "python"].into_iter().find(|name| {
        let test = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
        Command::new(name).args(["-c", test]).output().is_ok_and(|output| output.status.success())
    })
}

/// Whether `.ci/run` says that nothing an integration depends on has changed since it last passed.
pub(crate) fn is_unchanged(name: &str) -> bool {
    let unchanged = std::env::var("RUNLORE_UNCHANGED").unwrap_or_default();
    let is_unchanged = unchanged.split_whitespace().any(|other| other == name);
    if is_unchanged {
        eprintln!("{name}: skipped, unchanged since it last passed");
    }
    is_unchanged
}

/// What a command said, if it ended well.
pub(crate) fn succeeded(what: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}
