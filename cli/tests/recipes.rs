//! The recipes of the guide do what they say: each is run as it stands there.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

/// The part of a guide about CI.
fn guide(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs").join(name)).unwrap();
    let (_, from) = text.split_once("## In CI").unwrap();
    from.split("\n## ").next().unwrap().to_owned()
}

/// The blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&*fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Files of events of a run that holds so many MiB more each second, and records of a run.
fn workplace(growing: u64) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("artifacts")).unwrap();
    fs::create_dir(path("records")).unwrap();
    let events = |growing: u64| -> String {
        let event = |at: u64| {
            let held = (1000 + at * growing) << 20;
            json!({
                "schema_version": 3, "session_id": "s", "timestamp_ns": (1_700_000_000 + at) * 1_000_000_000,
                "event_type": "sample", "collector": "c", "sampling_interval_ms": 1000, "pid": 1, "host": "h",
                "device_id": 0, "allocator_allocated_bytes": held, "allocator_reserved_bytes": held,
                "allocator_active_bytes": null, "allocator_inactive_bytes": null, "allocator_change_bytes": 0,
                "device_used_bytes": held, "device_free_bytes": null, "device_total_bytes": 16_u64 << 30,
                "context": null, "metadata": {},
            })
        };
        (0..60).map(|at| format!("{}\n", event(at))).collect()
    };
    fs::write(path("good.jsonl"), events(0)).unwrap();
    fs::write(path("artifacts/run.jsonl"), events(growing)).unwrap();
    // Of two runs the second is the one in question.
    let mut records = String::new();
    for (run, name, growing, began) in [("g", "good", 0, 0), ("w", "train", growing, 1000)] {
        let length = 60 + growing;
        records += &format!(
            "{{\"type\":\"workflow\",\"workflow_id\":\"{run}\",\"name\":\"{name}\",\"started_at\":{began}.0,\"ended_at\":{}.0}}\n",
            began + length
        );
        for at in 0..20_u64 {
            let task = json!({
                "type": "task", "task_id": format!("{run}{at}"), "workflow_id": run, "activity_id": "step",
                "subtype": "iteration", "status": "FINISHED", "started_at": (began + at * 3) as f64,
                "duration_ns": 2_000_000_000_u64, "custom_metadata": {"wait_ns": growing * 50_000_000},
            });
            records += &format!("{task}\n");
        }
    }
    fs::write(path("records/run.jsonl"), records).unwrap();
    folder
}

/// Runs a script with the program on the path; stops at the first command that fails, as CI does.
fn exit_code(script: &str, folder: &Path) -> i32 {
    let program = Path::new(env!("CARGO_BIN_EXE_runlore")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .env_remove("RUNLORE_STORE")
        .output()
        .unwrap();
    output.status.code().unwrap()
}

#[test]
fn every_recipe_passes_a_good_run_and_fails_a_bad_one() {
    let guide = guide("analyze.md");
    let recipes = blocks(&guide, "sh");
    let [risk, regression, room, tasks] = recipes[..] else { panic!("{} recipes", recipes.len()) };
    let (good, bad) = (workplace(0), workplace(50));
    for (recipe, left) in
        [(risk, "findings.json"), (regression, "memory.json"), (tasks, "analysis.txt")]
    {
        assert_eq!(exit_code(recipe, good.path()), 0, "{recipe}");
        assert_eq!(exit_code(recipe, bad.path()), 2, "{recipe}");
        assert!(bad.path().join(left).exists(), "{recipe} leaves {left}");
    }

    // The machine is what it is; what counts as room is for thresholds to say.
    fs::write(good.path().join("train"), "#!/bin/sh\ntouch trained\n").unwrap();
    let script = |thresholds: &str| {
        let recipe = room.replace("diagnose", &format!("diagnose --threshold {thresholds}"));
        format!("chmod +x train\nrm -rf diag\n{recipe}")
    };
    let is = |name: &str| good.path().join(name).exists();
    let full = script("utilization_ratio=0");
    assert_eq!(exit_code(&full, good.path()), 2, "{room}");
    assert!(!is("trained") && is("diag/manifest.json"), "nothing is started, and it is told why");
    let free =
        "utilization_ratio=2,available_ratio=0,pressure_ratio=2,container_ratio=2,min_bytes=1TiB";
    assert_eq!(exit_code(&script(free), good.path()), 0, "{room}");
    assert!(is("trained") && is("diag/manifest.json"));
}

#[test]
fn every_step_of_a_job_is_a_command_that_works() {
    let guide = guide("analyze.md");
    let steps: Vec<&str> = blocks(&guide, "yaml")[0]
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- run: "))
        .collect();
    assert_eq!(steps.len(), 2);
    let (good, bad) = (workplace(0), workplace(200));
    for step in &steps {
        assert_eq!(exit_code(step, good.path()), 0, "{step}");
    }
    // A job ends with the first step that fails.
    assert_eq!(exit_code(&steps.join("\n"), bad.path()), 2);
    assert!(bad.path().join("findings.json").exists() && bad.path().join("analysis.txt").exists());
}

#[test]
#[cfg(feature = "report")]
fn every_recipe_for_reports_keeps_one_and_fails_a_bad_run() {
    let guide = guide("report.md");
    let recipes = blocks(&guide, "sh");
    let [keep, regression, risk] = recipes[..] else { panic!("{} recipes", recipes.len()) };
    let (good, bad) = (workplace(0), workplace(50));
    for (recipe, on_bad, left) in [
        (keep, 0, &["report.html", "summary.md"][..]),
        (regression, 2, &["report.html", "comparison.txt"]),
        (risk, 2, &["memory.html"]),
    ] {
        assert_eq!(exit_code(recipe, good.path()), 0, "{recipe}");
        assert_eq!(exit_code(recipe, bad.path()), on_bad, "{recipe}");
        for name in left {
            let kept = bad.path().join(name);
            assert!(fs::metadata(&kept).unwrap().len() > 0, "{recipe} leaves {name}");
            fs::remove_file(kept).unwrap();
        }
    }
}

#[test]
#[cfg(feature = "report")]
fn every_step_of_a_job_with_reports_is_a_command_that_works() {
    let guide = guide("report.md");
    let yaml = blocks(&guide, "yaml")[0];
    let steps: Vec<&str> =
        yaml.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
    let (good, bad) = (workplace(0), workplace(200));
    assert_eq!(steps.len(), 4);
    for (step, on_bad) in steps.into_iter().zip([0, 0, 2, 2]) {
        assert_eq!(exit_code(step, good.path()), 0, "{step}");
        assert_eq!(exit_code(step, bad.path()), on_bad, "{step}");
    }
    for name in ["report.html", "memory.html"] {
        assert!(yaml.contains(name) && bad.path().join(name).exists(), "{name}");
    }
}
