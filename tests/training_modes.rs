//! `instrumentation.ml` in the settings: how much of a training loop is recorded. Settings are a process's own, so each case
//! is one.

use runlore::record::TaskObject;
use runlore::settings::{LoopMode, Search};
use runlore::store::jsonl::{self, Loaded};
use runlore::{task, workflow};

use crate::support::{child, expect_success, is_child};
use crate::training_loops::{ADJUSTED, check_times_and_links};

#[test]
fn child_process() {
    if !is_child("training_modes::child_process") {
        return;
    }
    let run = workflow("train").start().unwrap();
    for epoch in run.epochs(0..5) {
        for (step, batch) in epoch.batches("train", 0..2) {
            task("forward").run(|| ());
            step.generated("loss", batch);
        }
        epoch.generated("val_loss", 0.5);
    }
    for (step, _) in run.iterate("fold", 0..1).mode(LoopMode::Lightweight) {
        drop(step);
    }
    run.finish().unwrap();
}

fn recorded(settings: &[(&str, &str)]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child("training_modes::child_process");
    command.current_dir(folder.path()).env("RUNLORE_TELEMETRY_CAPTURE__MACHINE_INFO", "no");
    for (key, value) in settings {
        command.env(format!("RUNLORE_INSTRUMENTATION__{key}"), value);
    }
    expect_success(&command.output().unwrap());
    // A run that records nothing makes no folder.
    jsonl::load(folder.path().join("runlore")).unwrap_or_default()
}

fn named<'a>(loaded: &'a Loaded, name: &str) -> Vec<&'a TaskObject> {
    loaded.tasks.iter().filter(|task| task.activity_id.as_deref() == Some(name)).collect()
}

fn is_measured(task: &TaskObject) -> bool {
    assert_eq!(task.telemetry_at_start.is_some(), task.telemetry_at_end.is_some());
    task.telemetry_at_start.is_some()
}

#[test]
fn epochs_have_telemetry_and_batches_are_lightweight_unless_told_otherwise() {
    let loaded = recorded(&[]);
    let (epochs, batches) =
        (named(&loaded, "epochs_loop_iteration"), named(&loaded, "train_batch_iteration"));
    assert_eq!((epochs.len(), batches.len()), (5, 10));
    for epoch in epochs {
        assert!(is_measured(epoch) && epoch.resources.is_some() && epoch.capture.is_some());
    }
    for task in batches.into_iter().chain(named(&loaded, "fold_iteration")) {
        assert!(!is_measured(task) && task.resources.is_none() && task.capture.is_none());
        assert!(task.duration_ns.is_some() && task.ended_at.is_some());
    }
}

#[test]
fn default_measures_an_iteration_as_any_task() {
    let lightweight = ("ML__PARENT_MODE", "lightweight");
    let loaded = recorded(&[("ML__BATCH_LOOP", "default"), lightweight]);
    assert!(named(&loaded, "epochs_loop_iteration").iter().all(|task| !is_measured(task)));
    for batch in named(&loaded, "train_batch_iteration") {
        assert!(is_measured(batch) && batch.resources.is_some() && batch.capture.is_some());
    }
    let loaded = recorded(&[("ML__EPOCH_LOOP", "default"), lightweight]);
    assert!(named(&loaded, "train_batch_iteration").iter().all(|task| !is_measured(task)));
    let epochs = named(&loaded, "epochs_loop_iteration");
    assert_eq!(epochs.len(), 5);
    assert!(epochs.iter().all(|epoch| is_measured(epoch) && epoch.resources.is_some()));
}

#[test]
fn nothing_makes_a_loop_bare() {
    let loaded = recorded(&[("TORCH__EPOCH_LOOP", "~")]);
    assert!(named(&loaded, "epochs_loop_iteration").is_empty());
    let batches = named(&loaded, "train_batch_iteration");
    assert_eq!(batches.len(), 10);
    assert!(batches.iter().all(|batch| batch.parent_task_id.is_none()), "the run is around them");

    let loaded = recorded(&[("ML__BATCH_LOOP", "~")]);
    assert!(named(&loaded, "train_batch_iteration").is_empty());
    let epochs = named(&loaded, "epochs_loop_iteration");
    let ids: Vec<_> = epochs.iter().map(|epoch| Some(&epoch.task_id)).collect();
    let forwards = named(&loaded, "forward");
    assert_eq!(forwards.len(), 10);
    assert!(forwards.iter().all(|task| ids.contains(&task.parent_task_id.as_ref())));

    let loaded = recorded(&[("ENABLED", "no")]);
    assert!(loaded.tasks.is_empty());
}

#[test]
fn epochs_are_recorded_at_every_so_many() {
    let loaded = recorded(&[("ML__CAPTURE_EPOCHS_AT_EVERY", "2")]);
    let epochs = named(&loaded, "epochs_loop_iteration");
    let numbers = |name| -> Vec<_> {
        epochs.iter().map(|epoch| epoch.used.as_ref().unwrap()[name].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers("i"), numbers("epoch")), (vec![0, 2, 4], vec![0, 2, 4]));
    let batches = named(&loaded, "train_batch_iteration");
    assert_eq!(batches.len(), 6, "batches of other epochs are left out with them");
    for batch in &batches {
        let parent = batch.parent_task_id.as_ref().unwrap();
        assert!(epochs.iter().any(|epoch| epoch.task_id == *parent));
    }
    check_times_and_links(&loaded.tasks);
    let starts: Vec<_> = epochs.iter().map(|epoch| epoch.started_at.unwrap()).collect();
    assert!(starts.is_sorted_by(|before, after| before - ADJUSTED <= *after), "{starts:?}");
    let forwards = named(&loaded, "forward");
    assert_eq!(forwards.len(), 10, "ordinary tasks are not");
    assert_eq!(forwards.iter().filter(|task| task.parent_task_id.is_none()).count(), 4);
}

#[test]
fn the_section_goes_by_flowcepts_name_too() {
    let text = "instrumentation:\n  torch:\n    batch_loop: default\n    epoch_loop: ~\n";
    let loaded = Search::nowhere().text("settings.yaml", text).load();
    assert!(loaded.problems().is_empty(), "{:?}", loaded.problems());
    let ml = &loaded.settings.instrumentation.ml;
    assert_eq!((ml.batch_loop, ml.epoch_loop), (Some(LoopMode::Default), None));
    let origin = loaded.keys().into_iter().find(|key| key.path == "instrumentation.ml.batch_loop");
    assert_eq!(origin.unwrap().origin.to_string(), "settings.yaml:3");

    for (used, ignored) in [("ml", "torch"), ("torch", "ml")] {
        let both = format!(
            "instrumentation:\n  {used}: {{batch_loop: default}}\n  {ignored}: {{batch_loop: ~}}\n"
        );
        let loaded = Search::nowhere().text("settings.yaml", &both).load();
        let problems: Vec<_> = loaded.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [format!(
                "settings.yaml:3:3: `ml` and `torch` in instrumentation are the same section: `{used}`, the first, \
                 is used, and `{ignored}` is ignored"
            )]
        );
        assert_eq!(loaded.settings.instrumentation.ml.batch_loop, Some(LoopMode::Default));
    }
}

#[test]
fn a_wrong_value_is_told_with_the_right_ones() {
    let problem = |text: &str| {
        let loaded = Search::nowhere().text("settings.yaml", text).load();
        loaded.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(problem("instrumentation:\n  torch:\n    batch_loop: fast\n"), @"settings.yaml:3:17: instrumentation.ml.batch_loop must be one of `lightweight`, `default` and `~`, not `fast`");
    insta::assert_snapshot!(problem("instrumentation:\n  ml:\n    what: children\n"), @"settings.yaml:3:11: instrumentation.ml.what must be one of `parent_and_children`, `parent_only` and `~`, not `children`");
    insta::assert_snapshot!(problem("instrumentation:\n  ml:\n    children_mode: tensor\n"), @"settings.yaml:3:20: instrumentation.ml.children_mode must be one of `telemetry_and_tensor_inspection`, `telemetry`, `tensor_inspection` and `lightweight`, not `tensor`");
    insta::assert_snapshot!(problem("instrumentation:\n  ml:\n    capture_epochs_at_every: 0\n"), @"settings.yaml:3:30: instrumentation.ml.capture_epochs_at_every must be from 1 to 4294967295");
}
