//! What is recorded of the machine is what others see of it, without its secrets.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use runlore::settings::Search;
use runlore::telemetry::{MachineInfo, TelemetryCapture, TelemetryType, Types};
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
];

#[test]
#[cfg(target_os = "linux")]
fn the_keys_are_flowcepts() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept/workflow.jsonl");
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

#[test]
fn the_process_has_the_structure_of_a_capture() {
    let settings = Search::nowhere().load().settings.telemetry_capture;
    let capture = TelemetryCapture::new(Types::from([TelemetryType::ProcessInfo])).capture();
    let captured = serde_json::to_value(capture.process.unwrap()).unwrap();
    let info = MachineInfo::capture(&settings);
    let ours = serde_json::to_value(&info.process).unwrap();
    let same_shape = |one: &Value, other: &Value| match (one, other) {
        (Value::Object(one), Value::Object(other)) => one.keys().eq(other.keys()),
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    };
    for (field, value) in captured.as_object().unwrap() {
        match ours.get(field) {
            Some(ours) => assert!(same_shape(ours, value), "{field}: {ours} is unlike {value}"),
            None => assert!(info.unavailable.contains_key(&format!("process.{field}")), "{field}"),
        }
    }
    assert_eq!(ours["pid"], captured["pid"]);
    assert!(ours["memory"]["rss"].as_u64() > Some(0), "{ours}");
}

fn check_keys(path: &str, theirs: &Value, ours: &Value, info: &MachineInfo) {
    // Interfaces have their own names; there may be none.
    if path == "network" {
        let first = |value: &Value| value.as_object()?.values().next()?.get(0).cloned();
        let Some(ours) = first(ours) else { return };
        return check_keys("network.*", &first(theirs).unwrap(), &ours, info);
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

/// Keys of py-cpuinfo that are not compared, and why.
const CPU_EXCEPTIONS: &[(&str, &str)] = &[
    ("python_version", "of Python"),
    ("cpuinfo_version", "of Python"),
    ("cpuinfo_version_string", "of Python"),
    ("affinity", "added by our script"),
    ("hardware_raw", "of some ARM boards"),
    ("processor_type", "0 on every processor since the Pentium"),
    ("hz_actual", "the clock changes"),
    ("hz_actual_friendly", "the clock changes"),
    ("hz_advertised", "where the brand names no clock, the current clock is taken"),
    ("hz_advertised_friendly", "where the brand names no clock, the current clock is taken"),
    ("l2_cache_line_size", "it reports the size in KiB instead"),
    ("l2_cache_associativity", "it reports the number that encodes the associativity"),
    ("l3_cache_size", "it takes `cache size` of /proc/cpuinfo, which is of another level"),
];

/// What py-cpuinfo and we say differently of the same processors.
fn cpu_differences(all: &Value, info: &MachineInfo) -> Vec<String> {
    let ours = serde_json::to_value(&info.cpu).unwrap();
    let is_x86 = info.cpu.arch.as_deref().is_some_and(|arch| arch.starts_with("X86"));
    let mut found = Vec::new();
    for (key, theirs) in all.as_object().unwrap() {
        if CPU_EXCEPTIONS.iter().any(|(name, _)| name == key) {
            continue;
        }
        let Some(ours) = ours.get(key) else {
            if !info.unavailable.contains_key(&format!("cpu.{key}")) {
                found.push(format!("{key} is missing"));
            }
            continue;
        };
        let agrees = match key.as_str() {
            // Some C libraries count those of the affinity only.
            "count" => theirs == ours || Some(theirs) == all.get("affinity"),
            // Elsewhere `lscpu` names products from a table of its own.
            "vendor_id_raw" | "brand_raw" => theirs == ours || !is_x86,
            // It adds names of its own; ours are the kernel's, all of which it has.
            "flags" => names(ours).is_subset(&names(theirs)),
            "l1_data_cache_size" => is_cache_size(theirs, ours, info, (1, "data")),
            "l1_instruction_cache_size" => is_cache_size(theirs, ours, info, (1, "instruction")),
            "l2_cache_size" => is_cache_size(theirs, ours, info, (2, "unified")),
            _ => theirs == ours,
        };
        if !agrees {
            found.push(format!("{key}: py-cpuinfo says {theirs}, we say {ours}"));
        }
    }
    found
}

fn names(flags: &Value) -> BTreeSet<&str> {
    flags.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether py-cpuinfo's size is that of all caches of a kind, or that of one: which, depends on the version of `lscpu`.
fn is_cache_size(theirs: &Value, ours: &Value, info: &MachineInfo, kind: (u8, &str)) -> bool {
    let Some(theirs) = byte_range(theirs) else { return false };
    let one = info.caches.iter().filter(|cache| (cache.level, &*cache.kind) == kind);
    let mut sizes = one.filter_map(|cache| cache.size).chain(ours.as_u64());
    sizes.any(|size| theirs.contains(&(size as f64)))
}

/// The sizes that `65536` or `2.5 MiB` may stand for. py-cpuinfo passes a size with a fraction on as `lscpu` prints it,
/// rounded to the last digit shown.
fn byte_range(size: &Value) -> Option<RangeInclusive<f64>> {
    if let Some(bytes) = size.as_f64() {
        return Some(bytes..=bytes);
    }
    let (number, unit) = size.as_str()?.split_once(' ')?;
    let unit = f64::from(match unit {
        "B" => 1_u32,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    });
    let digits = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let half = 0.5 / 10_f64.powi(i32::try_from(digits).ok()?);
    let number: f64 = number.parse().ok()?;
    Some((number - half) * unit..=(number + half) * unit)
}

#[test]
fn sizes_with_a_fraction_are_understood() {
    // A Xeon with two cores of 1.25 MiB, and what py-cpuinfo says of it.
    let info: MachineInfo = serde_json::from_value(json!({
        "cpu": {"arch": "X86_64", "count": 2, "l2_cache_size": 2_621_440, "l1_data_cache_size": 98_304},
        "caches": [
            {"level": 1, "kind": "data", "size": 49_152, "instances": 2},
            {"level": 2, "kind": "unified", "size": 1_310_720, "instances": 2},
        ],
    }))
    .unwrap();
    let theirs = |l2: Value| json!({"arch": "X86_64", "count": 2, "l2_cache_size": l2, "l1_data_cache_size": 98_304});
    for l2 in
        [json!("2.5 MiB"), json!("1.3 MiB"), json!("1.25 MiB"), json!(2_621_440), json!(1_310_720)]
    {
        assert_eq!(cpu_differences(&theirs(l2.clone()), &info), [""; 0], "{l2}");
    }
    for l2 in [json!("2.4 MiB"), json!("2.5 KiB"), json!("1.1 MiB"), json!("2.5"), json!(2_621_441)]
    {
        assert_eq!(cpu_differences(&theirs(l2.clone()), &info).len(), 1, "{l2}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_processor_is_what_py_cpuinfo_says() {
    let Some(python) = python::with("psutil-7.2.2", PACKAGES) else { return };
    let found = cpu_differences(&ask(&python, "ask_cpuinfo.py"), &capture("[]"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

const PACKAGES: &[&str] = &["psutil==7.2.2", "py-cpuinfo==9.0.0"];

#[cfg(target_os = "linux")]
fn ask(python: &Path, script: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/machine").join(script);
    let mut command = Command::new(python);
    command.arg(script).arg(std::process::id().to_string());
    serde_json::from_str(&python::succeeded("Python", &command.output().unwrap())).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_machine_is_what_psutil_says() {
    let Some(python) = python::with("psutil-7.2.2", PACKAGES) else { return };
    // What changes meanwhile and changes back looks like a difference: addresses, space on disks, a clock that is set.
    let mut last = Vec::new();
    for _ in 0..20 {
        let before = capture("[]");
        let theirs = ask(&python, "ask_psutil.py");
        let after = capture("[]");
        last = differences(&before, &theirs, &after);
        if last.is_empty() {
            return;
        }
    }
    panic!("{}", last.join("\n"));
}

/// What psutil says differently of what did not change between our two readings. How memory is counted is compared on a
/// recorded machine, in a test of the module.
#[cfg(target_os = "linux")]
fn differences(before: &MachineInfo, theirs: &Value, after: &MachineInfo) -> Vec<String> {
    let [ours, later] = [before, after].map(|info| serde_json::to_value(info).unwrap());
    let mut found = Vec::new();
    let mut equal = |path: &str, theirs: &Value, ours: &Value, later: &Value| {
        if ours == later && theirs != ours {
            found.push(format!("{path}: psutil says {theirs}, we say {ours}"));
        }
    };
    for path in [
        "/platform/system",
        "/platform/node",
        "/platform/release",
        "/platform/version",
        "/platform/machine",
        "/process/pid",
        "/process/executable",
        "/process/cmd_line",
        "/process/cwd",
        "/process/user_id",
        "/hostname",
        "/memory/virtual/total",
        "/memory/swap/total",
        "/disk/total",
        "/disk/used",
        "/disk/free",
        "/disk/percent",
    ] {
        let at = |value: &Value| value.pointer(path).cloned().unwrap_or_else(|| panic!("{path}"));
        equal(path, &at(theirs), &at(&ours), &at(&later));
    }
    let network = [theirs, &ours, &later].map(|value| unpadded(&value["network"]));
    equal("network", &network[0], &network[1], &network[2]);
    let cores = |info: &MachineInfo| json!(info.cpu.cores);
    equal("cores", &theirs["cores"], &cores(before), &cores(after));

    // The user is named by the environment or by the system; they may differ.
    let names = theirs["login_names"].as_array().unwrap();
    if !names.contains(&ours["login_name"]) {
        found.push(format!("login_name: {names:?} {}", ours["login_name"]));
    }
    // A quota may leave less than the affinity.
    if before.cpu.usable.unwrap() > theirs["affinity"].as_u64().unwrap() {
        found.push(format!("usable: {} {:?}", theirs["affinity"], before.cpu.usable));
    }
    // The system tells when it was started to the second.
    for (path, theirs, ours) in [
        ("started_at", &theirs["process"]["started_at"], before.process.started_at),
        ("booted_at", &theirs["booted_at"], before.kernel.booted_at),
    ] {
        let (theirs, ours) = (theirs.as_f64().unwrap(), ours.unwrap());
        if (theirs - ours).abs() > 1.5 {
            found.push(format!("{path}: psutil says {theirs}, we say {ours}"));
        }
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
