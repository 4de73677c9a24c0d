//! Processes that find vendors' libraries which are not theirs.
//!
//! The libraries are found as the real ones are, through the loader's path and `AMDSMI_LIB_DIR`, so that nothing in the
//! library under test knows of them. Each test runs in a process of its own, which has an environment of its own.

#![cfg_attr(not(all(feature = "nvidia", feature = "amd")), allow(dead_code))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use runlore::settings::Search;
use runlore::telemetry::{Telemetry, TelemetryCapture};
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child};

/// The machine that a test is to find.
#[derive(Default)]
pub(crate) struct Machine {
    /// Vendors whose libraries there are: `nvml` and `amdsmi`.
    pub(crate) libraries: &'static [&'static str],
    /// Whether they are of an older version, which lacks functions.
    pub(crate) old: bool,
    /// What the stubs are told, by files of these names and contents.
    pub(crate) told: &'static [(&'static str, &'static str)],
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

impl Machine {
    pub(crate) fn with(libraries: &'static [&'static str]) -> Self {
        Self { libraries, ..Self::default() }
    }

    pub(crate) fn told(mut self, told: &'static [(&'static str, &'static str)]) -> Self {
        self.told = told;
        self
    }

    pub(crate) fn variables(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    pub(crate) fn old(mut self) -> Self {
        self.old = true;
        self
    }

    /// Runs the rest of a test on such a machine; what it said.
    pub(crate) fn run(&self, test: &str, work: impl FnOnce()) -> Option<Output> {
        if is_child(test) {
            work();
            return None;
        }
        let folder = TempDir::new().unwrap();
        let output = finished_in_time(self.command(test, folder.path()));
        expect_success(&output);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "it is not named {test}: {said}");
        Some(output)
    }

    fn command(&self, test: &str, folder: &Path) -> Command {
        let libraries = folder.join("lib");
        fs::create_dir(&libraries).unwrap();
        for library in self.libraries {
            let name = match *library {
                "nvml" => "libnvidia-ml.so.1",
                _ => "libamd_smi.so",
            };
            let built = built(self.old).join(format!("libstub_{library}.so"));
            fs::copy(&built, libraries.join(name)).unwrap_or_else(|e| panic!("{built:?}: {e}"));
        }
        for (file, text) in self.told {
            fs::write(folder.join(file), text).unwrap();
        }
        let mut command = child(test);
        for name in [
            "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER",
            "NVIDIA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
        ] {
            command.env_remove(name);
        }
        command.env("RUNLORE_STUB", folder);
        command.env("LD_LIBRARY_PATH", &libraries).env("AMDSMI_LIB_DIR", &libraries);
        command.envs(self.variables.iter().copied());
        command
    }
}

/// In such a process: tells the stubs something.
pub(crate) fn tell(what: &str, text: &str) {
    fs::write(file(what), text).unwrap();
}

/// In such a process: takes it back.
pub(crate) fn untell(what: &str) {
    fs::remove_file(file(what)).unwrap();
}

fn file(what: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("RUNLORE_STUB").unwrap()).join(what)
}

/// A capture with these settings of `telemetry_capture`, and nothing else.
pub(crate) fn capture_of(settings: &str) -> TelemetryCapture {
    let text = format!(
        "telemetry_capture: {{cpu: no, mem: no, process_info: no, machine_info: no, {settings}}}"
    );
    let loaded = Search::nowhere().text("settings.yaml", &text).load();
    assert!(loaded.problems().is_empty(), "{:?}", loaded.problems());
    TelemetryCapture::configured(&loaded.settings.telemetry_capture)
}

/// Captures until it is as it must be: on a busy machine a driver may be late, and then the capture says so.
pub(crate) fn until(capture: &TelemetryCapture, is_so: impl Fn(&Telemetry) -> bool) -> Telemetry {
    let began = Instant::now();
    loop {
        let now = capture.capture();
        if is_so(&now) {
            return now;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never came: {now:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where the stubs are, built now if need be.
fn built(old: bool) -> PathBuf {
    static BUILT: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    let build = || {
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap();
        let target = target.join(if old { "stubs-old" } else { "stubs" });
        let root = env!("CARGO_MANIFEST_DIR");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "-p", "stub-nvml", "-p", "stub-amdsmi"]);
        cargo.arg("--manifest-path").arg(Path::new(root).join("../Cargo.toml"));
        cargo.arg("--target-dir").arg(&target);
        if old {
            cargo.args(["--features", "stub-nvml/old,stub-amdsmi/old"]);
        }
        expect_success(&cargo.output().unwrap());
        target.join("debug")
    };
    BUILT[usize::from(old)].get_or_init(build).clone()
}
