//! Help, mistakes and stores that are not as they should be.

use std::fs;
use std::path::Path;

use crate::support::{data, runlore, told, told_by};

#[test]
fn every_help_has_an_example() {
    for command in [
        &[][..],
        &["demo"],
        &["run"],
        &["recover"],
        &["ls"],
        &["tasks"],
        &["show"],
        &["tree"],
        &["doctor"],
        &["settings"],
    ] {
        let text = told_by(runlore().args(command).arg("--help"));
        assert!(text.contains("Example"), "{text}");
        assert!(!text.contains("--- exit code"), "{text}");
    }
}

#[test]
fn a_store_is_not_named_in_vain() {
    insta::assert_snapshot!(told(["copy", "a", "b"]), @"
    --- stderr
    runlore: `--store` has no effect with this command: `runlore copy FROM TO` names both stores
    --- exit code Some(1)
    ");
    for command in [
        &["replay", "a", "--to", "b"][..],
        &["settings", "show"],
        &["events", "stats", "a.jsonl"],
        &["compare", "--events", "a.jsonl", "--baseline", "b.json"],
        &["emit", "--metric", "x=1"],
        &["emit", "summary", "a.jsonl"],
    ] {
        let told = told(command);
        assert!(told.contains("`--store` has no effect with this command: "), "{told}");
        assert!(told.ends_with("--- exit code Some(1)\n"), "{told}");
    }
}

#[test]
fn only_commands_that_take_a_store_show_it_in_their_help() {
    let shows = |command: &[&str]| {
        let help = told_by(runlore().args(command).arg("--help"));
        assert!(help.contains("Usage: runlore"), "{help}");
        help.contains("--store <PATH|URI>")
    };
    for command in [
        &[][..],
        &["demo"],
        &["run"],
        &["ls"],
        &["tree"],
        &["compare"],
        &["doctor"],
        &["recover"],
        &["emit", "import"],
        #[cfg(feature = "report")]
        &["events", "timeline"],
    ] {
        assert!(shows(command), "{command:?}");
    }
    for command in [
        &["copy"][..],
        &["replay"],
        &["settings"],
        &["settings", "show"],
        &["settings", "init"],
        &["events"],
        &["events", "track"],
        &["events", "convert"],
        &["emit"],
        &["emit", "summary"],
    ] {
        assert!(!shows(command), "{command:?}");
    }
    assert!(!told(["help", "copy"]).contains("--store <PATH|URI>"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (args, part) in [
        (&["compare", "a001", "a002", "--baseline", "x.json"][..], "--baseline"),
        (&["compare", "a001", "a002", "--save-baseline", "x.json"], "--save-baseline"),
        (&["report", "-o", "report.pdf"], "name it *.html, *.md or *.json"),
    ] {
        let told = told(args);
        assert!(told.contains(part) && told.ends_with("--- exit code Some(1)\n"), "{told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}", folder.path().display());
    let told = told_by(runlore().args(["--store", &uri, "ls"]));
    assert!(told.contains("is a folder") && told.ends_with("--- exit code Some(1)\n"), "{told}");
}

#[test]
fn an_output_goes_into_a_folder_that_is_made_for_it() {
    let events =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/stormlog/analysis/clean.json");
    let events = events.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = data();
    let data = data.to_str().unwrap();
    for (args, written) in [
        (&["--store", data, "analyze", "-o", "a/new/findings.json"][..], "a/new/findings.json"),
        #[cfg(feature = "report")]
        (&["--store", data, "report", "-o", "b/new/report.html"], "b/new/report.html"),
        #[cfg(feature = "report")]
        (&["events", "timeline", events, "-o", "c/new/run.svg"], "c/new/run.svg"),
        (&["events", "analyze", events, "-o", "d/new/findings.txt"], "d/new/findings.txt"),
        (
            &["compare", "--events", events, "--save-baseline", "e/new/memory.json"],
            "e/new/memory.json",
        ),
        (&["events", "convert", events, "f/new/run.csv", "--schema", "4"], "f/new/run.csv"),
        (&["events", "track", "--duration", "0.01", "-o", "g/new/run.jsonl"], "g/new/run.jsonl"),
        (
            &["events", "track", "--duration", "0.01", "--sink", "h/new/sink"],
            "h/new/sink/manifest.json",
        ),
        (
            &["events", "diagnose", "--duration", "0.01", "-o", "i/new/diag"],
            "i/new/diag/manifest.json",
        ),
        (&["emit", "--metric", "x=1", "--path", "j/new/metrics.jsonl"], "j/new/metrics.jsonl"),
        (
            &["emit", "--metric", "x=1", "--backend", "sqlite", "--path", "j/other/m.db"],
            "j/other/m.db",
        ),
        (&["settings", "init", "k/new/settings.yaml"], "k/new/settings.yaml"),
        (&["copy", data, "l/new/copy"], "l/new/copy"),
        (&["copy", data, "sqlite://m/new/copy.db"], "m/new/copy.db"),
    ] {
        // Findings have an exit code of their own.
        let told = told_by(runlore().current_dir(&folder).args(args));
        assert!(folder.path().join(written).exists(), "{args:?}: {told}");
        assert!(!told.contains("--- exit code Some(1)"), "{args:?}: {told}");
    }
}

#[test]
fn txt_is_text() {
    let told = |format| told(["analyze", "--fail-on", "never", "--format", format]);
    assert_eq!(told("txt"), told("text"));
    assert!(!told("txt").contains("--- stderr"), "{}", told("txt"));
    let emitted = told_by(runlore().args(["emit", "--metric", "x=1", "--backend", "txt"]));
    assert!(emitted.contains("Metrics: x=1"), "{emitted}");
}

#[test]
fn a_mistake_is_one_sentence_and_exit_code_1() {
    insta::assert_snapshot!(told(["ls", "--nope"]), @r#"
    --- stderr
    runlore: unexpected argument '--nope' found; see `runlore ls --help`
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told(["show"]), @r#"
    --- stderr
    runlore: the following required arguments were not provided: <ID>; see `runlore show --help`
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told(["lss"]), @r#"
    --- stderr
    runlore: unrecognized subcommand 'lss'; a similar subcommand exists: 'ls'
    --- exit code Some(1)
    "#);
    assert!(told_by(&mut runlore()).contains("--- exit code Some(1)"));
}

#[test]
fn a_store_that_is_not_there_says_how_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(told_by(runlore().current_dir(&folder).arg("ls")), @r#"
    --- stderr
    runlore: nothing recorded here yet: the folder ./runlore does not exist; run a program that starts a workflow, or try `runlore demo`
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told_by(runlore().current_dir(&folder).args(["show", "abcd"])), @r#"
    --- stderr
    runlore: nothing recorded here yet: the folder ./runlore does not exist; run a program that starts a workflow, or try `runlore demo`
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told_by(runlore().current_dir(&folder).args(["ls", "--store", "."])), @r#"
    --- stderr
    runlore: nothing recorded here yet: . has no records; run a program that starts a workflow, or try `runlore demo`
    --- exit code Some(1)
    "#);
}

#[test]
fn the_store_is_found_by_option_variable_or_default() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("runlore");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("w.jsonl"), r#"{"type":"workflow","workflow_id":"w","name":"default"}"#)
        .unwrap();
    assert!(told_by(runlore().current_dir(&folder).arg("ls")).contains("default"));
    let by_variable =
        told_by(runlore().current_dir(&folder).env("RUNLORE_STORE", data()).arg("ls"));
    assert!(by_variable.contains("evaluate"), "{by_variable}");
    let by_option = told_by(
        runlore().env("RUNLORE_STORE", data()).arg("ls").arg("--store").arg(other.join("w.jsonl")),
    );
    assert!(by_option.contains("default"), "{by_option}");
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let good = r#"{"type":"task","task_id":"t1","workflow_id":"w","activity_id":"load"}"#;
    fs::write(folder.path().join("w.jsonl"), format!("{good}\n1\n2\n3\n4\n{{\"to")).unwrap();
    insta::assert_snapshot!(told_by(runlore().current_dir(&folder).args(["tree", "--store", "."])), @r#"
    load
    --- stderr
    runlore: ./w.jsonl, line 2: a record must be a JSON object, found a number; the line is left out
    runlore: ./w.jsonl, line 3: a record must be a JSON object, found a number; the line is left out
    runlore: ./w.jsonl, line 4: a record must be a JSON object, found a number; the line is left out
    runlore: 2 more problems of this kind
    "#);
}
