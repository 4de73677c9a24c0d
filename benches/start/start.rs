//! Runs `cargo bench -p runlore-bench`.
//!
//! The measurements need a dozen peers as dependencies. As a default member of the workspace their package would
//! have every `cargo test` fetch them, and would mix their features into what is tested. This one depends on
//! nothing.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Cargo adds `--bench` to what was said on the command line.
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--bench");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    let status = Command::new(cargo)
        .args(["bench", "--quiet", "--package", "runlore-bench", "--bench", "targets"])
        .arg("--target-dir")
        .arg(target)
        .arg("--")
        .args(args)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
