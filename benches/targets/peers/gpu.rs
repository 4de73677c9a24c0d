//! AMD's library, as the stub in `tests/stub-amdsmi` plays it.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use runlore::settings::Search;
use runlore::telemetry::TelemetryCapture;

/// Builds the stub into the working directory and lets this process find it.
pub(crate) fn install_stub() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let this = std::env::current_exe().expect("this program");
    let target = this.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = target.expect("Cargo's folder").join("stubs");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "stub-amdsmi"]).current_dir(root);
    assert!(cargo.arg("--target-dir").arg(&target).status().expect("Cargo").success());
    fs::copy(target.join("debug/libstub_amdsmi.so"), "libamd_smi.so").expect("the stub");
    let here = std::env::current_dir().expect("the working directory");
    // SAFETY: there is no other thread yet.
    unsafe {
        std::env::set_var("AMDSMI_LIB_DIR", &here);
        std::env::set_var("RUNLORE_STUB", &here);
    }
}

/// The usual metrics; a reading younger than this is shared.
pub(crate) fn capture(max_age: &str) -> TelemetryCapture {
    let text = format!(
        "telemetry_capture: {{gpu: [used, activity, power, temperature, id], gpu_vendor: amd, max_age: {max_age}}}"
    );
    let settings = Search::nowhere().text("settings.yaml", &text).load().settings;
    let capture = TelemetryCapture::configured(&settings.telemetry_capture);
    let began = Instant::now();
    while capture.capture().gpu.is_none() {
        assert!(began.elapsed() < Duration::from_secs(10), "the stub does not answer");
    }
    capture
}

/// From now on the driver does not answer.
pub(crate) fn hang() {
    fs::write("hang", "").expect("a file");
}

pub(crate) fn go_on() {
    fs::remove_file("hang").expect("the file");
}
