//! Runs the benchmarks of the package in `benches/`.
//!
//! They compare with a dozen other libraries. That package is outside the workspace, so that nobody else fetches or
//! builds those libraries; this target needs none of them.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Cargo adds `--bench` to what was said on the command line.
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--bench");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    let status = Command::new(cargo)
        .args(["bench", "--quiet", "--bench", "targets", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/Cargo.toml"))
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
