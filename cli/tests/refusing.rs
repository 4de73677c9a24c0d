//! What cannot be analysed, diagnosed, reported or compared: exit code 1, one sentence, and nothing is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{data, runlore};

/// A line of JSON of this kind is no record and no event.
const HOSTILE: &[u8] = b"\xef\xbb\xbf{\"type\": tru\r\n\
    \xe2\x80\xa8not json\r\n\
    {\"type\":\"task\",\"task_id\":\"\xff\xfe\"}\r\n\
    {\"type\":\"task\",\"task_id\":\"torn";

/// Everything that the cases are about, in one folder.
struct Workplace {
    folder: TempDir,
}

impl Workplace {
    fn new() -> Self {
        let workplace = Self { folder: TempDir::new().unwrap() };
        let path = |name: &str| workplace.path(name);
        fs::create_dir(path("empty")).unwrap();
        fs::create_dir(path("other")).unwrap();
        fs::write(path("other/notes.txt"), "nothing of ours").unwrap();
        fs::write(path("file.txt"), "a file").unwrap();
        fs::create_dir(path("taken.html")).unwrap();
        fs::write(path("hostile.jsonl"), HOSTILE).unwrap();
        let deep = format!("{{\"x\":{}{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
        fs::write(path("deep.jsonl"), deep).unwrap();
        fs::write(path("nothing.jsonl"), "").unwrap();
        fs::write(path("none.json"), "[]").unwrap();
        fs::write(path("binary.csv"), [0, 159, 146, 150]).unwrap();
        let noise: Vec<u8> = (0..4000_u32).map(|at| (at * at / 7 % 256) as u8).collect();
        fs::write(path("binary.jsonl"), noise).unwrap();
        fs::write(path("other.json"), r#"{"a": 1}"#).unwrap();
        fs::write(path("null.json"), "null").unwrap();
        fs::write(path("empty.json"), "").unwrap();
        fs::write(path("no.db"), "This is no database.".repeat(100)).unwrap();
        workplace.databases();
        workplace.sinks();
        workplace.references();
        workplace
    }

    /// A database that is fine, made a newer one, and one with a broken page.
    fn databases(&self) {
        let good = self.path("good.db");
        let uri = format!("sqlite://{}", good.display());
        let copied = runlore().arg("copy").arg(data()).arg(&uri).output().unwrap();
        assert!(copied.status.success(), "{copied:?}");
        let bytes = fs::read(&good).unwrap();
        let mut newer = bytes.clone();
        // Where a file of SQLite has its user version.
        newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
        fs::write(self.path("newer.db"), newer).unwrap();
        let mut broken = bytes;
        let page = usize::from(u16::from_be_bytes([broken[16], broken[17]]));
        // The first page tells the tables; all that is in them is overwritten.
        broken[page..].fill(0xa5);
        fs::write(self.path("broken.db"), broken).unwrap();
        fs::remove_file(good).unwrap();
    }

    /// Sinks whose manifests or links lead out of them.
    fn sinks(&self) {
        let outside = self.path("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret.jsonl"), event()).unwrap();
        for name in ["named", "linked"] {
            fs::create_dir(self.path(name)).unwrap();
            let segment = match name {
                "named" => "../outside/secret.jsonl",
                _ => "segment-000001.jsonl",
            };
            let manifest = json!({
                "format": "stormlog.telemetry_sink", "schema_version": 1, "version": 1, "session_id": "s",
                "segments": [{"filename": segment, "file": segment, "event_count": 1}],
            });
            fs::write(self.path(name).join("manifest.json"), manifest.to_string()).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(
            outside.join("secret.jsonl"),
            self.path("linked").join("segment-000001.jsonl"),
        )
        .unwrap();
    }

    fn references(&self) {
        fs::write(self.path("run.jsonl"), event().repeat(3)).unwrap();
        fs::write(self.path("report.json"), r#"{"run": {"name": "train"}, "tasks": {}}"#).unwrap();
        let newer = r#"{"format": "runlore.reference", "version": 9, "series": []}"#;
        fs::write(self.path("newer.json"), newer).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything that is there, with its length; but for what SQLite keeps beside a file for those who read it.
    fn seen(&self) -> BTreeMap<PathBuf, u64> {
        fn walk(folder: &Path, seen: &mut BTreeMap<PathBuf, u64>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.to_string_lossy().ends_with("-shm")
                    || path.to_string_lossy().ends_with("-wal")
                {
                    continue;
                }
                let facts = path.symlink_metadata().unwrap();
                seen.insert(path.clone(), if facts.is_file() { facts.len() } else { 0 });
                if facts.is_dir() {
                    walk(&path, seen);
                }
            }
        }
        let mut seen = BTreeMap::new();
        walk(self.folder.path(), &mut seen);
        seen
    }

    /// Runs the program in the folder.
    fn run(&self, arguments: &[&str]) -> Output {
        runlore().current_dir(self.folder.path()).args(arguments).output().unwrap()
    }

    /// The sentences on standard error; everything else that a refusal promises is checked here.
    fn refused(&self, arguments: &[&str]) -> Vec<String> {
        let before = self.seen();
        let output = self.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert_eq!(self.seen(), before, "{arguments:?} must leave nothing behind");
        let sentences: Vec<String> = said.lines().map(str::to_owned).collect();
        for sentence in &sentences {
            assert!(sentence.starts_with("runlore: "), "{arguments:?}: {said}");
            assert!(sentence.len() < 700, "{arguments:?}: {said}");
        }
        sentences
    }

    /// One sentence, with this in it.
    fn refused_with(&self, arguments: &[&str], part: &str) {
        let sentences = self.refused(arguments);
        assert_eq!(sentences.len(), 1, "{arguments:?}: {sentences:#?}");
        assert!(sentences[0].contains(part), "{arguments:?}: {}", sentences[0]);
    }
}

/// One event, as a line.
fn event() -> String {
    let event = json!({
        "schema_version": 3, "session_id": "s", "timestamp_ns": 1_700_000_000_000_000_000_u64, "event_type": "sample",
        "collector": "c", "sampling_interval_ms": 1000, "pid": 1, "host": "h", "device_id": 0,
        "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 2, "allocator_active_bytes": null,
        "allocator_inactive_bytes": null, "allocator_change_bytes": 0, "device_used_bytes": 2, "device_free_bytes": null,
        "device_total_bytes": 9, "context": null, "metadata": {},
    });
    format!("{event}\n")
}

/// What asks a store for runs.
const OF_RUNS: [&[&str]; 5] = [
    &["analyze", "train"],
    &["analyze", "train", "--output", "out.html"],
    &["report", "train", "-o", "out.html"],
    &["report", "train", "--format", "md"],
    &["compare", "train", "train", "--fail-on", "duration:+10%"],
];

/// What reads events.
const OF_EVENTS: [&[&str]; 4] = [
    &["events", "analyze"],
    &["events", "analyze", "--output", "out.html"],
    &["compare", "--save-baseline", "new.json", "--events"],
    &["compare", "--baseline", "newer.json", "--events"],
];

#[test]
fn a_store_without_runs_is_told_in_one_sentence() {
    let workplace = Workplace::new();
    for (store, part) in [
        ("missing", "nothing recorded here yet: the folder missing does not exist"),
        ("missing.db", "nothing recorded here yet: the file missing.db does not exist"),
        ("empty", "nothing recorded here yet: empty has no records"),
        ("other", "nothing recorded here yet: other has no records"),
        ("nothing.jsonl", "nothing recorded here yet"),
        ("sqlit://runs.db", "no store for `sqlit://` that could be read"),
        ("sqlite:runs.db", "`sqlite:runs.db` lacks slashes"),
        ("sqlite://", "`sqlite://` names no file"),
        ("postgres://h/db", "no store for `postgres://`"),
        ("sqlite://no.db", "no.db is not an SQLite database"),
        ("sqlite://newer.db", "was made by a newer version of Runlore"),
        ("sqlite://broken.db", "broken.db"),
    ] {
        for command in OF_RUNS {
            workplace.refused_with(&[&["--store", store], command].concat(), part);
        }
    }
}

#[test]
fn a_run_that_is_not_there_is_told_with_the_nearest_name() {
    let workplace = Workplace::new();
    let data = data();
    let store = ["--store", data.to_str().unwrap()];
    for command in [
        &["analyze", "trian"][..],
        &["report", "trian", "-o", "out.html"],
        &["compare", "trian", "train"],
        &["compare", "train", "trian"],
    ] {
        let part = "has the id or name \"trian\"; did you mean `train`? `runlore ls` lists them";
        workplace.refused_with(&[&store, command].concat(), part);
    }
    workplace.refused_with(
        &[&store[..], &["report", "nobody", "-o", "out.html"]].concat(),
        "has the id or name \"nobody\"; `runlore ls` lists them",
    );
}

#[test]
fn lines_that_cannot_be_read_are_told_one_by_one() {
    let workplace = Workplace::new();
    for command in OF_RUNS {
        let sentences = workplace.refused(&[&["--store", "hostile.jsonl"], command].concat());
        let told: Vec<&str> = sentences.iter().map(|it| &it["runlore: ".len()..]).collect();
        assert!(told[0].starts_with("hostile.jsonl, line 1: not JSON at column 12"), "{told:#?}");
        assert!(told[1].starts_with("hostile.jsonl, line 2: not JSON"), "{told:#?}");
        assert!(told[2].starts_with("hostile.jsonl, line 3: not UTF-8"), "{told:#?}");
        assert!(told[3].contains("1 more problem of this kind"), "{told:#?}");
        assert!(told[4].starts_with("nothing recorded here yet"), "{told:#?}");
        assert_eq!(told.len(), 5, "{told:#?}");

        let deep = workplace.refused(&[&["--store", "deep.jsonl"], command].concat());
        assert!(deep[0].contains("deep.jsonl, line 1: not JSON") && deep.len() == 2, "{deep:#?}");
    }
    for command in OF_EVENTS {
        for (file, part) in [
            ("hostile.jsonl", "hostile.jsonl at line 1: "),
            ("deep.jsonl", "deep.jsonl"),
            ("other.json", "other.json: JSON payload does not contain telemetry events"),
            ("null.json", "null.json: "),
            ("empty.json", "empty.json: "),
            ("binary.jsonl", "binary.jsonl"),
        ] {
            workplace.refused_with(&[command, &[file]].concat(), part);
            let sentences = workplace.refused(&[command, &[file]].concat());
            assert!(sentences[0].ends_with("; nothing to analyze"), "{sentences:#?}");
        }
    }
}

#[test]
fn lines_that_can_be_read_are_enough() {
    let workplace = Workplace::new();
    let mut text = HOSTILE.to_vec();
    text.extend(b"\n{\"type\":\"workflow\",\"workflow_id\":\"w\",\"name\":\"train\",\"started_at\":1.0,\"ended_at\":2.0}\r\n");
    text.extend(b"{\"type\":\"task\",\"task_id\":\"t\",\"workflow_id\":\"w\",\"activity_id\":\"a\xe2\x80\xa8b\",\"started_at\":1.0,\"ended_at\":2.0,\"status\":\"FINISHED\"}\r\n");
    fs::write(workplace.path("mixed.jsonl"), text).unwrap();
    for command in OF_RUNS {
        let output = workplace.run(&[&["--store", "mixed.jsonl"], command].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}: {said}");
        // Of a run beside itself there is one thing more to say.
        let told = 4 + usize::from(command[0] == "compare");
        assert_eq!(said.lines().count(), told, "{command:?}: {said}");
        assert!(said.lines().all(|line| line.starts_with("runlore: ")), "{said}");
    }
    assert!(fs::read_to_string(workplace.path("out.html")).unwrap().contains("</html>"));
}

#[test]
fn files_without_events_are_told_in_one_sentence() {
    let workplace = Workplace::new();
    for (file, part) in [
        ("missing", "cannot read missing: No such file or directory"),
        ("missing.jsonl", "cannot read missing.jsonl: No such file or directory"),
        ("empty", "empty has no event files"),
        ("other", "other has no event files"),
        ("nothing.jsonl", "no events in nothing.jsonl"),
        ("none.json", "no events in none.json"),
        ("binary.csv", "cannot read binary.csv: it is no CSV"),
    ] {
        for command in OF_EVENTS {
            workplace.refused_with(&[command, &[file]].concat(), part);
        }
    }
}

#[test]
fn nothing_outside_of_a_sink_is_read() {
    let workplace = Workplace::new();
    for command in OF_EVENTS {
        for sink in ["named", "linked"] {
            let sentences = workplace.refused(&[command, &[sink]].concat());
            let all = sentences.join("\n");
            assert!(all.contains(sink), "{all}");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_told_in_one_sentence() {
    let workplace = Workplace::new();
    let data = data();
    let of_run = |command: &'static str| vec!["--store", data.to_str().unwrap(), command, "fit"];
    let of_events = vec!["events", "analyze", "run.jsonl", "--fail-on", "never"];
    for (output, part) in [
        ("taken.html", "cannot write taken.html: Is a directory"),
        ("file.txt/out.html", "cannot write file.txt/out.html: Not a directory"),
        ("/proc/nothing/out.html", "cannot write /proc/nothing/out.html"),
    ] {
        for command in [of_run("analyze"), of_run("report"), of_events.clone()] {
            workplace.refused_with(&[&command[..], &["--output", output]].concat(), part);
        }
        let compare = ["compare", "--events", "run.jsonl", "--save-baseline", output];
        workplace.refused_with(&compare, part);
    }
    for (output, part) in [
        ("file.txt", "cannot write file.txt"),
        ("file.txt/diag", "cannot write file.txt/diag"),
        ("/proc/nothing", "cannot write /proc/nothing"),
    ] {
        let diagnose = ["events", "diagnose", "--duration", "0.01", "--output", output];
        workplace.refused_with(&diagnose, part);
    }
}

#[test]
fn what_is_asked_for_wrongly_is_told_in_one_sentence() {
    let workplace = Workplace::new();
    let data = data();
    let store = ["--store", data.to_str().unwrap()];
    let cases: [(&[&str], &str); 6] = [
        (
            &["--threshold", "gap_ration=1"],
            "there is no threshold `gap_ration`; did you mean `gap_ratio`?",
        ),
        (&["--threshold", "gap_ratio"], "write NAME=VALUE"),
        (&["--threshold", "gap_ratio=much"], "`gap_ratio` cannot be \"much\""),
        (&["--fail-on", "warnings"], "did you mean `warning`?"),
        (&["--fail-on", ""], "neither a severity nor a kind of finding"),
        (&["--format", "pdf"], "invalid value 'pdf' for '--format"),
    ];
    for (wrong, part) in cases {
        workplace.refused_with(&[&store[..], &["analyze", "fit"], wrong].concat(), part);
        workplace.refused_with(&[&["events", "analyze", "run.jsonl"], wrong].concat(), part);
    }
    let cases: [(&[&str], &str); 8] = [
        (&["report", "fit", "--format", "pdf"], "invalid value 'pdf' for '--format"),
        (&["report", "fit", "-o"], "a value is required for '--output"),
        (&["compare", "fit", "train", "--fail-on", "speed:+1%"], "there is no figure"),
        (&["compare", "fit", "train", "--fail-on", "duration"], "does not say how much is allowed"),
        (&["compare", "fit", "train", "--fail-on", "duration:fast"], "is not a change such as"),
        (&["compare", "fit"], "required arguments were not provided"),
        (&["events", "diagnose", "--duration", "soon"], "invalid value 'soon' for '--duration"),
        (&["events", "diagnose", "--interval", "-1"], "unexpected argument '-1'"),
    ];
    for (wrong, part) in cases {
        workplace.refused_with(&[&store[..], wrong].concat(), part);
    }
}

#[test]
fn a_reference_of_another_kind_is_told_in_one_sentence() {
    let workplace = Workplace::new();
    for (baseline, part) in [
        ("report.json", "name event files, or a file written by --save-baseline"),
        ("no.db", "name event files, or a file written by --save-baseline"),
        ("newer.json", "newer.json: it has version 9, of which this program knows nothing"),
        ("missing.json", "missing.json: No such file or directory"),
        ("empty", "empty has no event files"),
    ] {
        let compare = ["compare", "--events", "run.jsonl", "--baseline", baseline];
        workplace.refused_with(&compare, part);
    }
}
