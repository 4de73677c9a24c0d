//! Settings are not only read: they do what they say.

use std::path::Path;
use std::process::{Command, Output};

use runlore::record::{Status, TaskObject};
use runlore::settings::Settings;
use runlore::store::jsonl::{self, Loaded};
use runlore::{task, telemetry_task};

use crate::support::{child, expect_success, is_child};

#[telemetry_task]
fn work(items: Vec<String>, pin: &str) -> usize {
    _ = pin;
    items.len()
}

#[telemetry_task(summarise = "full")]
fn values(numbers: &[f64], bytes: &[u8], text: &str, whole: Vec<bool>) {
    _ = (numbers, bytes, text, whole);
}

#[telemetry_task]
#[inline(never)]
fn panics(items: &[u32]) -> u32 {
    items[std::hint::black_box(3)]
}

#[inline(never)]
fn panics_by_itself() {
    panic!("by itself");
}

fn call() -> usize {
    work(vec!["item".to_owned(); 10], "hunter2")
}

fn scenario(name: &str, folder: &Path, settings: &[(&str, &str)]) -> Output {
    let mut command: Command = child("settings_in_force::child_process");
    command.current_dir(folder).env("SCENARIO", name);
    for (key, value) in settings {
        command.env(format!("RUNLORE_{key}"), value);
    }
    let output = command.output().unwrap();
    expect_success(&output);
    output
}

fn recorded(name: &str, settings: &[(&str, &str)]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    scenario(name, folder.path(), settings);
    jsonl::load(folder.path().join("runlore")).unwrap_or_default()
}

#[test]
fn child_process() {
    if !is_child("settings_in_force::child_process") {
        return;
    }
    match std::env::var("SCENARIO").unwrap().as_str() {
        "call" => assert_eq!(call(), 10),
        "workflow" => {
            let run = runlore::workflow("set").start().unwrap();
            assert_eq!(call(), 10);
            run.finish().unwrap();
        }
        "values" => {
            let run = runlore::workflow("set").start().unwrap();
            let numbers: Vec<f64> = (0..65).map(f64::from).collect();
            values(&numbers, &[b'x'; 200], &"long ".repeat(100), vec![true; 100]);
            run.finish().unwrap();
        }
        "panics" => {
            let run = runlore::workflow("set").start().unwrap();
            let outer = runlore::task("outer");
            let panicked = std::panic::catch_unwind(|| outer.run(|| panics(&[1, 2, 3])));
            assert!(panicked.is_err());
            // One of another thread: this one has not heard it.
            let other = std::thread::spawn(|| panic!("elsewhere")).join().unwrap_err();
            let resumes = || task("resumes").run(|| std::panic::resume_unwind(other));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(resumes)).is_err());
            let guarded = || {
                let _guard = task("guarded").start();
                panics_by_itself();
            };
            assert!(std::panic::catch_unwind(guarded).is_err());
            run.finish().unwrap();
        }
        "configured" => {
            let mut settings = Settings::default();
            settings.instrumentation.limits.items = 3;
            runlore::configure(settings).unwrap();
            runlore::workflow("set").run(call).unwrap();
            let error = runlore::configure(Settings::default()).unwrap_err();
            assert!(error.to_string().contains("before the first workflow"), "{error}");
        }
        "flat out" => {
            let run = runlore::workflow("set").start().unwrap();
            let before = runlore::stats();
            for n in 0..20_000 {
                task("n").used("n", n).run(|| ());
            }
            let totals = run.finish().unwrap();
            let after = runlore::stats();
            assert_eq!(totals.tasks + totals.dropped, 20_000, "{totals:?}");
            assert_eq!(totals.dropped, after.dropped - before.dropped);
            println!("dropped: {}", totals.dropped);
        }
        other => panic!("no scenario {other}"),
    }
}

fn the_task(loaded: &Loaded) -> &TaskObject {
    assert_eq!(loaded.tasks.len(), 1);
    &loaded.tasks[0]
}

#[test]
fn an_implicit_workflow_is_there_only_when_it_is_asked_for() {
    assert!(recorded("call", &[]).tasks.is_empty());
    let loaded = recorded("call", &[("INSTRUMENTATION__IMPLICIT_WORKFLOW", "yes")]);
    the_task(&loaded);
    assert_eq!(loaded.workflows[0].status, Some(Status::Finished));
}

#[test]
fn instrumentation_can_be_turned_off() {
    let loaded = recorded("workflow", &[("INSTRUMENTATION__ENABLED", "no")]);
    assert!(loaded.tasks.is_empty() && loaded.workflows.is_empty());
}

#[test]
fn limits_hashes_and_names_are_as_set() {
    let loaded = recorded(
        "workflow",
        &[
            ("INSTRUMENTATION__LIMITS__ITEMS", "4"),
            ("INSTRUMENTATION__HASH", "none"),
            ("INSTRUMENTATION__REDACT", "[pin]"),
            ("EXPERIMENT__USER", "ann"),
            ("SYS_METADATA__ENVIRONMENT_ID", "lab"),
            ("EXTRA_METADATA", "{grant: 7, api_key: hunter2}"),
        ],
    );
    let task = the_task(&loaded);
    assert_eq!(task.used.as_ref().unwrap()["items"]["first"].as_array().unwrap().len(), 4);
    assert_eq!(task.used.as_ref().unwrap()["pin"], "[redacted]");
    assert_eq!(task.hashes, None);
    let workflow = &loaded.workflows[0];
    assert_eq!(workflow.user.as_deref(), Some("ann"));
    assert_eq!(workflow.environment_id.as_deref(), Some("lab"));
    assert_eq!(workflow.extra_metadata.as_ref().unwrap()["grant"], 7);
    assert_eq!(workflow.settings.as_ref().unwrap()["instrumentation"]["limits"]["items"], 4);
    let everything = serde_json::to_string(workflow).unwrap();
    assert!(!everything.contains("hunter2"), "{everything}");
}

#[test]
fn the_place_in_a_larger_job_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child("settings_in_force::child_process");
    command.current_dir(folder.path()).env("SCENARIO", "workflow");
    command.env("RANK", "2").env("WORLD_SIZE", "4").env("SLURM_JOB_ID", "j7");
    command.env_remove("LOCAL_RANK").env_remove("TORCHELASTIC_RUN_ID");
    expect_success(&command.output().unwrap());
    let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
    let task = the_task(&loaded);
    assert_eq!((task.rank, task.local_rank, task.world_size), (Some(2), Some(2), Some(4)));
    assert_eq!(task.job_id.as_deref(), Some("j7"));
    assert_eq!(loaded.workflows[0].extra["rank"], 2);
}

#[test]
fn a_rank_that_cannot_be_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child("settings_in_force::child_process");
    command.current_dir(folder.path()).env("SCENARIO", "workflow");
    command.env("RANK", "9").env("WORLD_SIZE", "4");
    for other in ["LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"] {
        command.env_remove(other);
    }
    let output = command.output().unwrap();
    expect_success(&output);
    let why =
        "RANK=9, WORLD_SIZE=4 cannot be: RANK and LOCAL_RANK are numbers from 0 to WORLD_SIZE - 1";
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches(&format!("runlore: {why}\n")).count(), 1, "{said}");
    let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
    let workflow = &loaded.workflows[0];
    assert_eq!(workflow.unavailable.as_ref().unwrap()["rank"], why);
    assert_eq!((workflow.extra.get("rank"), the_task(&loaded).rank), (None, None));
}

#[test]
fn the_user_is_the_login_name_where_nobody_says_more() {
    let user = |variables: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = child("settings_in_force::child_process");
        command.current_dir(folder.path()).env("SCENARIO", "workflow");
        for name in ["USER", "LOGNAME", "USERNAME"] {
            command.env_remove(name);
        }
        command.env("RUNLORE_SYS_METADATA__LOGIN_NAME", "ann").envs(variables.iter().copied());
        expect_success(&command.output().unwrap());
        let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
        loaded.workflows[0].user.clone()
    };
    assert_eq!(user(&[]).as_deref(), Some("ann"));
    assert_eq!(user(&[("USER", ""), ("LOGNAME", "ben")]).as_deref(), Some("ben"));
    assert_eq!(
        user(&[("USER", "eve"), ("RUNLORE_EXPERIMENT__USER", "zoe")]).as_deref(),
        Some("zoe")
    );
}

#[cfg(feature = "blake3")]
#[test]
fn values_are_hashed_with_blake3() {
    let settings =
        [("INSTRUMENTATION__HASH", "blake3"), ("INSTRUMENTATION__LIMITS__VALUE_BYTES", "100")];
    let loaded = recorded("values", &settings);
    let task = the_task(&loaded);
    let hashes = &task.hashes.as_ref().unwrap()["used"];
    // A byte for `f64`, then the numbers; the bytes as such: as another implementation computes them.
    let numbers = "blake3:e7541beb8936bba7523c126cdd250d2fc770c9039d6cff1a053d1c9ab0878d34";
    assert_eq!(hashes["numbers"], numbers);
    let bytes = "blake3:41f27fa4b0ad47675bc00d81795d312523d20ddab8e84cbb3907ea57e3500d44";
    assert_eq!(hashes["bytes"], bytes);
    let text = runlore::record::blake3_of(&serde_json::json!("long ".repeat(100)));
    assert_eq!(hashes["text"], text.as_str());
    let whole = runlore::record::blake3_of(&serde_json::json!(vec![true; 100]));
    assert_eq!(hashes["whole"], whole.as_str());
}

#[test]
fn panics_tell_where_they_came_from_if_asked() {
    let loaded = recorded("panics", &[("INSTRUMENTATION__BACKTRACE", "yes")]);
    let frames = |name: &str| {
        let task = loaded.tasks.iter().find(|task| task.name() == name).unwrap();
        let error = task.error.as_ref().unwrap();
        assert_eq!(error.kind.as_deref(), Some("panic"));
        error.backtrace.clone()
    };
    let inner = frames("panics");
    assert!(inner[0].starts_with("suite::settings_in_force::panics"), "{inner:#?}");
    // Only a program with debug information knows the place.
    assert_eq!(
        inner[0].contains("tests/settings_in_force.rs:"),
        cfg!(debug_assertions),
        "{inner:#?}"
    );
    assert!(inner.len() > 1, "{inner:#?}");
    let is_foreign = |frame: &String| frame.contains("/rustc/") || frame.starts_with("runlore::");
    assert!(!inner.iter().any(is_foreign), "{inner:#?}");
    assert!(frames("outer").is_empty(), "it is told once");
    assert!(frames("resumes").is_empty(), "it was another thread's");
    assert!(frames("guarded")[0].contains("panics_by_itself"), "{:#?}", frames("guarded"));

    let loaded = recorded("panics", &[]);
    assert!(loaded.tasks.iter().all(|task| task.error.as_ref().unwrap().backtrace.is_empty()));
}

#[test]
fn settings_can_be_made_in_code() {
    let task = recorded("configured", &[]);
    assert_eq!(
        the_task(&task).used.as_ref().unwrap()["items"]["first"].as_array().unwrap().len(),
        3
    );
}

#[test]
fn a_mistake_in_the_settings_is_told_once_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("settings.yaml"), "instrumentation:\n  enabld: yes\n")
        .unwrap();
    let output = scenario("workflow", folder.path(), &[]);
    let told = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = told.lines().filter(|line| line.starts_with("runlore:")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(
        lines[0].contains("settings.yaml:2:3") && lines[0].contains("did you mean `enabled`?"),
        "{told}"
    );
    assert_eq!(jsonl::load(folder.path().join("runlore")).unwrap().tasks.len(), 1);
}

#[test]
fn a_full_queue_spills_waits_or_drops_and_counts() {
    let dropped = |when_full: &str| {
        let folder = tempfile::tempdir().unwrap();
        let settings = [
            ("RECORDER__WHEN_FULL", when_full),
            ("RECORDER__RING_BYTES", "16KiB"),
            // On a busy machine the writer may stand still for longer than by default a task waits.
            ("RECORDER__MAX_WAIT_MS", "60s"),
            ("TELEMETRY_CAPTURE__CPU", "no"),
            ("TELEMETRY_CAPTURE__PROCESS_INFO", "no"),
            ("TELEMETRY_CAPTURE__MEM", "no"),
        ];
        let output = scenario("flat out", folder.path(), &settings);
        let told = String::from_utf8(output.stdout).unwrap();
        let dropped: u64 = told
            .split("dropped: ")
            .nth(1)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let tasks = jsonl::load(folder.path().join("runlore")).unwrap().tasks.len() as u64;
        assert_eq!(tasks + dropped, 20_000);
        dropped
    };
    assert_eq!(dropped("spill"), 0);
    assert_eq!(dropped("block"), 0);
    assert!(dropped("drop") > 0);
}

#[test]
fn what_a_process_leaves_depends_on_durability() {
    for (durability, rings) in [("process", true), ("system", true), ("memory", false)] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("runlore");
        let run = child("settings_in_force::while_it_runs")
            .current_dir(folder.path())
            .env("RUNLORE_RECORDER__DURABILITY", durability)
            .output()
            .unwrap();
        expect_success(&run);
        let told = String::from_utf8(run.stdout).unwrap();
        assert!(told.contains(&format!("rings: {rings}")), "{durability}: {told}");
        assert!(
            told.contains(&format!("synced: {}", durability == "system")),
            "{durability}: {told}"
        );
        assert_eq!(jsonl::load(&store).unwrap().tasks.len(), 1);
        assert!(!store.join(".rings").exists());
    }
}

#[test]
fn while_it_runs() {
    if is_child("settings_in_force::while_it_runs") {
        let run = runlore::workflow("set").start().unwrap();
        call();
        println!("rings: {}", Path::new("runlore/.rings").exists());
        run.finish().unwrap();
        println!("synced: {}", runlore::stats().synced > 0);
    }
}
