//! `events analyze`, `analyze` and `compare --events`: what they tell, and what their exit codes decide.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{data, runlore, told, told_by};

fn stormlog(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/stormlog").join(name)
}

fn input(name: &str) -> PathBuf {
    stormlog(&format!("analysis/{name}.json"))
}

/// What the program says of files, with the exit code.
fn of(args: &[&str], files: &[&Path]) -> String {
    let text = told_by(runlore().args(args).args(files));
    text.replace(&stormlog("").display().to_string(), "STORMLOG/")
}

fn exit_code(args: &[&str], files: &[&Path]) -> i32 {
    runlore().args(args).args(files).output().unwrap().status.code().unwrap()
}

const ANALYZE: &[&str] = &["events", "analyze"];

#[test]
fn a_spike_is_told_with_its_evidence() {
    insta::assert_snapshot!(of(ANALYZE, &[&input("gap_spike")]));
}

#[test]
fn ranks_are_told_on_one_clock() {
    insta::assert_snapshot!(of(ANALYZE, &[&input("first_cause_rank2")]));
}

#[test]
fn the_exit_code_decides() {
    let (clean, bundle) = (input("clean"), stormlog("v039/diag"));
    let (warning, critical) = (input("first_cause_rank2"), input("gap_drift"));
    for (files, fail_on, expected) in [
        (&[&*clean][..], "warning", 0),
        (&[&*clean], "info", 0),
        (&[&*warning], "warning", 2),
        (&[&*warning], "critical", 0),
        (&[&*warning], "critical,step", 2),
        (&[&*warning], "churn,oom", 0),
        (&[&*critical], "critical", 2),
        (&[&*critical], "never", 0),
        (&[&*critical, &*bundle], "critical", 2),
        (&[&*clean], "sometimes", 1),
    ] {
        let args = ["events", "analyze", "--fail-on", fail_on];
        assert_eq!(exit_code(&args, files), expected, "{files:?} {fail_on}");
    }
    assert_eq!(exit_code(ANALYZE, &[&critical]), 2, "warnings fail by default");
    let sure = ["events", "analyze", "--threshold", "gap_ratio=0.5,leak_fit=1"];
    assert_eq!(exit_code(&sure, &[&critical]), 0);
}

#[test]
fn a_report_for_programs_has_everything() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("report.json");
    let args = ["events", "analyze", "--format", "json", "--output", file.to_str().unwrap()];
    assert_eq!(of(&args, &[&input("collective_4rank")]), "--- exit code Some(2)\n");
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let first = &report["findings"][0];
    assert_eq!(
        (&first["kind"], &first["severity"]),
        (&json!("transient_spike"), &json!("warning"))
    );
    assert_eq!(first["where"]["window"]["start_ns"], 1_700_000_001_000_000_000_u64);
    assert!(first["try"][0].is_string() && first["evidence"]["spike_count"] == 2);
    assert_eq!((&report["exit_code"], &report["failed"]), (&json!(2), &json!(4)));
    assert_eq!(report["cross_rank"][0]["alignment_offsets_ns"]["3"], 15_000_000);
    assert_eq!(report["series"].as_array().unwrap().len(), 4);
}

#[test]
fn folders_sinks_and_bundles_are_read() {
    let all =
        of(&["events", "analyze", "--format", "json", "--fail-on", "never"], &[&stormlog("v043")]);
    let report = &all[..all.find("--- stderr").unwrap_or(all.len())];
    let report: Value = serde_json::from_str(report).unwrap();
    let kinds: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"oom"), "a risk of the bundle diag_risk: {kinds:?}");
    assert!(report["series"].as_array().unwrap().len() > 3);

    assert_eq!(exit_code(ANALYZE, &[&stormlog("v039/diag")]), 0);
    assert_eq!(exit_code(ANALYZE, &[&stormlog("v043/diag_risk")]), 2);
    insta::assert_snapshot!(of(ANALYZE, &[&stormlog("v043/diag_risk")]));
}

#[test]
fn what_cannot_be_analysed_is_told_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("empty")).unwrap();
    fs::write(path("none.json"), "[]").unwrap();
    fs::write(path("nothing.jsonl"), "").unwrap();
    fs::write(path("other.json"), r#"{"a": 1}"#).unwrap();
    fs::write(path("broken.jsonl"), "{\"timestamp\": tru\nhello\n").unwrap();
    fs::write(path("binary.csv"), [0, 159, 146, 150]).unwrap();
    let mut all = String::new();
    for file in [
        "empty",
        "none.json",
        "nothing.jsonl",
        "other.json",
        "broken.jsonl",
        "binary.csv",
        "missing.json",
    ] {
        let told = of(ANALYZE, &[&path(file)]);
        assert!(told.ends_with("--- exit code Some(1)\n"), "{file}: {told}");
        all += &told;
    }
    for args in [
        &["events", "analyze", "--threshold", "gap_ration=1"][..],
        &["events", "analyze", "--threshold", "gap_ratio"],
        &["events", "analyze", "--fail-on", "warnings"],
        &["events", "analyze", "--session", "nobody"],
        &["events", "analyze", "--output", "/proc/nowhere/at/all"],
        &["events", "analyze", "--format", "pdf"],
    ] {
        all += &of(args, &[&input("clean")]);
    }
    all += &of(ANALYZE, &[]);
    insta::assert_snapshot!(all.replace(&folder.path().display().to_string(), "FOLDER"));
}

#[test]
fn whatever_a_file_holds_it_is_analysed_or_told_in_sentences() {
    let folder = TempDir::new().unwrap();
    let reference = folder.path().join("memory.json");
    let compare = ["compare", "--save-baseline", reference.to_str().unwrap(), "--events"];
    let mut count = 0;
    for entry in fs::read_dir(stormlog("loader")).unwrap() {
        let file = entry.unwrap().path();
        for args in [ANALYZE, &compare] {
            let output = runlore().args(args).arg(&file).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            let code = output.status.code();
            assert!(matches!(code, Some(0..=2)), "{args:?} {file:?}: {code:?} {said}");
            assert!(said.lines().all(|line| line.starts_with("runlore: ")), "{file:?}: {said}");
            assert!(code != Some(1) || !said.is_empty(), "{file:?} is refused without a word");
            count += 1;
        }
    }
    assert!(count > 30);
}

#[test]
fn thresholds_are_listed() {
    let text = of(&["events", "analyze", "--thresholds"], &[]);
    assert!(text.contains("gap_ratio") && text.contains("64MiB"), "{text}");
    assert_eq!(text, of(&["analyze", "--thresholds"], &[]));
}

#[test]
fn a_run_is_analysed() {
    insta::assert_snapshot!(told(["analyze", "fit"]));
    let text = told(["analyze", "a001", "--format", "json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["tasks"], 3);
    assert_eq!(report["critical_path"]["by_activity"]["epoch"], 800_000_000);
    assert!(told(["analyze", "nothing"]).ends_with("--- exit code Some(1)\n"));
    assert!(
        told(["analyze", "fit", "--fail-on", "slow_activity"]).ends_with("--- exit code Some(2)\n")
    );
    let nowhere = told_by(runlore().current_dir(data()).args(["--store", "nowhere", "analyze"]));
    assert!(
        nowhere.contains("nothing recorded here yet") && nowhere.contains("Some(1)"),
        "{nowhere}"
    );
}

#[test]
fn memory_is_compared_with_a_stored_reference() {
    let folder = TempDir::new().unwrap();
    let reference = folder.path().join("memory.json");
    let reference = reference.to_str().unwrap();
    let good = input("first_cause_rank2");
    let compare = |args: &[&str], file: &Path| {
        let text = told_by(runlore().args(["compare", "--events"]).arg(file).args(args));
        text.replace(&folder.path().display().to_string(), "FOLDER")
    };
    assert_eq!(compare(&["--save-baseline", reference], &good), "");
    let same = compare(&["--baseline", reference, "--fail-on", "peak:+0%,slope:+0%"], &good);
    assert!(same.contains("same") && !same.contains("exit code"), "{same}");

    // The same with the second device of twice the memory, and growing.
    let mut events: Value = serde_json::from_slice(&fs::read(&good).unwrap()).unwrap();
    for (at, event) in events.as_array_mut().unwrap().iter_mut().enumerate() {
        if event["rank"] == 1 {
            event["allocator_allocated_bytes"] = json!((3_u64 << 30) + (at as u64) * (40 << 20));
        }
    }
    let worse = folder.path().join("worse.json");
    fs::write(&worse, events.to_string()).unwrap();
    let limits = ["--baseline", reference, "--fail-on", "peak:+20%,slope:+1MiB"];
    insta::assert_snapshot!(compare(&limits, &worse));
    assert_eq!(
        compare(&["--baseline", reference, "--fail-on", "peak:+500%", "--json"], &worse)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|row| row["rank"] == 1 && row["figure"] == "peak")
            .count(),
        1
    );
    // A run that is too much worse does not become the reference.
    let before = fs::read(reference).unwrap();
    compare(&[&limits[..], &["--save-baseline", reference]].concat(), &worse);
    assert_eq!(fs::read(reference).unwrap(), before);
}

#[test]
fn memory_is_compared_with_files_of_events() {
    let folder = TempDir::new().unwrap();
    let good = input("first_cause_rank2");
    let mut events: Value = serde_json::from_slice(&fs::read(&good).unwrap()).unwrap();
    for event in events.as_array_mut().unwrap() {
        event["job_id"] = json!("another");
        let held = event["allocator_allocated_bytes"].as_u64().unwrap();
        event["allocator_allocated_bytes"] = json!(held * 2);
    }
    let worse = folder.path().join("worse.json");
    fs::write(&worse, events.to_string()).unwrap();
    let reference = folder.path().join("memory.json");
    told_by(
        runlore().args(["compare", "--events"]).arg(&good).arg("--save-baseline").arg(&reference),
    );
    let compare = |baseline: &Path| {
        let mut command = runlore();
        command.args(["compare", "--events"]).arg(&worse).arg("--baseline").arg(baseline);
        told_by(command.args(["--fail-on", "peak:+20%"]))
    };
    let told = compare(&good);
    assert_eq!(told, compare(&reference), "a file of events tells what its reference does");
    assert!(told.contains("`peak:+20%` is exceeded by rank 0, device 0"), "{told}");
    assert!(told.contains("exit code Some(2)"), "{told}");
}

#[test]
fn what_cannot_be_compared_is_told_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("no-reference.json"), "{}").unwrap();
    fs::write(path("newer.json"), r#"{"format": "runlore.reference", "version": 9, "series": []}"#)
        .unwrap();
    fs::write(path("empty.json"), r#"{"format": "runlore.reference", "version": 1, "series": []}"#)
        .unwrap();
    let clean = input("clean");
    let clean = clean.to_str().unwrap();
    let mut all = String::new();
    for args in [
        &[][..],
        &["--events", clean],
        &["--events", clean, "--fail-on", "peak:+1%"],
        &["--events", clean, "--baseline", "no-reference.json"],
        &["--events", clean, "--baseline", "newer.json"],
        &["--events", clean, "--baseline", "missing.json"],
        &["--events", clean, "--baseline", "empty.json", "--fail-on", "peak:+1%"],
        &["--events", clean, "--baseline", "empty.json", "--fail-on", "peek:+1%"],
        &["--events", clean, "--baseline", "empty.json", "--fail-on", "peak:1%"],
        &["--events", "no-reference.json", "--baseline", "empty.json"],
        &["a001", "--baseline", "empty.json"],
    ] {
        let told = told_by(runlore().current_dir(folder.path()).arg("compare").args(args));
        assert!(told.ends_with("--- exit code Some(1)\n"), "{args:?}: {told}");
        all += &told;
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_look_at_this_machine_becomes_a_bundle() {
    let folder = TempDir::new().unwrap();
    // A secret in the command line does not reach the manifest, nor do variables.
    let bundle = folder.path().join("password=hunter2");
    let workplace = TempDir::new().unwrap();
    let settings = "telemetry_capture:\n  environment: [\"LAB_*\"]\n";
    fs::write(workplace.path().join("settings.yaml"), settings).unwrap();
    let look = |output: &Path| {
        let args = ["events", "diagnose", "--duration", "0.05", "--interval", "0.01", "--quiet"];
        let mut command = runlore();
        command.current_dir(&workplace).env("LAB_NAME", "hunter2");
        let output = command.args(args).arg("--output").arg(output).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), PathBuf::from(told.trim_end()))
    };
    let (code, place) = look(&bundle);
    assert_eq!(place, bundle);
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(place.join(name)).unwrap()).unwrap()
    };
    let manifest = read("manifest.json");
    assert_eq!(manifest["exit_code"], code);
    assert_eq!(manifest["risk_detected"], code == 2);
    for name in manifest["files"].as_array().unwrap() {
        assert!(place.join(name.as_str().unwrap()).is_file(), "{name}");
    }
    let everything: String =
        ["manifest.json", "environment.json"].map(|name| read(name).to_string()).concat();
    assert!(everything.contains("[redacted]") && !everything.contains("hunter2"), "{everything}");

    // What Stormlog's has, this has, and of the same kinds.
    let summary = read("diagnostic_summary.json");
    let theirs: Value =
        serde_json::from_slice(&fs::read(stormlog("v043/diag/diagnostic_summary.json")).unwrap())
            .unwrap();
    for (name, value) in theirs.as_object().unwrap() {
        let ours = &summary[name];
        assert_eq!(std::mem::discriminant(ours), std::mem::discriminant(value), "{name}: {ours}");
    }
    assert!(summary["total_bytes"].as_u64().unwrap() > 0);
    assert!(summary["host"]["available_bytes"].as_u64().unwrap() > 0);

    let stats = of(&["events", "stats", "--json"], &[&place]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["session_id"], manifest["session_id"]);
    assert!(stats["events"].as_u64().unwrap() >= 2);
    assert_eq!(exit_code(&["events", "analyze", "--fail-on", "never"], &[&place]), 0);

    // A folder that exists gets another inside it.
    let (_, inside) = look(folder.path());
    assert_eq!(inside.parent().unwrap(), folder.path());
    assert!(inside.file_name().unwrap().to_str().unwrap().starts_with("runlore-diagnose-"));
}

#[test]
fn the_exit_code_of_a_look_says_whether_there_is_a_risk() {
    let folder = TempDir::new().unwrap();
    let look = |output: &str, thresholds: &str| {
        let output = folder.path().join(output);
        let args = ["events", "diagnose", "--duration", "0", "--threshold", thresholds, "--output"];
        exit_code(&args, &[&output])
    };
    // Something is always in use, and never more than there is.
    assert_eq!(look("full", "utilization_ratio=0"), 2);
    let none =
        "utilization_ratio=2,available_ratio=0,pressure_ratio=2,container_ratio=2,min_bytes=1TiB";
    assert_eq!(look("free", none), 0);
    assert_eq!(look("wrong", "utilisation_ratio=1"), 1);
    assert_eq!(exit_code(ANALYZE, &[&folder.path().join("full")]), 2);

    let summary = fs::read(folder.path().join("full/diagnostic_summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let [used, total] =
        ["allocated_bytes", "total_bytes"].map(|name| summary[name].as_f64().unwrap());
    assert_eq!(summary["utilization_ratio"], used / total, "as Stormlog counts it");
    for flag in ["memory_pressure", "swapping", "container_limit"] {
        assert!(summary["risk_flags"][flag].is_boolean(), "{flag} is told either way");
    }
    let manifest = fs::read(folder.path().join("full/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    // A UUID of version 7 begins with the time, which is not that since the machine was started.
    let id = manifest["session_id"].as_str().unwrap();
    assert!(id > "0190", "{id}");

    // What reads a bundle would not look for another one inside.
    let again =
        of(&["events", "diagnose", "--duration", "0", "--output"], &[&folder.path().join("full")]);
    assert!(
        again.contains("is a bundle already; name another folder") && again.contains("Some(1)"),
        "{again}"
    );
}

#[test]
fn a_look_names_the_ratio_and_the_threshold_that_it_is_below() {
    let folder = TempDir::new().unwrap();
    let bundle = folder.path().join("diag");
    let thresholds = "utilization_ratio=2,available_ratio=1.5,pressure_ratio=2,container_ratio=2";
    let args = ["events", "diagnose", "--duration", "0", "--threshold", thresholds, "--output"];
    let told = of(&args, &[&bundle]);
    let again = of(ANALYZE, &[&bundle]);
    let summary = fs::read(bundle.join("diagnostic_summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let [available, total] =
        ["available_bytes", "total_bytes"].map(|name| summary["host"][name].as_f64().unwrap());
    let ratio = available / total;
    let expected = format!("a ratio of {ratio:.3}, below the threshold available_ratio=1.5");
    for text in [&told, &again] {
        assert!(text.contains(&expected), "{expected:?} in {text}");
        assert!(!text.contains("waited"), "that was not the reason: {text}");
    }
}

/// Whatever cannot be written leaves nothing that could be taken for a bundle.
#[test]
#[cfg(unix)]
fn a_bundle_that_cannot_be_written_is_not_there() {
    let folder = TempDir::new().unwrap();
    let held = folder.path().join("held");
    fs::create_dir(&held).unwrap();
    // As on a disk that is full, small files fit and large ones do not.
    let script = "ulimit -f 1; exec \"$0\" events diagnose --duration 0 --output \"$1\"";
    let program = env!("CARGO_BIN_EXE_runlore");
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("trap '' XFSZ; {script}"), program])
        .arg(held.join("diag"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_dir(&held).unwrap().count(), 0, "{said}");
}

#[test]
fn half_a_check_has_not_passed() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let clean = fs::read_to_string(input("clean")).unwrap();
    let events: Value = serde_json::from_str(&clean).unwrap();
    let events = events.as_array().or_else(|| events["events"].as_array()).unwrap();
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    fs::write(path("good.jsonl"), lines.join("\n")).unwrap();
    fs::write(path("bad.jsonl"), "nothing of ours\nat all\n").unwrap();
    fs::write(path("cut.json"), format!("[{},{{\"schema_ver", lines.join(","))).unwrap();
    let mut quiet = events[0].clone();
    quiet["event_type"] = "start".into();
    fs::write(path("quiet.jsonl"), quiet.to_string()).unwrap();

    let (good, bad, cut) = (path("good.jsonl"), path("bad.jsonl"), path("cut.json"));
    let never: &[&str] = &["events", "analyze", "--fail-on", "never"];
    assert_eq!(exit_code(never, &[&good]), 0);
    for files in [&[&*good, &*bad][..], &[&*cut], &[&path("quiet.jsonl")]] {
        assert_eq!(exit_code(never, files), 1, "{files:?}");
        let reference = path("memory.json");
        let compare = ["compare", "--save-baseline", reference.to_str().unwrap(), "--events"];
        assert_eq!(exit_code(&compare, files), 1, "{files:?}");
        assert!(!reference.exists(), "{files:?}");
    }
    // What could be read is told all the same.
    let told = of(never, &[&good, &bad]);
    assert!(told.contains("no findings") && told.contains("the file is left out"), "{told}");
    let json = of(&["events", "analyze", "--format", "json"], &[&cut]);
    assert!(json.contains("\"exit_code\": 1"), "{json}");
}

#[test]
#[cfg(feature = "report")]
fn thresholds_hold_for_all_of_a_page() {
    let folder = TempDir::new().unwrap();
    let page = |threshold: &str| {
        let output = folder.path().join("page.html");
        let args = ["analyze", "fit", "--fail-on", "never", "--threshold", threshold, "--output"];
        let mut command = runlore();
        command.arg("--store").arg(data()).args(args).arg(&output);
        assert!(command.status().unwrap().success());
        fs::read_to_string(output).unwrap()
    };
    assert!(page("slow_ratio=0.01").contains("slow activity"));
    let none = page("slow_ratio=2,waiting_ratio=2,alone_ratio=2,outlier_factor=1000");
    assert!(none.contains("Nothing stands out.") && !none.contains("slow_activity"));
}

#[test]
fn a_misspelt_setting_that_was_to_name_the_store_is_told() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("settings.yaml"), "databases: {jsonl: {pth: elsewhere}}\n")
        .unwrap();
    for command in [&["analyze"][..], &["report"], &["compare", "a", "b"]] {
        let told = told_by(
            runlore()
                .current_dir(folder.path())
                .env("RUNLORE_SETTINGS_PATH", folder.path().join("settings.yaml"))
                .args(command),
        );
        assert!(
            told.contains("`pth`") || told.contains("databases.jsonl.pth"),
            "{command:?}: {told}"
        );
    }
}

#[test]
fn what_cannot_be_diagnosed_is_told_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let mut all = String::new();
    for args in [
        &["--duration", "x"][..],
        &["--duration", "-1"],
        &["--interval", "1e99"],
        &["--duration", "0", "--output", "file"],
    ] {
        let told =
            told_by(runlore().current_dir(folder.path()).args(["events", "diagnose"]).args(args));
        assert!(told.ends_with("--- exit code Some(1)\n"), "{args:?}: {told}");
        all += &told;
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_was_tracked_is_analysed() {
    let folder = TempDir::new().unwrap();
    let sink = folder.path().join("sink");
    let track = ["events", "track", "--duration", "0.3", "--interval", "0.02", "--sink"];
    assert_eq!(exit_code(&track, &[&sink]), 0);
    let text = of(&["events", "analyze", "--format", "json", "--fail-on", "never"], &[&sink]);
    let report: Value = serde_json::from_str(&text).unwrap();
    let series = &report["series"][0];
    assert!(series["samples"].as_u64().unwrap() >= 2, "{series}");
    assert!(series["peak_allocated_bytes"].as_u64().unwrap() > 0, "{series}");
    let of_others = ["hidden_memory", "persistent_drift", "step", "transient_spike"];
    let kinds =
        report["findings"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap());
    assert_eq!(kinds.filter(|kind| of_others.contains(kind)).count(), 0, "{text}");
}
