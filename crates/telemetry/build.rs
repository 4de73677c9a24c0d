//! Tells the library what built it, for `machine::Build`: a compiler does not tell the code that it compiles.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var_os("RUSTC").and_then(|rustc| {
        let output = Command::new(rustc).arg("--version").output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).ok())?
    });
    let facts = [
        ("RUSTC", version),
        ("TARGET", env::var("TARGET").ok()),
        ("PROFILE", env::var("PROFILE").ok()),
        ("OPT_LEVEL", env::var("OPT_LEVEL").ok()),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            println!("cargo:rustc-env=RUNLORE_BUILT_{name}={}", fact.trim());
        }
    }
}
