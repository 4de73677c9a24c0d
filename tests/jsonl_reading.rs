//! A folder of JSONL files reads as one store, whatever state its files are in.

use std::fs;
use std::path::Path;

use runlore::record::{Record, Status};
use runlore::store::jsonl::{Loaded, load, read, summaries};
use serde_json::Value;
use tempfile::TempDir;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// The problems, with the folder's own name taken out.
fn problems(folder: &Path, loaded: &Loaded) -> Vec<String> {
    let prefix = format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR);
    loaded.problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

fn ids(loaded: &Loaded) -> Vec<&str> {
    loaded.tasks.iter().map(|task| &*task.task_id).collect()
}

#[test]
fn a_bad_line_costs_no_other_line() {
    let mut text = Vec::new();
    text.extend_from_slice(b"\xef\xbb\xbf{\"task_id\":\"bom\"}\r\n\r\n   \n");
    text.extend_from_slice("{\"task_id\":\"a\u{2028}b\"}\n".as_bytes());
    text.extend_from_slice(b"{\"task_id\":\"\xff\"}\n");
    text.extend_from_slice(b"{\"task_id\": NaN}\n[1]\n");
    text.extend_from_slice(format!("{}\n", "[".repeat(100_000)).as_bytes());
    text.extend_from_slice(b"{\"task_id\":\"last\"}\n{\"task_id\":\"to");
    let folder = folder(&[("a.jsonl", &text), ("b.jsonl", b"{\"task_id\":\"unended\"}")]);

    let loaded = load(folder.path()).unwrap();
    assert_eq!(ids(&loaded), ["bom", "a\u{2028}b", "last", "unended"]);
    insta::assert_snapshot!(problems(folder.path(), &loaded).join("\n"), @r"
    a.jsonl, line 5: not UTF-8 from byte 13; the line is left out
    a.jsonl, line 6: not JSON at column 13 (expected value); the line is left out
    a.jsonl, line 7: a record must be a JSON object, found an array; the line is left out
    a.jsonl, line 8: not JSON at column 128 (recursion limit exceeded); the line is left out
    a.jsonl, line 10: torn: the file ends in the middle of it; the line is left out
    ");
}

#[test]
fn a_line_over_64_mib_is_one_error() {
    let mut text = b"{\"task_id\":\"first\"}\n{\"task_id\":\"".to_vec();
    text.resize(text.len() + (64 << 20), b'x');
    text.extend_from_slice(b"\"}\n{\"task_id\":\"last\"}\n");
    let folder = folder(&[("a.jsonl", &text)]);

    let loaded = load(folder.path()).unwrap();
    assert_eq!(ids(&loaded), ["first", "last"]);
    insta::assert_snapshot!(problems(folder.path(), &loaded).join("\n"), @"a.jsonl, line 2: longer than 64 MiB; the line is left out");
}

#[test]
fn open_tasks_come_from_sidecars_unless_another_line_tells_of_them() {
    let folder = folder(&[
        (
            "a.open.jsonl",
            br#"{"task_id":"t1","status":"RUNNING"}
{"task_id":"t2","status":"RUNNING"}
{"task_id":"t2","status":"RUNNING","pid":1}
{"task_id":"to"#,
        ),
        ("a.jsonl", br#"{"task_id":"t1","status":"FINISHED"}"#),
    ]);
    for path in [folder.path().to_owned(), folder.path().join("a.jsonl")] {
        let loaded = load(path).unwrap();
        let tasks: Vec<_> = loaded.tasks.iter().map(|t| (&*t.task_id, t.status, t.pid)).collect();
        assert_eq!(
            tasks,
            [("t1", Some(Status::Finished), None), ("t2", Some(Status::Running), Some(1))]
        );
        assert_eq!(loaded.problems.len(), 1);
    }
    let alone = read(folder.path().join("a.open.jsonl")).unwrap();
    assert_eq!(alone.filter(Result::is_ok).count(), 3);
}

#[test]
fn the_last_line_of_a_task_wins_and_an_ended_one_wins_over_an_open_one() {
    let folder = folder(&[(
        "a.jsonl",
        br#"
{"task_id":"t1","activity_id":"one","status":"RUNNING","used":{"x":1},"hostname":"old"}
{"task_id":"t1","status":"FINISHED","hostname":"new"}
{"task_id":"t2","status":"ERROR","stderr":"bad"}
{"task_id":"t2","activity_id":"two","status":"RUNNING"}
{"task_id":"t3","status":"CANCELLED","mine":1}
{"task_id":"t3","mine":2}
{"task_id":"t4","activity_id":"a","status":"FINISHED","started_at":1.0}
{"task_id":"t4","activity_id":"a","status":"FINISHED","started_at":1.0}
{"task_id":"t4","activity_id":"b","status":"FINISHED","started_at":1.0}
{"task_id":"t4","activity_id":"b","status":"FINISHED","started_at":1.0,"workflow_id":"w"}
"#,
    )]);
    let loaded = load(folder.path()).unwrap();
    let tasks: Vec<_> = loaded.tasks.iter().map(|t| serde_json::to_string(t).unwrap()).collect();
    insta::assert_snapshot!(tasks.join("\n"), @r#"
    {"type":"task","task_id":"t1","activity_id":"one","status":"FINISHED","used":{"x":1},"hostname":"new"}
    {"type":"task","task_id":"t2","activity_id":"two","status":"ERROR","stderr":"bad"}
    {"type":"task","task_id":"t3","status":"CANCELLED","mine":2}
    {"type":"task","task_id":"t4","activity_id":"a","started_at":1.0,"status":"FINISHED"}
    {"type":"task","task_id":"t4","activity_id":"b","started_at":1.0,"status":"FINISHED"}
    {"type":"task","task_id":"t4","workflow_id":"w","activity_id":"b","started_at":1.0,"status":"FINISHED"}
    "#);
    insta::assert_snapshot!(problems(folder.path(), &loaded).join("\n"), @r#"two different tasks have the id t4: a and b; links to that id may name either"#);
}

#[test]
fn the_records_of_one_workflow_are_joined_across_processes() {
    let folder = folder(&[
        ("w_1_20.jsonl", br#"
{"type":"workflow","workflow_id":"w","pid":20,"started_at":2.0,"status":"RUNNING"}
{"type":"task","task_id":"t2","workflow_id":"w","status":"ERROR"}
{"type":"workflow","workflow_id":"w","pid":20,"started_at":2.0,"ended_at":3.0,"status":"ERROR","totals":{"percent":0.5,"tasks":{"ERROR":1}}}
"#),
        ("w_1_10.jsonl", br#"
{"type":"workflow","workflow_id":"w","pid":10,"name":"train","started_at":1.0,"status":"RUNNING","used":{"x":1}}
{"type":"task","task_id":"t1","workflow_id":"w","status":"FINISHED"}
{"type":"workflow","workflow_id":"w","pid":10,"started_at":1.0,"ended_at":4.0,"status":"FINISHED","totals":{"percent":0.25,"tasks":{"FINISHED":1}}}
"#),
        ("x.jsonl", br#"{"type":"task","task_id":"t3","workflow_id":"x","started_at":9.0}
{"type":"agent","agent_id":"a"}"#),
    ]);
    let loaded = load(folder.path()).unwrap();
    assert_eq!((loaded.workflows.len(), loaded.tasks.len(), loaded.others.len()), (1, 3, 1));
    let expected: Value = serde_json::from_str(
        r#"{"type":"workflow","workflow_id":"w","name":"train","started_at":1.0,"ended_at":4.0,"status":"FINISHED","used":{"x":1},"pid":10,"totals":{"failed_processes":1,"percent":0.25,"tasks":{"ERROR":1,"FINISHED":1}}}"#,
    )
    .unwrap();
    assert_eq!(serde_json::to_value(&loaded.workflows[0]).unwrap(), expected);

    let runs = summaries(folder.path()).unwrap().runs;
    let runs: Vec<_> = runs
        .iter()
        .map(|run| (&*run.workflow.workflow_id, run.workflow.started_at, run.tasks, run.errors))
        .collect();
    assert_eq!(runs, [("w", Some(1.0), 2, 1), ("x", Some(9.0), 1, 0)]);
}

#[test]
fn tasks_are_counted_once_and_as_they_ended() {
    let folder = folder(&[
        (
            "a.jsonl",
            br#"
{"task_id":"t1","workflow_id":"w","status":"RUNNING"}
{"task_id":"t1","workflow_id":"w","status":"ERROR"}
{"task_id":"t1","workflow_id":"w","status":"RUNNING"}
{"task_id":"t1","workflow_id":"w","status":"ERROR"}
{"task_id":"t2","workflow_id":"w","status":"FINISHED"}
"#,
        ),
        (
            "a.open.jsonl",
            br#"{"task_id":"t2","workflow_id":"w","status":"RUNNING"}
{"task_id":"t3","workflow_id":"w","status":"RUNNING"}"#,
        ),
    ]);
    let runs = summaries(folder.path()).unwrap().runs;
    assert_eq!((runs[0].tasks, runs[0].errors, runs[0].running), (3, 1, 1));
}

#[test]
fn records_without_an_id_get_the_same_one_on_every_read() {
    let line = r#"{"type":"task","activity_id":"light","used":{"x":2}}"#;
    let folder = folder(&[("a.jsonl", format!("{line}\n{line}\n").as_bytes())]);
    let once = load(folder.path()).unwrap();
    let again = load(folder.path()).unwrap();
    assert_eq!(ids(&once), ids(&again));
    assert_eq!(once.tasks.len(), 2);
    assert_ne!(once.tasks[0].task_id, once.tasks[1].task_id);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_and_things_that_are_not_files_are_not_opened() {
    let outside = folder(&[("secret.jsonl", br#"{"task_id":"secret"}"#)]);
    let inside = folder(&[("a.jsonl", br#"{"task_id":"a"}"#), ("b.txt", b"text")]);
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, inside.path().join(name)).unwrap();
    };
    link(&outside.path().join("secret.jsonl"), "out.jsonl");
    link(&inside.path().join("a.jsonl"), "in.jsonl");
    link(Path::new("nowhere.jsonl"), "dangling.jsonl");
    fs::create_dir(inside.path().join("folder.jsonl")).unwrap();

    let loaded = load(inside.path()).unwrap();
    assert_eq!(ids(&loaded), ["a"]);
    insta::assert_snapshot!(problems(inside.path(), &loaded).join("\n"), @r#"
    cannot read dangling.jsonl, which is left out: No such file or directory (os error 2)
    folder.jsonl is a folder; it is left out
    out.jsonl is a link out of its folder and is not followed; copy the file there, or read it by its own path
    "#);
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    let folder = folder(&[]);
    let error = read(folder.path().join("none")).err().unwrap();
    assert!(error.to_string().starts_with("cannot read "), "{error}");
    assert!(load(folder.path()).unwrap().tasks.is_empty());
}

#[test]
fn reading_streams() {
    let folder = folder(&[("a.jsonl", b"{\"task_id\":\"t1\"}\n{\"task_id\":\"t2\"}\n")]);
    let mut reader = read(folder.path()).unwrap();
    assert!(matches!(reader.next(), Some(Ok(Record::Task(task))) if task.task_id == "t1"));
    assert!(matches!(reader.next(), Some(Ok(Record::Task(task))) if task.task_id == "t2"));
    assert!(reader.next().is_none());
    assert!(reader.next().is_none());
}
