//! `demo` and `run`: the program records, too.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{runlore, told_by};

fn times_hidden() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"  [\d.]+ (ns|µs|ms|s)\b", "");
    settings.add_filter(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[id]");
    settings.bind_to_scope()
}

#[test]
fn the_demo_leaves_a_file_of_another_program_alone() {
    let folder = tempfile::tempdir().unwrap();
    let in_store = |store: &str| {
        let told = told_by(runlore().current_dir(&folder).args(["--store", store, "demo"]));
        told.replace(&folder.path().canonicalize().unwrap().display().to_string(), "HERE")
    };
    in_store("theirs.db");
    let theirs = folder.path().join("theirs.db");
    let mut bytes = fs::read(&theirs).unwrap();
    // Where a file of SQLite has the mark of the program that made it.
    bytes[68..72].copy_from_slice(b"Abcd");
    fs::write(&theirs, &bytes).unwrap();
    fs::write(folder.path().join("text.db"), "no database at all").unwrap();
    fs::write(folder.path().join("empty.db"), "").unwrap();
    let files = || {
        let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    };
    let before = files();
    insta::assert_snapshot!(in_store("theirs.db"), @r#"
    --- stderr
    runlore: HERE/theirs.db is a database of another program: give a file that Runlore made, or a new one
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(in_store("sqlite://text.db"), @r#"
    --- stderr
    runlore: HERE/text.db is not an SQLite database: give a file that Runlore made, or a new one: file is not a database
    --- exit code Some(1)
    "#);
    assert_eq!((files(), fs::read(&theirs).unwrap()), (before, bytes));
    let told = in_store("empty.db");
    assert!(told.starts_with("recorded run") && !told.contains("---"), "{told}");
}

#[test]
fn the_demo_leaves_something_to_look_at() {
    let _settings = times_hidden();
    let folder = tempfile::tempdir().unwrap();
    let here = || {
        let mut command = runlore();
        command.current_dir(&folder);
        command
    };
    insta::assert_snapshot!(told_by(here().arg("demo")), @r#"recorded run [id] in ./runlore; `runlore tree demo --values` shows it"#);
    insta::assert_snapshot!(told_by(here().args(["tree", "--values"])), @r#"
    demo  FINISHED
    └─ pipeline  FINISHED  names=["north","south","west"] → stations=2
       ├─ load  FINISHED  station="north" → readings=[3.5,4.0,2.5]
       ├─ average  FINISHED  station="north" readings=[3.5,4.0,2.5] → mean=3.3333333333333335
       ├─ load  FINISHED  station="south" → readings=[18.0,21.5,19.0]
       ├─ average  FINISHED  station="south" readings=[18.0,21.5,19.0] → mean=19.5
       ├─ load  FINISHED  station="west" → readings=[]
       └─ average  ERROR  station="west" readings=[]  station west has no readings
    "#);
}

#[test]
fn all_stores_of_the_settings_are_recorded_into() {
    let _settings = times_hidden();
    let folder = tempfile::tempdir().unwrap();
    let settings = "databases:\n  sqlite:\n    enabled: yes\n";
    std::fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let here = |args: &[&str]| told_by(runlore().current_dir(&folder).args(args));
    insta::assert_snapshot!(here(&["demo"]), @r#"recorded run [id] in sqlite://runlore/runlore.db and ./runlore; `runlore tree demo --values` shows it"#);
    here(&["run", "--name", "both", "--", "true"]);
    for store in ["runlore", "runlore/runlore.db"] {
        let runs = here(&["--store", store, "ls"]);
        assert!(runs.contains("demo") && runs.contains("both"), "{store}: {runs}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_real_run_tells_what_its_tasks_used() {
    let folder = tempfile::tempdir().unwrap();
    let here = || {
        let mut command = runlore();
        command.current_dir(&folder);
        command
    };
    told_by(here().arg("demo"));
    let task = told_by(here().args(["tasks", "--json"])).lines().next().unwrap().to_owned();
    let task: Value = serde_json::from_str(&task).unwrap();
    for figure in ["cpu_ns", "minor_faults", "voluntary_switches", "write_bytes", "rss_bytes"] {
        assert!(task["resources"][figure]["inclusive"].is_i64(), "{figure}: {task:#}");
    }
    let shown = told_by(here().args(["show", task["task_id"].as_str().unwrap()]));
    for line in ["cpu time", "memory", "written", "page faults", "switches", "cost"] {
        assert!(shown.lines().any(|shown| shown.trim_start().starts_with(line)), "{shown}");
    }
    let tree = told_by(here().args(["tree", "--resources"]));
    assert!(tree.lines().skip(1).all(|row| row.contains("µs") || row.contains("ms")), "{tree}");
    let runs: Value = serde_json::from_str(&told_by(here().args(["ls", "--json"]))).unwrap();
    assert!(runs["cpu_ns"].as_u64() > Some(0), "{runs:#}");
}

#[test]
fn a_command_is_a_task_and_keeps_its_exit_code() {
    let _settings = times_hidden();
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = runlore();
        command.arg("--store").arg(folder.path()).args(args);
        told_by(&mut command)
    };
    insta::assert_snapshot!(run(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]), @r#"
    out
    --- stderr
    err
    --- exit code Some(3)
    "#);
    insta::assert_snapshot!(run(&["tree", "--values"]), @r#"
    sh  ERROR, exit 3  the command ended with exit status: 3
    └─ sh  ERROR  argv=["sh","-c","echo out; echo err >&2; exi… → exit_code=3  the command ended with exit status: 3
    "#);
    insta::assert_snapshot!(run(&["run", "--name", "fine", "--", "true"]), @r"");
    insta::assert_snapshot!(run(&["tree", "--values"]), @r#"
    fine  FINISHED
    └─ true  FINISHED  argv=["true"] → exit_code=0
    "#);
    insta::assert_snapshot!(run(&["run", "--", "sh", "-c", "kill -TERM $$"]), @r#"--- exit code Some(143)"#);
    insta::assert_snapshot!(run(&["run", "--", "no-such-command"]), @r#"
    --- stderr
    runlore: cannot run no-such-command: No such file or directory (os error 2)
    --- exit code Some(127)
    "#);
    insta::assert_snapshot!(run(&["tree"]), @r#"
    no-such-command  ERROR, exit 127  No such file or directory (os error 2)
    └─ no-such-command  ERROR  No such file or directory (os error 2)
    "#);
    let file = folder.path().join("not-executable");
    std::fs::write(&file, "").unwrap();
    let answer = run(&["run", "--", file.to_str().unwrap()]);
    assert!(answer.ends_with("--- exit code Some(126)\n"), "{answer}");
}

#[test]
fn secrets_on_a_command_line_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runlore();
    command.arg("--store").arg(folder.path()).args([
        "run",
        "--",
        "true",
        "--password",
        "hunter2",
        "--token",
        "-hunter2",
        "--api-key=hunter2",
        "pg://ann:hunter2@db/x",
        "-v",
    ]);
    assert!(command.status().unwrap().success());
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("pg://ann:[redacted]@db/x"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_signal_is_left_to_the_command_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runlore();
    command.arg("--store").arg(folder.path()).args([
        "run",
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 60",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "up\n");
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("SIGTERM"), "{text}");
}

#[cfg(unix)]
#[test]
fn what_a_killed_program_left_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let recover = || {
        let mut command = runlore();
        command.arg("--store").arg(folder.path()).arg("recover");
        told_by(&mut command)
    };
    // `runlore run` itself is killed while its command runs.
    let mut command = runlore();
    command.arg("--store").arg(folder.path()).args([
        "run",
        "--",
        "sh",
        "-c",
        "kill -9 $PPID; echo done",
    ]);
    assert!(!command.stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(recover(), "recovered the records of 1 dead process: 0 ended tasks, 1 open tasks\n");
    assert_eq!(recover(), format!("nothing to recover in {}\n", folder.path().display()));
    let mut command = runlore();
    command.arg("--store").arg(folder.path()).arg("tree");
    let tree = told_by(&mut command);
    let shown = tree.starts_with("sh  INTERRUPTED") && tree.contains("└─ sh  INTERRUPTED");
    assert!(shown, "{tree}");
}

/// The task of a command, as it was recorded.
#[cfg(unix)]
fn recorded(command: &[&str]) -> Value {
    told_after(command, "tasks")
}

/// What is told of a command that was recorded.
#[cfg(unix)]
fn told_after(command: &[&str], question: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let store = || {
        let mut command = runlore();
        command.arg("--store").arg(folder.path());
        command
    };
    store().args(["run", "--"]).args(command).stderr(Stdio::null()).status().unwrap();
    serde_json::from_str(&told_by(store().args([question, "--json"]))).unwrap()
}

#[cfg(unix)]
#[test]
fn the_memory_of_a_command_is_recorded() {
    // The peak of whoever started the program is none of the command's either.
    let larger = std::hint::black_box(vec![1_u8; 80 << 20]);
    let task = recorded(&["dd", "if=/dev/zero", "of=/dev/null", "bs=50000000", "count=1"]);
    let child = &task["resources"]["child"];
    let peak = child["peak_rss_bytes"].as_u64();
    assert!(peak >= Some(50_000_000) && peak < Some(larger.len() as u64), "{task:#}");
    assert!(child["minor_faults"].as_u64() > Some(0), "{task:#}");
    #[cfg(target_os = "linux")]
    assert!(child["read_chars"].as_u64() >= Some(50_000_000), "{task:#}");
}

/// A peak that is only that of the program which ran the command is none of the command's.
#[cfg(target_os = "linux")]
#[test]
fn what_the_system_does_not_tell_of_a_command_has_a_reason() {
    let task = recorded(&["true"]);
    let child = &task["resources"]["child"];
    assert!(child.get("peak_rss_bytes").is_none(), "{task:#}");
    let reason = child["unavailable"]["peak_rss_bytes"].as_str().unwrap();
    assert!(reason.contains("that of runlore itself"), "{reason}");
}

#[cfg(target_os = "linux")]
#[test]
fn stats_show_what_a_command_used_and_never_the_memory_of_this_program() {
    let large = ["dd", "if=/dev/zero", "of=/dev/null", "bs=50000000", "count=1"];
    let stats = told_after(&large, "stats");
    assert!(stats["peak_rss_bytes"].as_u64() >= Some(50_000_000), "{stats}");
    let stats = told_after(&["true"], "stats");
    assert!(stats["cpu_ns"].is_u64() && stats.get("peak_rss_bytes").is_none(), "{stats}");
}

#[cfg(unix)]
#[test]
fn the_processor_time_of_a_command_is_recorded() {
    let task = recorded(&["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]);
    let resources = &task["resources"];
    let time = |name: &str| resources["child"][name].as_u64().unwrap();
    let time = time("user_ns") + time("system_ns");
    assert!(time > 1_000_000, "{task:#}");
    assert!(resources["cpu_ns"]["inclusive"].as_u64().unwrap() >= time, "{task:#}");
    assert!(resources["cpu_ns"]["self"].as_u64().unwrap() < time, "{task:#}");
}

#[cfg(unix)]
#[test]
fn the_signal_that_ended_a_command_is_recorded() {
    let task = recorded(&["sh", "-c", "kill -KILL $$"]);
    let expected = serde_json::json!({"exit_code": 137, "exit_signal": 9, "core_dumped": false});
    assert_eq!(task["generated"], expected);
    assert_eq!(task["status"], "ERROR");
    assert!(task["resources"]["child"]["user_ns"].is_u64(), "{task:#}");
}

/// The reading is of the command and of the children that it waited for, not of this program.
#[cfg(target_os = "linux")]
#[test]
fn what_a_command_wrote_is_recorded() {
    let task = recorded(&["sh", "-c", "head -c 3000000 /dev/zero | cat > /dev/null"]);
    let child = &task["resources"]["child"];
    assert!(child["write_chars"].as_u64() >= Some(6_000_000), "{task:#}");
    assert!(child["write_bytes"].is_u64() && child["read_bytes"].is_u64(), "{task:#}");
}

/// `runlore run` asks for no telemetry here; what the command used costs nothing to know.
#[cfg(unix)]
#[test]
fn a_command_tells_what_it_used_without_telemetry_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = "telemetry_capture: {cpu: no, mem: no, process_info: no}\n";
    std::fs::write(folder.path().join("settings.yaml"), text).unwrap();
    let here = || {
        let mut command = runlore();
        command.current_dir(&folder);
        command
    };
    assert!(here().args(["run", "--", "true"]).status().unwrap().success());
    let task: Value = serde_json::from_str(&told_by(here().args(["tasks", "--json"]))).unwrap();
    assert!(task.get("telemetry_at_start").is_none(), "{task:#}");
    let resources = task["resources"].as_object().unwrap();
    assert_eq!(resources.keys().collect::<Vec<_>>(), ["child"], "{task:#}");
}
