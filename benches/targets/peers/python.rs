//! Contenders that are Python packages: a virtual environment under the target folder, made on first use.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::compare::scratch;
use crate::measure::Report;

/// Runs a script that prints cases as [`Report::to_lines`] does. Where there is no Python, nothing is reported, and the
/// table says that the line was skipped.
pub(crate) fn report(package: &str, script: &str, arguments: &[&str], report: &mut Report) {
    let Some(python) = python_with(package) else {
        eprintln!("there is no Python 3.11 or newer that can install {package}");
        return;
    };
    let script =
        [env!("CARGO_MANIFEST_DIR"), "targets", "peers", script].iter().collect::<PathBuf>();
    let output = Command::new(python)
        .arg(script)
        .args(arguments)
        .env("FLOWCEPT_USE_DEFAULT", "false")
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{package}: {said}");
    for (case, value) in Report::from_lines(&String::from_utf8_lossy(&output.stdout)) {
        report.add(&case, value);
    }
}

fn python_with(package: &str) -> Option<PathBuf> {
    let name = package.replace("==", "-").replace(['[', ']'], "-");
    // The tests have environments of such names in the same folder, with other packages.
    let home = scratch().join(format!("python-{name}"));
    let python = home.join("bin/python");
    let is_ready = home.join("is-ready");
    if !is_ready.exists() {
        let new_enough = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
        let runs =
            |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let system = ["python3", "python3.13", "python3.12", "python3.11", "python"]
            .into_iter()
            .find(|name| runs(Command::new(name).args(["-c", new_enough])))?;
        if !runs(Command::new(system).args(["-m", "venv", "--clear"]).arg(&home))
            || !runs(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))
        {
            return None;
        }
        fs::write(is_ready, package).ok()?;
    }
    Some(python)
}
