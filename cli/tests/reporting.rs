//! `report` and `events timeline`: one file that opens anywhere, and one sentence where that cannot be.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{data, runlore, told_by};

fn stormlog(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/stormlog").join(name)
}

#[test]
fn a_timeline_is_what_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, begins) in [("a.png", "\u{89}PNG"), ("a.SVG", "<svg"), ("a.html", "<!DOCTYPE html>")]
    {
        let output = folder.path().join(name);
        let told = told_by(
            runlore()
                .args(["events", "timeline"])
                .arg(stormlog("v043/events.json"))
                .arg("-o")
                .arg(&output),
        );
        assert_eq!(told, "", "{name}");
        let written = fs::read(&output).unwrap();
        let begins: Vec<u8> = begins.chars().map(|character| character as u32 as u8).collect();
        assert!(written.starts_with(&begins), "{name}");
    }
    // Nothing is left beside them.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn what_cannot_be_drawn_is_told_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    let cases: [(&Path, PathBuf); 5] = [
        (&stormlog("v043/events.json"), folder.path().join("picture")),
        (&stormlog("v043/events.json"), folder.path().join("empty.jsonl/picture.svg")),
        (&stormlog("does-not-exist.json"), folder.path().join("a.svg")),
        (&stormlog("loader/a1.json"), folder.path().join("a.svg")),
        (&empty, folder.path().join("a.svg")),
    ];
    let mut all = String::new();
    for (file, output) in &cases {
        all += &told_by(runlore().args(["events", "timeline"]).arg(file).arg("-o").arg(output));
    }
    let all = all
        .replace(&folder.path().display().to_string(), "FOLDER")
        .replace(&stormlog("").display().to_string(), "STORMLOG/");
    insta::with_settings!({filters => vec![(r"\.\d+\.part", ".PID.part")]}, {
        insta::assert_snapshot!(all);
    });
}

#[test]
fn a_report_has_the_form_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let report =
        |args: &[&str]| told_by(runlore().arg("--store").arg(data()).arg("report").args(args));
    insta::assert_snapshot!(report(&["a001", "--format", "md"]));
    let page = folder.path().join("report.html");
    assert_eq!(report(&["a001", "-o", page.to_str().unwrap()]), "");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("disk full") && html.contains("No space left on device"));
    let json: serde_json::Value =
        serde_json::from_str(&report(&["a001", "--format", "json"])).unwrap();
    assert_eq!(json["failures"][0]["message"], "disk full");
}

#[test]
fn a_report_of_nothing_is_told_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let torn = folder.path().join("torn.jsonl");
    fs::write(&torn, "{\"type\":\"task\",\"task_id\":\"t1\",\"started_at\":\"soon\"}\nnot json\n")
        .unwrap();
    let mut all = String::new();
    for (store, run) in [(data(), "no-such-run"), (folder.path().join("none"), "x"), (torn, "x")] {
        all += &told_by(
            runlore()
                .arg("--store")
                .arg(&store)
                .args(["report", run, "-o"])
                .arg(folder.path().join("r.html")),
        );
    }
    insta::assert_snapshot!(all.replace(&folder.path().display().to_string(), "FOLDER"));
}
