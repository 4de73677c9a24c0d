//! `doctor`.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{data, runlore, told_by};

/// The program in a folder of its own, away from the settings of whoever runs the tests.
fn doctor(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = runlore();
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RUNLORE_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.path().join("config"));
    command.arg("doctor").args(args);
    command
}

fn report(command: &mut Command) -> Value {
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

/// Hides what differs from machine to machine and from moment to moment.
fn machine_hidden() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"(?m)^(machine +).*\n .*$", "$1[machine]");
    settings.add_filter(r"[\d.]+ (ns|µs|ms|s)\b", "[time]");
    settings.add_filter(r"[\d.]+ (B|KiB|MiB|GiB|TiB)\b", "[bytes]");
    settings.add_filter(r"[\d.]+ %", "[percent]");
    settings.add_filter("; not optimised: a release build is faster", "");
    settings.add_filter(r"(\S) {3,}", "$1  ");
    settings.bind_to_scope()
}

#[cfg(target_os = "linux")]
#[test]
fn it_tells_what_is_on_what_it_costs_and_every_field() {
    let _settings = machine_hidden();
    let folder = tempfile::tempdir().unwrap();
    let report = report(&mut doctor(&folder, &["mem", "--json"]));
    if report["findings"] != serde_json::json!([]) {
        return eprintln!("not tried: this kernel does not tell all of it: {}", report["findings"]);
    }
    insta::assert_snapshot!(told_by(&mut doctor(&folder, &["mem"])));
}

#[test]
fn it_says_where_a_setting_came_from() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), "telemetry_capture:\n  cpu: no\n  disk: yes\n")
        .unwrap();
    let mut command = doctor(&folder, &["mem"]);
    let told = told_by(command.env("RUNLORE_TELEMETRY_CAPTURE__MACHINE_INFO", "no"));
    let line = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(line("on"), "on         process_info, mem, disk");
    assert!(line("off").starts_with("off        cpu, per_cpu, network"), "{told}");
    assert!(line("off").ends_with(", machine_info"), "{told}");
    assert_eq!(
        line("settings"),
        "settings   cpu by settings.yaml:2, disk by settings.yaml:3, \
         machine_info by $RUNLORE_TELEMETRY_CAPTURE__MACHINE_INFO; defaults for the rest"
    );

    // A file that says what the defaults say changes nothing.
    fs::write(folder.path().join("settings.yaml"), "telemetry_capture:\n  cpu: yes\n").unwrap();
    let told = told_by(&mut doctor(&folder, &["mem"]));
    assert!(told.contains("settings.yaml, with the default telemetry\n"), "{told}");
}

#[test]
fn as_json_it_is_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(&mut doctor(&folder, &["--json"]));
    assert_eq!(report["settings"]["files"], serde_json::json!([]));
    assert_eq!(report["types"]["mem"]["enabled"], true);
    assert_eq!(report["types"]["disk"]["enabled"], false);
    assert!(report["types"]["disk"]["cost_ns"].as_u64() > Some(0), "{report:#}");
    assert!(report["cost_ns"]["all"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["machine_info"]["enabled"], true);
    assert!(report["machine"]["cpu"]["count"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["stores"], serde_json::json!([{"path": "./runlore", "exists": false}]));
    let sensors = report["sensors"].as_array().unwrap();
    let total = sensors.iter().find(|sensor| sensor["field"] == "memory.virtual.total").unwrap();
    assert_eq!((&total["type"], &total["unit"]), (&"mem".into(), &"B".into()));
    assert!(total["value"].as_u64() > Some(1 << 20), "{total:#}");
    for sensor in sensors {
        let has_value = sensor.get("value").is_some();
        let has_reason = sensor["reason"].is_string() && sensor["advice"].is_string();
        assert!(has_value != has_reason, "{sensor:#}");
    }
}

#[test]
fn it_shows_only_the_types_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(&mut doctor(&folder, &["mem", "network", "--json"]));
    let mut types: Vec<&str> = report["sensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sensor| sensor["type"].as_str().unwrap())
        .collect();
    types.dedup();
    assert_eq!(types, ["mem", "network"]);
    insta::assert_snapshot!(told_by(&mut doctor(&folder, &["memory"])), @r#"
    --- stderr
    runlore: unknown type "memory": the types are cpu, per_cpu, process_info, mem, disk, network, gpu, energy
    --- exit code Some(1)
    "#);
}

/// What the portable source has nowhere is told, and nothing is wrong.
#[cfg(target_os = "linux")]
#[test]
fn what_a_source_never_tells_is_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let portable = |args: &[&str]| {
        let mut command = doctor(&folder, args);
        command.env("RUNLORE_TELEMETRY_CAPTURE__BACKEND", "portable");
        command
    };
    let told = told_by(&mut portable(&["mem"]));
    let told: Vec<&str> = told.lines().skip_while(|line| !line.contains("cannot be")).collect();
    insta::assert_snapshot!(told[..4].join("\n"), @r"
    8 of 17 fields cannot be read, no finding:
      memory.virtual.active, memory.virtual.inactive, memory.virtual.buffers and 5 more
        why   sysinfo, the portable source, does not tell it
        to do set telemetry_capture.backend to auto, which reads the kernel's files
    ");
    let report = report(&mut portable(&["cpu", "process_info", "mem", "--json"]));
    assert_eq!(report["findings"], serde_json::json!([]));
    for sensor in report["sensors"].as_array().unwrap() {
        assert!(sensor.get("value").is_some() || sensor["expected"] == true, "{sensor:#}");
    }
}

/// A library that is not where it should be is a finding, if its devices are asked for.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_read_is_a_finding_with_a_reason_and_advice() {
    let folder = tempfile::tempdir().unwrap();
    let amd = |args: &[&str]| {
        let mut command = doctor(&folder, args);
        command.env("RUNLORE_TELEMETRY_CAPTURE__GPU_VENDOR", "amd");
        command.env("AMDSMI_LIB_DIR", "/nowhere");
        command
    };
    let on = |args: &[&str]| {
        let mut command = amd(args);
        command.env("RUNLORE_TELEMETRY_CAPTURE__GPU", "[used]");
        command
    };
    let told = told_by(&mut on(&["gpu"]));
    assert!(told.ends_with("--- exit code Some(2)\n"), "{told}");
    let told: Vec<&str> = told.lines().skip_while(|line| !line.contains("cannot be")).collect();
    insta::assert_snapshot!(told[..4].join("\n"), @r"
    1 of 1 field cannot be read, 1 finding:
      gpu
        why   AMD: libamd_smi.so is not in /nowhere (AMDSMI_LIB_DIR)
        to do install the vendor's driver, or set telemetry_capture.gpu to ~ where there are no such devices
    ");
    let output = on(&["gpu", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"], serde_json::json!(["gpu"]));
    assert_eq!(report["machine"]["unavailable"]["gpu"], report["sensors"][0]["reason"]);
    // Nobody asked for them.
    assert_eq!(amd(&["gpu"]).output().unwrap().status.code(), Some(0));
}

/// What it says of the stores.
fn stores(told: &str) -> String {
    let stores = told.lines().skip_while(|line| !line.starts_with("store"));
    stores.take_while(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_store_is_asked_and_what_is_wrong_with_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let _settings = machine_hidden();
    let path = |name: &str| folder.path().join(name);
    let copied = runlore().arg("copy").arg(data()).arg(path("good.db")).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let good = fs::read(path("good.db")).unwrap();
    let page = usize::from(u16::from_be_bytes([good[16], good[17]]));
    let mut broken = good.clone();
    // The runs can be listed; the last page is of something else.
    broken[good.len() - page..].fill(0xa5);
    fs::write(path("broken.db"), broken).unwrap();
    let mut foreign = good;
    foreign[68..72].fill(7);
    fs::write(path("foreign.db"), foreign).unwrap();
    let mut all = String::new();
    for store in ["good.db", "broken.db", "foreign.db", "sqllite://x", "sqlite:x", "not-yet.db"] {
        let told = told_by(&mut doctor(&folder, &["mem", "--store", store]));
        let is_fine = !told.contains("exit code");
        assert_eq!(is_fine, told.contains("All is well"), "{told}");
        all += &format!("{}{}\n\n", stores(&told), if is_fine { "fine" } else { "a finding" });
    }
    insta::assert_snapshot!(all.replace(folder.path().to_str().unwrap(), "HERE"), @r#"
    store  good.db
               it has 4 runs
    fine

    store  broken.db
               HERE/broken.db is damaged: save what can be saved with `sqlite3 HERE/broken.db .recover`, and record into a new file: database disk image is malformed
    a finding

    store  foreign.db
               HERE/foreign.db is a database of another program: give a file that Runlore made, or a new one
    a finding

    store  sqllite://x
               no store for `sqllite://` that could be read: give a folder, a file, or a URI that begins with one of jsonl://, mongodb://, mongodb+srv://, sqlite://
    a finding

    store  sqlite:x
               `sqlite:x` lacks slashes: write `sqlite://x`
    a finding

    store  not-yet.db (the first run creates it)
    fine
    "#);
}

#[test]
fn all_stores_of_the_settings_are_shown_with_what_waits_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "databases:\n  sqlite:\n    enabled: yes\n";
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    // A database that cannot be made, because a folder has its name.
    fs::create_dir_all(folder.path().join("runlore/runlore.db")).unwrap();
    let told = told_by(runlore().current_dir(&folder).arg("demo"));
    assert!(told.contains("; 9 records wait on disk: "), "{told}");
    fs::remove_dir(folder.path().join("runlore/runlore.db")).unwrap();
    let report = report(&mut doctor(&folder, &["mem", "--json"]));
    let (stores, spools) = (&report["stores"], &report["spools"]);
    let database = serde_json::json!({"path": "sqlite://runlore/runlore.db", "exists": false});
    assert_eq!(stores[0], database);
    assert_eq!((&stores[1]["path"], &stores[1]["runs"]), (&"./runlore".into(), &1.into()));
    let store = spools[0]["store"].as_str().unwrap();
    assert!(store.ends_with("/runlore/runlore.db"), "{spools}");
    assert_eq!((&spools[0]["folder"], spools.as_array().unwrap().len()), (&"runlore".into(), 1));
}

/// Of a database that was deleted, what killed programs left is beside where it was.
#[cfg(unix)]
#[test]
fn what_was_left_for_a_database_that_is_not_there_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| {
        let mut command = runlore();
        command.current_dir(&folder).args(["--store", "data/runs.db"]).args(args);
        told_by(&mut command)
    };
    here(&["run", "--", "sh", "-c", "kill -9 $PPID"]);
    assert!(folder.path().join("data/.rings").exists());
    _ = fs::remove_file(folder.path().join("data/runs.db"));
    let told = here(&["recover"]);
    assert!(told.starts_with("recovered the records of 1 dead process"), "{told}");
    assert!(here(&["ls"]).contains("INTERRUPTED"));
}

#[test]
fn it_tells_which_rule_hides_which_line_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "instrumentation:\n  redact:\n    names: [badge]\n    allow: [session]\n";
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let lines = [
        "user=ann",
        "DB_PASSWORD=Sw0rdf1sh",
        "url=pg://ann:Sw0rdf1sh@db/x token=Sw0rdf1sh # two",
        "badge=Sw0rdf1sh",
        "session=visible1",
        "-----BEGIN PRIVATE KEY-----",
        "Sw0rdf1sh",
        "-----END PRIVATE KEY-----",
        "ghp_Sw0rdf1shSw0rdf1shSw0r",
    ];
    fs::write(folder.path().join("lines"), lines.join("\n")).unwrap();
    let output = doctor(&folder, &["--secrets", "lines"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    2: the name `DB_PASSWORD`
        DB_PASSWORD=[redacted]
    3: credentials in a URL, the name `token`
        url=pg://ann:[redacted]@db/x token=[redacted] # two
    4: the name `badge`
        badge=[redacted]
    6: PEM block
        [redacted]
    9: a token that begins with `ghp_`
        [redacted]
    5 of 9 lines contain secrets
    ");
    fs::write(folder.path().join("lines"), "the password is wrong\n").unwrap();
    let output = doctor(&folder, &["--secrets", "lines", "--json"]).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"{\"secrets\":[]}\n"[..])
    );
}
