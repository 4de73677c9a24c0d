//! What is recorded of the machine is what others see of it, without its secrets.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use runlore::settings::Search;
use runlore::telemetry::MachineInfo;
use serde_json::{Value, json};

use crate::{python, support};

fn capture(environment: &str) -> MachineInfo {
    let text = format!("telemetry_capture:\n  environment: {environment}\n");
    let settings = Search::nowhere().text("settings.yaml", &text).load().settings;
    MachineInfo::capture(&settings.telemetry_capture)
}

#[test]
fn planted_secrets_are_nowhere() {
    const TEST: &str = "machine_info::planted_secrets_are_nowhere";
    if support::is_child(TEST) {
        let info = serde_json::to_string(&capture("[\"MY_*\"]")).unwrap();
        return std::fs::write(std::env::var("RUNLORE_TEST_FILE").unwrap(), info).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.json");
    let mut child = support::child(TEST);
    child.env("RUNLORE_TEST_FILE", &file);
    child.env("MY_API_TOKEN", "hunter1").env("MY_CITY", "Ulm").env("YOUR_CITY", "Oslo");
    child.env("MY_DATABASE", "postgres://ann:hunter2@host/db");
    // What follows the dashes is to the test program a name of a test that it does not have.
    child.args(["--", "--password=hunter3", "--token", "hunter4", "https://ann:hunter5@host/"]);
    support::expect_success(&support::finished_in_time(child));

    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains("hunter") && !text.contains("Oslo"), "{text}");
    let info: MachineInfo = serde_json::from_str(&text).unwrap();
    let environment: Vec<(&str, &str)> =
        info.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        environment,
        [
            ("MY_API_TOKEN", "[redacted]"),
            ("MY_CITY", "Ulm"),
            ("MY_DATABASE", "postgres://ann:[redacted]@host/db"),
        ]
    );
    let arguments = info.process.cmd_line.unwrap();
    assert!(
        arguments.ends_with(
            &["--password=[redacted]", "--token", "[redacted]", "https://ann:[redacted]@host/"]
                .map(str::to_owned)
        ),
        "{arguments:?}"
    );
}

/// What Flowcept stores and we do not, and why.
const NOT_OURS: &[&str] = &[
    // Of Python.
    "cpu.python_version",
    "cpu.cpuinfo_version",
    "cpu.cpuinfo_version_string",
    // Variables are recorded by name only.
    "environment",
    // What the process uses is telemetry, and changes.
    "process.cpu_number",
    "process.memory",
    "process.memory_percent",
    "process.cpu_times",
    "process.cpu_percent",
    "process.num_open_file_descriptors",
    "process.num_connections",
    "process.io_counters",
    "process.num_open_files",
    "process.num_threads",
    "process.num_ctx_switches",
];

#[test]
#[cfg(target_os = "linux")]
fn the_keys_are_flowcepts() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flowcept/workflow.jsonl");
    let text = std::fs::read_to_string(golden).unwrap();
    let ours = capture("[]");
    let value = serde_json::to_value(&ours).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let machines: Vec<Value> = records
        .filter_map(|record| record["machine_info"].as_object()?.values().next().cloned())
        .collect();
    assert!(!machines.is_empty());
    for machine in machines {
        check_keys("", &machine, &value, &ours);
    }
}

fn check_keys(path: &str, theirs: &Value, ours: &Value, info: &MachineInfo) {
    // Interfaces have their own names.
    if path == "network" {
        let first = |value: &Value| value.as_object().unwrap().values().next().unwrap()[0].clone();
        return check_keys("network.*", &first(theirs), &first(ours), info);
    }
    for (key, value) in theirs.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        let path = path.trim_start_matches('.');
        if NOT_OURS.contains(&path) || info.unavailable.contains_key(path) {
            continue;
        }
        let Some(ours) = ours.get(key) else { panic!("{path} is missing") };
        check_keys(path, value, ours, info);
    }
}

/// Where py-cpuinfo says something else, and why.
const CPU_EXCEPTIONS: &[(&str, &str)] = &[
    ("python_version", "of Python"),
    ("cpuinfo_version", "of Python"),
    ("cpuinfo_version_string", "of Python"),
    ("hardware_raw", "of some ARM boards"),
    ("hz_actual", "the clock changes"),
    ("hz_actual_friendly", "the clock changes"),
    ("hz_advertised", "where the brand names no clock, the one of that moment is taken"),
    ("hz_advertised_friendly", "where the brand names no clock, the one of that moment is taken"),
    ("flags", "it adds names of its own; ours are the kernel's, all of which it has"),
    ("l2_cache_line_size", "it takes the size in KiB for it"),
    ("l2_cache_associativity", "it tells the number that the processor encodes it with"),
    ("l3_cache_size", "it takes `cache size` of /proc/cpuinfo, which is of another level"),
    ("l1_data_cache_size", "of one or of all, as the system's `lscpu` has it"),
    ("l1_instruction_cache_size", "of one or of all, as the system's `lscpu` has it"),
    ("l2_cache_size", "of one or of all, as the system's `lscpu` has it"),
];

#[test]
#[cfg(target_os = "linux")]
fn the_processor_is_what_py_cpuinfo_says() {
    let Some(python) = python::with("psutil-7.2.2", PACKAGES) else { return };
    let theirs = ask(&python, "ask_cpuinfo.py");
    let info = capture("[]");
    let ours = serde_json::to_value(&info.cpu).unwrap();
    for (key, theirs) in theirs.as_object().unwrap() {
        let is_exception = CPU_EXCEPTIONS.iter().any(|(name, _)| name == key);
        match ours.get(key) {
            Some(ours) if !is_exception => assert_eq!(ours, theirs, "{key}"),
            None if !is_exception => {
                assert!(info.unavailable.contains_key(&format!("cpu.{key}")), "{key} is missing");
            }
            _ => {}
        }
    }
    let names = |flags: &Value| -> BTreeSet<String> {
        flags.as_array().into_iter().flatten().map(|flag| flag.as_str().unwrap().into()).collect()
    };
    let (ours_only, theirs_too) = (names(&ours["flags"]), names(&theirs["flags"]));
    let only_ours: Vec<_> = ours_only.difference(&theirs_too).collect();
    assert!(only_ours.is_empty(), "{only_ours:?}");
    for (key, level, kind) in [
        ("l1_data_cache_size", 1, "data"),
        ("l1_instruction_cache_size", 1, "instruction"),
        ("l2_cache_size", 2, "unified"),
    ] {
        let of_one = info.caches.iter().find(|cache| (cache.level, &*cache.kind) == (level, kind));
        if let (Some(theirs), Some(ours), Some(one)) = (theirs.get(key), ours.get(key), of_one) {
            assert!(theirs == ours || *theirs == json!(one.size), "{key}: {theirs} {ours}");
        }
    }
}

const PACKAGES: &[&str] = &["psutil==7.2.2", "py-cpuinfo==9.0.0"];

#[cfg(target_os = "linux")]
fn ask(python: &Path, script: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/machine").join(script);
    let mut command = Command::new(python);
    command.arg(script).arg(std::process::id().to_string());
    serde_json::from_str(&python::succeeded("Python", &command.output().unwrap())).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_machine_is_what_psutil_says() {
    let Some(python) = python::with("psutil-7.2.2", PACKAGES) else { return };
    // Memory comes and goes between the readings; on a busy machine several are needed.
    let mut last = String::new();
    for _ in 0..20 {
        let before = capture("[]");
        let theirs = ask(&python, "ask_psutil.py");
        let after = capture("[]");
        match differences(&before, &theirs, &after) {
            found if found.is_empty() => return,
            found => last = found.join("\n"),
        }
    }
    panic!("{last}");
}

/// What psutil says that is neither what we said before nor after, nor between.
#[cfg(target_os = "linux")]
fn differences(before: &MachineInfo, theirs: &Value, after: &MachineInfo) -> Vec<String> {
    /// Python itself needs some.
    const SLACK: f64 = 64.0 * 1024.0 * 1024.0;
    let values = [before, after].map(|info| serde_json::to_value(info).unwrap());
    let mut found = Vec::new();
    let mut equal = |path: &str, theirs: &Value, ours: &Value| {
        if theirs != ours {
            found.push(format!("{path}: psutil says {theirs}, we say {ours}"));
        }
    };
    let ours = &values[0];
    for key in ["system", "node", "release", "version", "machine"] {
        equal(key, &theirs["platform"][key], &ours["platform"][key]);
    }
    for key in ["pid", "executable", "cmd_line", "cwd", "user_id"] {
        equal(key, &theirs["process"][key], &ours["process"][key]);
    }
    equal("hostname", &theirs["hostname"], &ours["hostname"]);
    equal("network", &unpadded(&theirs["network"]), &unpadded(&ours["network"]));
    if let (false, Some(cores)) = (theirs["cores"].is_null(), before.cpu.cores) {
        equal("cores", &theirs["cores"], &json!(cores));
    }

    // The user is named by the environment or by the system; they may differ.
    let names = theirs["login_names"].as_array().unwrap();
    if !names.contains(&ours["login_name"]) {
        found.push(format!("login_name: {names:?} {}", ours["login_name"]));
    }
    // A quota may leave less than the affinity.
    if before.cpu.usable.unwrap() > theirs["affinity"].as_u64().unwrap() {
        found.push(format!("usable: {} {:?}", theirs["affinity"], before.cpu.usable));
    }
    let mut near = |path: &str, slack: f64| {
        let at = |value: &Value| value.pointer(path).and_then(Value::as_f64);
        let (first, second) = (at(&values[0]).unwrap(), at(&values[1]).unwrap());
        let theirs = at(theirs).unwrap();
        if theirs < first.min(second) - slack || theirs > first.max(second) + slack {
            found.push(format!("{path}: psutil says {theirs}, we say {first} and {second}"));
        }
    };
    for key in ["total", "sin", "sout"] {
        near(&format!("/memory/swap/{key}"), 0.0);
    }
    for key in ["used", "free"] {
        near(&format!("/memory/swap/{key}"), SLACK);
        near(&format!("/disk/{key}"), SLACK);
    }
    near("/memory/virtual/total", 0.0);
    for key in
        ["available", "used", "free", "active", "inactive", "buffers", "cached", "shared", "slab"]
    {
        near(&format!("/memory/virtual/{key}"), SLACK);
    }
    near("/disk/total", 0.0);
    for path in ["/memory/virtual/percent", "/memory/swap/percent", "/disk/percent"] {
        near(path, 0.5);
    }
    // The system tells it to the second.
    near("/process/started_at", 1.5);
    let booted_at = theirs["booted_at"].as_f64().unwrap();
    if (booted_at - before.kernel.booted_at.unwrap()).abs() > 1.5 {
        found.push(format!("booted_at: {booted_at} {:?}", before.kernel.booted_at));
    }
    found
}

/// psutil fills short hardware addresses with zeros.
#[cfg(target_os = "linux")]
fn unpadded(network: &Value) -> Value {
    let mut network = network.clone();
    for address in
        network.as_object_mut().unwrap().values_mut().flat_map(|v| v.as_array_mut().unwrap())
    {
        if address["family"] == 17 {
            let text = address["address"].as_str().unwrap();
            address["address"] = text.trim_end_matches(":00").into();
        }
    }
    network
}
