//! `settings`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{runlore, told_by};

/// The program in a folder of its own, away from the settings of whoever runs the tests.
fn settings(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = runlore();
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RUNLORE_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.path().join("config"));
    command.arg("settings").args(args);
    command
}

fn told(folder: &TempDir, args: &[&str]) -> String {
    told_by(&mut settings(folder, args))
}

const MINE: &str = "\
telemetry_capture:
  disk: yes
  gpu: [used, id]
databases:
  mongodb:
    uri: mongodb://ada:hunter2@db.example/runs
    password_env: DB_PASSWORD
extra_metadata:
  api_token: hunter2
  project: {name: moon, password: hunter2, url: 'http://x:hunter2@h'}
";

#[test]
fn show_says_where_each_value_came_from() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), MINE).unwrap();
    let told = told_by(
        settings(&folder, &["show"])
            .env("RUNLORE_TELEMETRY_CAPTURE__CPU", "no")
            .env("RUNLORE_RECORDER__FLUSH_MS", "1s"),
    );
    assert!(!told.contains("hunter2"), "{told}");
    insta::assert_snapshot!(told);
}

#[test]
fn show_tells_only_what_differs_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), MINE).unwrap();
    insta::assert_snapshot!(told(&folder, &["show", "--changed"]), @r#"
    KEY                             VALUE                                                                  FROM
    telemetry_capture.disk          true                                                                   settings.yaml:2
    telemetry_capture.gpu           ["used","id"]                                                          settings.yaml:3
    databases.mongodb.uri           mongodb://ada:[redacted]@db.example/runs                               settings.yaml:6
    databases.mongodb.password_env  DB_PASSWORD                                                            settings.yaml:7
    extra_metadata.api_token        [redacted]                                                             settings.yaml:9
    extra_metadata.project          {"name":"moon","password":"[redacted]","url":"http://x:[redacted]@h"}  settings.yaml:10
    "#);
}

#[test]
fn show_as_json_is_one_key_a_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.yaml"), MINE).unwrap();
    let told = told_by(
        settings(&folder, &["show", "mine.yaml", "--json"])
            .env("RUNLORE_TELEMETRY_CAPTURE__CPU", "no"),
    );
    assert!(!told.contains("hunter2"), "{told}");
    let keys: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let key = |path: &str| keys.iter().find(|key| key["key"] == path).unwrap();
    assert_eq!(key("telemetry_capture.cpu")["variable"], "RUNLORE_TELEMETRY_CAPTURE__CPU");
    assert_eq!(key("telemetry_capture.gpu")["value"], serde_json::json!(["used", "id"]));
    assert_eq!(key("telemetry_capture.gpu")["file"], "mine.yaml");
    assert_eq!(key("telemetry_capture.gpu")["line"], 3);
    assert_eq!(key("telemetry_capture.mem")["from"], "default");
}

#[test]
fn show_goes_on_when_something_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), "telemetry_capture:\n  cpus: no\n  mem: no")
        .unwrap();
    insta::assert_snapshot!(told(&folder, &["show", "--changed"]), @r#"
    KEY                    VALUE  FROM
    telemetry_capture.mem  false  settings.yaml:3
    --- stderr
    runlore: settings.yaml:2:3: unknown key `cpus` in telemetry_capture: did you mean `cpu`?
    "#);
}

#[test]
fn check_lists_everything_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let text = "telemetry_capture:\n  cpus: no\n  mem: maybe\nrecorder:\n  ring_bytes: 3\nmq: {}\n";
    fs::write(folder.path().join("settings.yaml"), text).unwrap();
    let mut command = settings(&folder, &["check"]);
    insta::assert_snapshot!(told_by(command.env("RUNLORE_RECORDER__WHEN_FULL", "cry")), @r#"
    settings.yaml:2:3: unknown key `cpus` in telemetry_capture: did you mean `cpu`?
    settings.yaml:3:8: telemetry_capture.mem must be yes or no, not `maybe`
    settings.yaml:5:15: recorder.ring_bytes must be from 16KiB to 64MiB
    notice: settings.yaml: left aside, as Flowcept's keys that mean nothing here: `mq`
    RUNLORE_RECORDER__WHEN_FULL: recorder.when_full must be one of `spill`, `block` and `drop`, not `cry`
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told(&folder, &["check", "none.yaml"]), @r#"
    none.yaml: there is no such file
    --- exit code Some(1)
    "#);
    let json = told(&folder, &["check", "--json"]);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &3.into()));
    assert_eq!(first["severity"], "error");
}

#[test]
fn check_says_that_all_is_well() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(told(&folder, &["check"]), @"no settings file found; the defaults apply");
    std::fs::write(folder.path().join("settings.yaml"), "telemetry_captur: {cpu: no}\n").unwrap();
    let told_of_another = told(&folder, &["check"]);
    assert!(told_of_another.contains("no section that Runlore knows"), "{told_of_another}");
    std::fs::remove_file(folder.path().join("settings.yaml")).unwrap();
    fs::create_dir_all(folder.path().join("config/runlore")).unwrap();
    fs::write(folder.path().join("config/runlore/settings.yaml"), "experiment: {user: ada}")
        .unwrap();
    fs::write(folder.path().join("settings.yaml"), MINE).unwrap();
    let told_here = told(&folder, &["check"]).replace(&folder.path().display().to_string(), "HERE");
    insta::assert_snapshot!(told_here, @"HERE/config/runlore/settings.yaml, settings.yaml: fine");
    let flowcepts =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/flowcept_settings.yaml");
    let told = told(&folder, &["check", flowcepts.to_str().unwrap()]);
    assert_eq!(told.lines().filter(|line| line.starts_with("notice: ")).count(), 1, "{told}");
    assert!(told.ends_with(": fine\n"), "{told}");
}

#[test]
fn init_writes_the_documented_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    insta::assert_snapshot!(told(&folder, &["init"]), @"wrote settings.yaml; after editing it, run `runlore settings check`");
    assert_eq!(fs::read_to_string(&path).unwrap(), runlore::settings::DEFAULT_YAML);
    assert_eq!(told(&folder, &["check"]), "settings.yaml: fine\n");

    fs::write(&path, "mine").unwrap();
    insta::assert_snapshot!(told(&folder, &["init"]), @r#"
    --- stderr
    runlore: settings.yaml already exists; `--force` replaces it
    --- exit code Some(1)
    "#);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    told(&folder, &["init", "--force"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), runlore::settings::DEFAULT_YAML);
    assert_eq!(told(&folder, &["init", "-"]), runlore::settings::DEFAULT_YAML);
    insta::assert_snapshot!(told(&folder, &["init", "settings.yaml/x"]), @r#"
    --- stderr
    runlore: settings.yaml/x already exists; `--force` replaces it
    --- exit code Some(1)
    "#);
}

#[test]
fn init_full_turns_telemetry_on() {
    let folder = tempfile::tempdir().unwrap();
    told(&folder, &["init", "--full", "deep/down/settings.yaml"]);
    let path = folder.path().join("deep/down/settings.yaml");
    let loaded = runlore::settings::Search::nowhere().path(&path).load();
    assert_eq!(loaded.problems(), []);
    let telemetry = loaded.settings.telemetry_capture;
    assert!(telemetry.cpu && telemetry.per_cpu && telemetry.process_info && telemetry.mem);
    assert!(telemetry.disk && telemetry.network && telemetry.machine_info && telemetry.energy);
    assert!(!fs::read_to_string(&path).unwrap().contains("# Everything"));
}

#[test]
fn schema_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let schema: Value = serde_json::from_str(&told(&folder, &["schema"])).unwrap();
    assert_eq!(schema, runlore::settings::schema());
}
