//! `events`: what Stormlog wrote, and what we make of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::support::{runlore, told_by};

fn stormlog(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/stormlog").join(name)
}

fn told(args: &[&str], files: &[&Path]) -> String {
    let text = told_by(runlore().arg("events").args(args).args(files));
    text.replace(&stormlog("").display().to_string(), "STORMLOG/")
}

#[test]
fn validate_tells_what_is_wrong_where() {
    let files = [
        &*stormlog("v039/events.json"),
        &stormlog("v043/events.csv"),
        &stormlog("v043/sink_crashed"),
        &stormlog("loader/b5.jsonl"),
        &stormlog("loader/a14.json"),
        &stormlog("loader/does-not-exist.json"),
        &stormlog("loader/a1.json"),
    ];
    insta::assert_snapshot!(told(&["validate"], &files));
}

#[test]
fn validate_as_json_is_an_object_a_problem_and_a_file() {
    let text = told(&["validate", "--json"], &[&stormlog("loader/a14.json")]);
    let lines: Vec<Value> =
        text.lines().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["field"], "timestamp");
    assert_eq!((&lines[0]["line"], &lines[0]["index"]), (&1.into(), &0.into()));
    assert_eq!(lines[1]["wrong"], 1);
}

#[test]
fn records_of_old_are_refused_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.jsonl");
    fs::write(&file, "{\"timestamp\": 1}\n").unwrap();
    assert!(told(&["validate"], &[&file]).ends_with("old.jsonl: 1 event, fine\n"));
    let strict = told(&["validate", "--no-legacy"], &[&file]);
    assert!(strict.contains("line 1: Legacy record conversion is disabled"), "{strict}");
    assert!(strict.contains("--- exit code Some(1)"), "{strict}");
}

#[test]
fn convert_goes_through_every_format_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut from = stormlog("v043/alerts_events.json");
    for to in ["a.jsonl", "a.csv", "a.json"] {
        let said = told(&["convert", "--schema", "4"], &[&from, &path(to)]);
        assert!(said.ends_with(&format!("{to}: 45 events in schema 4\n")), "{said}");
        from = path(to);
    }
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    assert_eq!(read(&from), read(&stormlog("v043/alerts_events.json")));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing else is left behind");
}

#[test]
fn convert_keeps_the_schema_that_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (v2, v3, v4) =
        (path("v2.json"), stormlog("v039/events.json"), stormlog("v043/events.json"));
    told(&["convert", "--schema", "2"], &[&v3, &v2]);
    let of_old = path("old.jsonl");
    fs::write(&of_old, "{\"timestamp\": 1}\n").unwrap();
    // Of a file that has several, the newest says all that the others do.
    let mixed = path("mixed.json");
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    fs::write(&mixed, serde_json::json!([read(&v2)[0], read(&v4)[0]]).to_string()).unwrap();
    for (from, schema) in [(&v2, 2), (&v3, 3), (&v4, 4), (&of_old, 3), (&mixed, 4)] {
        for format in ["json", "jsonl", "csv"] {
            let to = path(&format!("to.{format}"));
            let said = told(&["convert"], &[from, &to]);
            assert!(said.ends_with(&format!(" in schema {schema}\n")), "{said}");
        }
        let written = read(&path("to.json"));
        assert!(written.as_array().unwrap().iter().all(|it| it["schema_version"] == schema));
    }
}

#[test]
fn what_was_tracked_is_written_in_every_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let track = |to: &Path, schema: &str| {
        let mut command = runlore();
        command.args(["events", "track", "--duration", "0.1", "--interval", "0.02"]);
        told_by(command.args(["--schema", schema, "--output"]).arg(to))
    };
    let run = path("run.json");
    track(&run, "4");
    let events = runlore_events(&run).len();
    for schema in ["2", "3", "4"] {
        let to = path(&format!("converted-{schema}.json"));
        let said = told(&["convert", "--schema", schema], &[&run, &to]);
        assert!(said.ends_with(&format!(" events in schema {schema}\n")), "{said}");
        assert_eq!(runlore_events(&to).len(), events);
        let to = path(&format!("tracked-{schema}.json"));
        let said = track(&to, schema);
        assert!(!said.contains("exit code"), "{said}");
        assert!(runlore_events(&to).len() > 2);
    }
}

/// The machine's memory is what is tracked, not that of the program which reads it.
#[cfg(target_os = "linux")]
#[test]
fn the_machine_is_tracked_without_this_program() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.json");
    let mut command = runlore();
    command.args(["events", "track", "--duration", "0.1", "--interval", "0.02", "--json"]);
    let statistics: Value =
        serde_json::from_str(&told_by(command.arg("--output").arg(&run))).unwrap();
    let events = runlore_events(&run);
    for event in &events {
        let used = event.device_used_bytes;
        assert!(used.is_some(), "{event:?}");
        assert_eq!(event.allocator_allocated_bytes, used);
        assert_eq!(event.allocator_reserved_bytes, used);
        for name in ["rss_bytes", "process_cpu_percent", "read_bytes_per_sec"] {
            assert!(!event.metadata.contains_key(name), "{event:?}");
        }
    }
    assert_eq!(statistics["peak_memory"], statistics["peak_device_used"]);
    let most = events.iter().filter_map(|event| event.device_used_bytes).max();
    assert_eq!(statistics["peak_memory"].as_u64(), most);
}

#[test]
fn convert_loses_nothing_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("b.jsonl");
    let from = stormlog("v043/alerts_events.json");
    let said = told(&["convert", "--schema", "3"], &[&from, &to]);
    insta::assert_snapshot!(said.replace(&folder.path().display().to_string(), "FOLDER"));
    assert_eq!(fs::read_to_string(&to).unwrap().lines().count(), 42);

    // Onto itself it would be the only one that has them.
    let own = folder.path().join("own.json");
    fs::copy(&from, &own).unwrap();
    let said = told(&["convert", "--schema", "3"], &[&own, &own]);
    assert!(said.contains("would lose 3 records") && said.contains("exit code Some(1)"), "{said}");
    assert_eq!(fs::read(&own).unwrap(), fs::read(&from).unwrap());
    fs::remove_file(&own).unwrap();

    fs::remove_file(&to).unwrap();
    let said = told(&["convert", "--schema", "3", "--strict"], &[&from, &to]);
    assert!(said.contains("nothing was written") && said.contains("exit code Some(1)"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let said = told(&["convert", "--schema", "3", "--lossy"], &[&from, &to]);
    assert!(said.ends_with("45 events in schema 3\n"), "{said}");
    let said = told(&["convert"], &[&from, &folder.path().join("b.txt")]);
    assert!(said.contains("name it *.json, *.jsonl or *.csv"), "{said}");
}

#[test]
fn sessions_and_stats_tell_what_is_in_a_sink() {
    let sink = stormlog("v039/sink");
    insta::assert_snapshot!(told(&["sessions"], &[&sink]));
    insta::assert_snapshot!(told(&["stats"], &[&stormlog("v043/alerts_events.json")]));
    let json: Value =
        serde_json::from_str(told(&["sessions", "--json"], &[&sink]).lines().next().unwrap())
            .unwrap();
    assert_eq!((&json["events"], &json["status"]), (&51.into(), &"completed".into()));
    let none = told(&["stats", "--session", "nope"], &[&sink]);
    assert!(none.contains("no events of session nope"), "{none}");
}

#[test]
fn sessions_and_stats_fail_where_nothing_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let good = r#"{"timestamp": 1}"#;
    let files = [
        ("text.jsonl", "hello\nworld\n".to_owned()),
        ("picture.json", "\u{1}PNG".to_owned()),
        ("torn.jsonl", "{\"timest".to_owned()),
        ("empty.jsonl", String::new()),
        ("cut.json", format!("[{good},{{\"timest")),
        ("partly.jsonl", format!("hello\n{good}\n")),
    ];
    let mut all = String::new();
    for (name, content) in &files {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        for command in ["stats", "sessions"] {
            let output = runlore().args(["events", command]).arg(&file).output().unwrap();
            let problems = String::from_utf8(output.stderr).unwrap();
            let (code, lines) = (output.status.code().unwrap(), output.stdout.len().min(1));
            all += &format!("{command}: exit code {code}, tells {lines}\n{problems}");
        }
    }
    insta::assert_snapshot!(all.replace(&folder.path().display().to_string(), "FOLDER"));
}

#[test]
fn a_command_is_tracked_with_all_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, file) = (folder.path().join("sink"), folder.path().join("run.json"));
    let script = "sleep 0.3 & wait; echo done; exit 3";
    let output = runlore()
        .args(["events", "track", "--interval", "0.02", "--job", "a job", "--json", "--sink"])
        .arg(&sink)
        .arg("--output")
        .arg(&file)
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "it is the command's own");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let statistics: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(statistics["session_status"], "completed");
    let load = |path: &Path| runlore_events(path);
    let (written, sunk) = (load(&file), load(&sink));
    assert_eq!(written, sunk);
    assert_eq!(written.first().map(|event| event.event_type.clone()).as_deref(), Some("start"));
    assert!(written.iter().all(|event| event.job_id.as_deref() == Some("a job")));
    if cfg!(target_os = "linux") {
        let most =
            written.iter().filter_map(|event| event.metadata.get("processes")?.as_u64()).max();
        assert!(most >= Some(2), "the shell and what it started: {most:?}");
    }
}

/// Before it runs its program, a new process has the memory of the one that started it.
#[cfg(target_os = "linux")]
#[test]
fn what_this_program_holds_is_not_taken_for_the_commands() {
    for _ in 0..4 {
        let args = ["events", "track", "--interval", "0.001", "--resident", "8", "--json", "--"];
        let output = runlore().args(args).args(["sleep", "0.05"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let statistics: Value = serde_json::from_str(&told).expect("nothing else is told");
        assert!(statistics["peak_memory"].as_u64() < Some(8 << 20), "{told}");
        assert!(statistics["samples"].as_u64() > Some(0), "{told}");
    }
}

/// A command of which there is more than this program itself has had is known by the system, however seldom it is sampled.
#[cfg(target_os = "linux")]
#[test]
fn a_peak_between_two_samples_is_told() {
    let script = "x = bytearray(150 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1";
    let args = ["events", "track", "--interval", "1h", "--no-alert", "jump", "--json", "--"];
    let output = runlore().args(args).args(["python3", "-c", script]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let statistics: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    assert!(statistics["peak_memory"].as_u64() > Some(150 << 20), "{told}");
}

#[test]
fn a_command_that_is_not_there_costs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
    fs::write(&old, "precious").unwrap();
    for file in [&old, &new] {
        let track = ["events", "track", "--output"];
        let said = told_by(runlore().args(track).arg(file).args(["--", "no-such-command"]));
        assert!(said.contains("cannot run no-such-command: "), "{said}");
        assert!(said.ends_with("--- exit code Some(127)\n"), "{said}");
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "precious");
    assert!(!new.exists());
}

#[cfg(unix)]
#[test]
fn the_exit_code_is_the_commands_whatever_becomes_of_its_events() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}/");
    let args = ["events", "track", "--push", &url, "--", "sh", "-c", "exit 3"];
    let said = told_by(runlore().args(args));
    assert!(said.contains(" events did not reach http://127.0.0.1"), "{said}");
    assert!(said.ends_with("--- exit code Some(3)\n"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_has_ended_is_not_tracked() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    // Nobody has waited for it, so it is still listed.
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = child.id().to_string();
    let said = told_by(runlore().args(["events", "track", "--duration", "1", "--pid", &pid]));
    child.wait().unwrap();
    let expected =
        format!("--- stderr\nrunlore: there is no process {pid}\n--- exit code Some(1)\n");
    assert_eq!(said, expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_tracked_until_it_ends_and_what_was_asked_for_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let (file, dumps) = (folder.path().join("events"), folder.path().join("dumps"));
    let mut child = std::process::Command::new("sleep").arg("1").spawn().unwrap();
    let pid = child.id().to_string();
    let args = ["events", "track", "--interval", "0.02", "--warning", "0.0000001", "--critical"];
    let output = runlore()
        .args(args)
        .args(["0.0000002", "--format", "jsonl", "--pid", &pid, "--output"])
        .arg(&file)
        .arg("--dumps")
        .arg(&dumps)
        .output()
        .unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("CRITICAL: "), "{told}");
    let events = runlore_events(&file);
    let count = |kind: &str| events.iter().filter(|event| event.event_type == kind).count();
    assert!(count("sample") > 1 && count("critical") == 1, "{events:?}");
    assert_eq!(events.last().map(|event| &*event.event_type), Some("stop"));

    // What the flight recorder leaves is opened by whatever opens events.
    let dump = fs::read_dir(&dumps).unwrap().next().unwrap().unwrap().path();
    let picture = folder.path().join("dump.svg");
    let converted = folder.path().join("dump.csv");
    for (command, more) in [
        ("validate", vec![]),
        ("sessions", vec![]),
        ("stats", vec![]),
        ("analyze", vec![]),
        ("convert", vec![converted.to_str().unwrap(), "--schema", "4"]),
        ("timeline", vec!["--output", picture.to_str().unwrap()]),
    ] {
        let output = runlore().args(["events", command]).arg(&dump).args(more).output().unwrap();
        // Of a session that was cut short that is told, and 2 says that something was found.
        assert!(matches!(output.status.code(), Some(0 | 2)), "{command}: {output:?}");
    }
    assert!(!runlore_events(&converted).is_empty());
    assert!(fs::read_to_string(&picture).unwrap().contains("<svg"));
}

fn runlore_events(path: &Path) -> Vec<runlore::events::TelemetryEvent> {
    let loaded = runlore::events::load(path).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    loaded.sessions.into_iter().next().unwrap().events
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_tracking_well() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = runlore()
        .args(["events", "track", "--interval", "0.01", "--sink"])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let manifest = folder.path().join("manifest.json");
    while !manifest.exists() {
        if let Some(status) = process.try_wait().unwrap() {
            panic!("it ended before it was interrupted: {status}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let killed =
        std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("samples in ") && told.contains("\npeak "), "{told}");
    let events = runlore_events(folder.path());
    assert_eq!(events.last().map(|event| &*event.event_type), Some("stop"));
}

#[test]
fn what_cannot_be_tracked_is_told_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for (args, said) in [
        (vec!["--interval", "0"], "give a time above 0; see `runlore events track --help`"),
        (vec!["--interval", "1000000000"], "give 1 ms to 24 h"),
        (vec!["--duration", "soon"], "give a number of seconds, or a duration such as"),
        (vec!["--warning", "99", "--critical", "90"], "99 and 90 percent"),
        (vec!["--no-alert", "jump,noise"], "invalid value 'noise'"),
        (vec!["--sink", file], "cannot write to the sink"),
        (vec!["--output", file], "name it *.json, *.jsonl or *.csv, or add --format"),
        (
            vec!["--gpus", "--output", "x.json", "--schema", "3"],
            "schema 3 cannot represent unknown values",
        ),
        (vec!["--resident", "64"], "--resident needs a command or --pid"),
        (vec!["--dumps", file], "cannot write dumps to"),
        (vec!["--push", "nowhere"], "is no URL that events can be sent to"),
        (
            vec!["--push", "http://h/", "--header", "bad name: x"],
            "begins with `bad` cannot be sent",
        ),
        (vec!["--push", "http://h/", "--spool", file], "cannot spool to"),
    ] {
        let said_by = told_by(runlore().args(["events", "track"]).args(&args));
        let lines: Vec<_> = said_by.lines().collect();
        assert_eq!(lines.len(), 3, "{said_by}");
        assert!(lines[1].starts_with("runlore: ") && lines[1].contains(said), "{said_by}");
        assert_eq!(lines[2], "--- exit code Some(1)");
    }
    let missing = told_by(runlore().args(["events", "track", "--", "no-such-command"]));
    assert!(missing.ends_with("--- exit code Some(127)\n"), "{missing}");
}

/// Answers one request; its headers and how many events it had.
fn answer_once(listener: TcpListener) -> JoinHandle<(String, usize)> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() <= 2 {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (&stream).write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (head, body["events"].as_array().unwrap().len())
    })
}

#[test]
fn a_file_is_pushed_and_what_does_not_arrive_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = answer_once(listener);
    let file = stormlog("v043/alerts_events.json");
    let told = told_by(runlore().args(["events", "push"]).arg(&file).arg(&url));
    assert_eq!(told, "45 events sent in 1 request\n");
    assert_eq!(server.join().unwrap().1, 45);

    let away = told_by(runlore().args(["events", "push", "--retries", "0"]).arg(&file).arg(&url));
    assert!(away.contains("does not take events") && away.contains("exit code Some(1)"), "{away}");
}

#[test]
fn tracking_can_sign_in_and_keeps_what_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let track = |url: &str| {
        let mut command = runlore();
        command.args(["events", "track", "--duration", "0.1", "--push", url, "--spool"]);
        command.arg(&spool).args(["--header", "Authorization: Bearer abc"]);
        command
    };
    let batches = || {
        let names = fs::read_dir(&spool).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".spool")).count()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/");
    let told = told_by(&mut track(&url));
    assert!(!told.contains("exit code"), "nothing is lost: {told}");
    assert_eq!(batches(), 1);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = answer_once(listener);
    told_by(&mut track(&url));
    let (head, events) = server.join().unwrap();
    assert!(head.to_lowercase().contains("authorization: bearer abc\r\n"), "{head}");
    assert!(events > 0 && batches() <= 1, "the first of two batches was taken");

    let alone = told_by(runlore().args(["events", "track", "--spool", "x", "--duration", "0.1"]));
    assert!(alone.contains("--push <URL>"), "{alone}");
}
