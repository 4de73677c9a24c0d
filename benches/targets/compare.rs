//! Runs every contender in processes of its own, in turn, and collects what they found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::measure::{Report, median};
use crate::row::{ROUNDS, Row, Value};

/// Says to a process which contender it is.
pub(crate) const CONTENDER: &str = "--contender";

/// The folder that Cargo gives benches for their files.
pub(crate) fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// What all processes found: a number a round, by row, contender and case.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) quick: bool,
    pub(crate) found: BTreeMap<(u8, String, String), Vec<f64>>,
    /// Contenders that did not get through, and their last words.
    pub(crate) problems: Vec<String>,
}

impl Measured {
    /// A value in each round.
    pub(crate) fn rounds(&self, row: u8, value: Value) -> Vec<f64> {
        let of = |(contender, case): (&str, &str)| {
            let key = (row, contender.to_owned(), case.to_owned());
            self.found.get(&key).map(Vec::as_slice).unwrap_or_default()
        };
        let minus =
            |round: usize| value.minus.map_or(Some(0.0), |minus| of(minus).get(round).copied());
        let rounds = of(value.of).iter().enumerate();
        rounds.filter_map(|(at, number)| Some((number - minus(at)?) / value.per)).collect()
    }

    /// A value's median over the rounds.
    pub(crate) fn value(&self, row: u8, value: Value) -> Option<f64> {
        let mut rounds = self.rounds(row, value);
        (!rounds.is_empty()).then(|| median(&mut rounds))
    }
}

/// Measures the rows, round by round.
pub(crate) fn measure(rows: &[&Row], quick: bool) -> Measured {
    let mut measured = Measured { quick, ..Measured::default() };
    let rounds = if quick { 2 } else { ROUNDS };
    for round in 0..rounds {
        for row in rows.iter().filter(|row| round < row.rounds) {
            eprintln!("round {} of {rounds}, row {}", round + 1, row.number);
            // Each round begins with another contender, so that none always comes after the same one.
            let order = (0..row.contenders.len()).map(|at| (at + round) % row.contenders.len());
            for contender in order.map(|at| &row.contenders[at]) {
                match run_patiently(row, contender.name) {
                    Ok(cases) => {
                        for (case, value) in cases {
                            let key = (row.number, contender.name.to_owned(), case);
                            measured.found.entry(key).or_default().push(value);
                        }
                    }
                    Err(error) => {
                        eprintln!("  {error}");
                        measured.problems.push(error);
                    }
                }
            }
        }
    }
    measured
}

/// This program again, as one contender.
pub(crate) fn command(row: &Row, contender: &str) -> std::io::Result<Vec<String>> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(vec![program, CONTENDER.to_owned(), format!("{}/{contender}", row.number)])
}

/// A machine that is busy with something else for a while makes queues overflow; such a process is run again.
fn run_patiently(row: &Row, contender: &str) -> Result<Vec<(String, f64)>, String> {
    let again = |_| run_process(row, contender);
    run_process(row, contender).or_else(again).or_else(again)
}

fn run_process(row: &Row, contender: &str) -> Result<Vec<(String, f64)>, String> {
    let failed = |what: &str| format!("{contender} of row {}: {what}", row.number);
    let folder = Folder::new().map_err(|error| failed(&error.to_string()))?;
    let command = command(row, contender).map_err(|error| failed(&error.to_string()))?;
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).current_dir(&folder.0).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        // Settings of the user must not decide what is measured.
        if name.to_string_lossy().starts_with("RUNLORE_") {
            process.env_remove(name);
        }
    }
    process.env("HOME", &folder.0).env_remove("XDG_CONFIG_HOME");
    let output = process.output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(Report::from_lines(&String::from_utf8_lossy(&output.stdout)).collect())
}

/// An empty folder, removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let folder = scratch().join(format!("bench-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// In a contender's process: measures it, and tells on standard output.
#[expect(clippy::print_stdout, reason = "standard output is where the other process listens")]
pub(crate) fn run_contender(row: &Row, name: &str) -> ExitCode {
    let Some(contender) = row.contenders.iter().find(|contender| contender.name == name) else {
        eprintln!("row {} has no contender `{name}`", row.number);
        return ExitCode::FAILURE;
    };
    let mut report = Report::default();
    (contender.run)(&mut report);
    print!("{}", report.to_lines());
    ExitCode::SUCCESS
}
