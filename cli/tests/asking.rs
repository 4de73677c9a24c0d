//! `query`, `stats`, `lineage`, `compare` and `copy`, of a folder and of a database.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{data, runlore, told, told_by};

/// The test data, copied into a database.
fn database(folder: &Path) -> String {
    let file = folder.join("runs.db").display().to_string();
    let told = told_by(runlore().arg("copy").arg(data()).arg(&file));
    assert!(told.starts_with("copied "), "{told}");
    file
}

/// What a command says of the folder; it must say the same of a database with the same records.
fn told_of_both(args: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let file = database(folder.path());
    let of_folder = told(args);
    let of_database = told_by(runlore().arg("--store").arg(&file).args(args));
    assert_eq!(of_folder, of_database.replace(&file, "DATA"));
    of_folder
}

#[test]
fn every_store_is_listed_alike() {
    for args in [
        &["ls"][..],
        &["tasks"],
        &["tree", "train"],
        &["show", "a001"],
        &["tree", "fit", "--resources"],
        &["analyze", "fit"],
        &["analyze", "train", "--format", "json"],
    ] {
        told_of_both(args);
    }
}

#[test]
fn a_query_finds_tasks() {
    insta::assert_snapshot!(told_of_both(&["query", r#"{"status": "ERROR"}"#]));
}

#[test]
fn a_query_shows_the_fields_that_are_asked_for() {
    let fields = ["--fields", "activity_id,status,duration_ns,used"];
    let args = [
        "query",
        r#"{"activity_id": {"$in": ["load", "epoch"]}}"#,
        "--sort",
        "-started_at,activity_id",
    ];
    insta::assert_snapshot!(told_of_both(&[&args[..], &fields].concat()));
}

#[test]
fn a_query_as_csv_has_headings() {
    let args = [
        "query",
        "{}",
        "--sort",
        "started_at,task_id",
        "--fields",
        "activity_id,used,stderr",
        "--csv",
    ];
    insta::assert_snapshot!(told_of_both(&args));
}

#[test]
fn a_query_as_json_is_one_record_a_line() {
    let text =
        told_of_both(&["query", r#"{"activity_id": "train"}"#, "--json", "--sort", "started_at"]);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["activity_id"], "train");
        assert!(record["task_id"].is_string());
    }
    assert!(text.lines().count() > 0);
}

#[test]
fn a_pipeline_groups_tasks() {
    let pipeline = r#"[{"$group": {"_id": "$status", "tasks": {"$sum": 1}, "mean": {"$avg": "$duration_ns"}}}, {"$sort": {"_id": 1}}]"#;
    insta::assert_snapshot!(told_of_both(&["query", pipeline]));
}

#[test]
fn workflows_can_be_asked_for() {
    let args = ["query", "--of", "workflows", "--fields", "name,status", "--sort", "started_at"];
    insta::assert_snapshot!(told_of_both(&args));
}

#[test]
fn what_is_wrong_with_a_query_is_pointed_at() {
    let wrong = [
        r#"{"status": ERROR}"#,
        r#"{"status": {"$gtt": 1}}"#,
        r#"[{"$grup": {}}]"#,
        r#"{"a": {"$regex": "("}}"#,
        r#"{"a": {"$regex": "a++"}}"#,
        "7",
    ];
    let mut all: Vec<String> = wrong.map(|query| told(["query", query])).to_vec();
    all.push(told_of_both(&["query", "--sort", "$x"]));
    all.push(told_of_both(&["query", "--fields", "used.$x"]));
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn a_pipeline_takes_no_options_that_it_has_stages_for() {
    insta::assert_snapshot!(told(["query", "[]", "--limit", "3"]));
}

#[test]
fn a_long_table_is_cut_and_says_so() {
    let folder = TempDir::new().unwrap();
    let lines: String = (0..150)
        .map(|n| format!("{{\"type\":\"task\",\"task_id\":\"t{n:03}\",\"activity_id\":\"a\",\"status\":\"FINISHED\"}}\n"))
        .collect();
    std::fs::write(folder.path().join("many.jsonl"), lines).unwrap();
    let lines_of = |args: &[&str]| {
        let text = told_by(runlore().arg("--store").arg(folder.path()).args(args));
        (text.lines().count(), text)
    };
    let (count, text) = lines_of(&["query", "{}"]);
    assert_eq!(count, 1 + 100 + 2, "{text}");
    assert!(
        text.ends_with("runlore: only the first 100 are shown; `--limit 0` shows all\n"),
        "{text}"
    );
    assert_eq!(lines_of(&["query", "{}", "--limit", "0"]).0, 151);
    assert_eq!(lines_of(&["query", "{}", "--limit", "5"]).0, 6);
    assert_eq!(lines_of(&["query", "{}", "--skip", "145"]).0, 6);
    assert_eq!(lines_of(&["query", "{}", "--json"]).0, 150);
    assert_eq!(lines_of(&["query", "{}", "--limit", &u64::MAX.to_string()]).0, 151);
    assert_eq!(lines_of(&["query", "[]"]).0, 151);
}

#[test]
fn stats_sum_up_a_run() {
    insta::assert_snapshot!(told_of_both(&["stats", "fit"]));
}

#[test]
fn stats_go_by_any_field() {
    insta::assert_snapshot!(told_of_both(&["stats", "--all", "--by", "status"]));
    insta::assert_snapshot!("stats_as_csv", told_of_both(&["stats", "train", "--csv"]));
}

#[test]
fn a_value_is_followed() {
    let folder = TempDir::new().unwrap();
    let of = |args: &[&str]| told_by(runlore().arg("--store").arg(folder.path()).args(args));
    of(&["demo"]);
    let text = of(&["lineage", "[3.5, 4.0, 2.5]"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].trim_start().starts_with("generated by  load as readings"), "{text}");
    assert!(lines[2].trim_start().starts_with("used by       average as readings"), "{text}");

    let json: Value = serde_json::from_str(&of(&["lineage", "[3.5, 4.0, 2.5]", "--json"])).unwrap();
    assert_eq!(of(&["lineage", json["hash"].as_str().unwrap()]), text);
    let id = json["generated_by"][0]["task_id"].as_str().unwrap();
    assert_eq!(of(&["lineage", id]), text);
    assert_eq!(of(&["lineage", "[3.5, 4, 2.5]"]), text);
    let (algorithm, digits) = json["hash"].as_str().unwrap().split_once(':').unwrap();
    for part in [
        &digits[..8],
        &digits[..8].to_uppercase(),
        digits,
        &format!("{algorithm}:{}", &digits[..9]),
    ] {
        assert_eq!(of(&["lineage", part]), text, "{part}");
    }
    let csv = of(&["lineage", id, "--csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let row = |at: usize| (rows[at][1], rows[at][4], rows[at][5]);
    assert_eq!(row(0), ("side", "activity_id", "name"));
    assert_eq!(row(1), ("generated", "load", "readings"));
    assert_eq!(row(2), ("used", "average", "readings"));
    let nothing = of(&["lineage", "a text that no task had"])
        .replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(nothing);
}

#[test]
fn a_part_of_a_hash_that_may_mean_several_values_is_told() {
    let folder = TempDir::new().unwrap();
    let line = |n: u32, hash: &str| {
        format!(
            r#"{{"type":"task","task_id":"t{n}","activity_id":"fit","hashes":{{"used":{{"x{n}":"{hash}"}}}}}}"#
        ) + "\n"
    };
    let hash = |end: &str| format!("xxh3-128:48764c0ff8b8770da79bc46c68e7{end}");
    let lines = line(1, &hash("9d4d")) + &line(2, &hash("0001")) + &line(3, &hash("9d4d"));
    std::fs::write(folder.path().join("tasks.jsonl"), lines).unwrap();
    let of = |args: &[&str]| told_by(runlore().arg("--store").arg(folder.path()).args(args));
    let all = [
        of(&["lineage", "48764c0f"]),
        of(&["lineage", "xxh3-128:48764c0ff"]),
        of(&["lineage", "xxh3-128:48764c"]),
        of(&["lineage", "48764c0ff8b8770da79bc46c68e79"]),
        of(&["lineage", "xxh3-128/prefix:48764c0f"]),
    ];
    let place = folder.path().display().to_string();
    insta::assert_snapshot!(all.join("\n").replace(&place, "FOLDER"));
}

#[test]
fn runs_are_compared() {
    insta::assert_snapshot!(told_of_both(&["compare", "a001", "a002"]));
    let same = told_of_both(&["compare", "a001", "a001", "--json"]);
    let (_, told) = same.rsplit_once("---").unwrap_or_default();
    assert!(told.contains("both arguments select the run "), "{same}");
    let rows = told_of_both(&["compare", "a001", "a002", "--json"]);
    assert!(
        rows.contains(
            r#"{"activity":null,"figure":"user","before":"ada","after":null,"percent":null}"#
        ),
        "{rows}"
    );
}

#[test]
fn a_limit_that_is_exceeded_is_told_by_the_exit_code() {
    let args = |limit: &'static str| ["compare", "a001", "a002", "--json", "--fail-on", limit];
    let last = |limit| {
        let text = told(args(limit));
        text.lines().skip_while(|line| !line.starts_with("---")).collect::<Vec<_>>().join("\n")
    };
    let all =
        ["tasks:+50%", "tasks:-10%", "rss:+10%", "errors:+0,tasks:-0%", "speed:+1%", "duration:+x"];
    let all: Vec<String> = all.map(|limit| format!("{limit}\n{}", last(limit))).to_vec();
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn a_copy_may_be_made_again() {
    let folder = TempDir::new().unwrap();
    let file = database(folder.path());
    let lines = folder.path().join("lines");
    let copy = || told_by(runlore().arg("copy").arg(&file).arg(&lines));
    let first = copy();
    assert!(first.starts_with("copied "), "{first}");
    assert!(copy().starts_with("copied 0 tasks and 0 runs; "));
    let again = told_by(runlore().arg("copy").arg(&lines).arg(&file));
    assert!(again.starts_with("copied 0 tasks and 0 runs; "), "{again}");
    assert_eq!(
        told_by(runlore().arg("--store").arg(&lines).arg("ls")),
        told_by(runlore().arg("--store").arg(&file).arg("ls")),
    );
    let same = told_by(runlore().arg("copy").arg(&lines).arg(&lines));
    assert!(same.contains("both stores are the same"), "{same}");
}

#[test]
fn a_store_that_is_none_is_told_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let broken = folder.path().join("broken.db");
    std::fs::write(&broken, b"SQLite format 3\0 and then nothing of the kind").unwrap();
    let path = folder.path().display().to_string();
    let mut all = String::new();
    for store in [
        "sqlit://runs.db",
        "sqlite://",
        "sqlite:runs.db",
        &broken.display().to_string(),
        "nowhere.db",
    ] {
        let told = told_by(runlore().current_dir(folder.path()).args(["--store", store, "ls"]));
        all += &told.replace(&path, "FOLDER");
    }
    insta::assert_snapshot!(all);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is made");
}

#[test]
fn a_question_that_finds_nothing_says_what_may_be_wrong_with_it() {
    let asked: [&[&str]; 6] = [
        &["query", r#"{"statuss": "ERROR"}"#],
        &["query", r#"{"used.lr": {"gt": 1}}"#],
        &["query", "--sort", "-durationns", "--limit", "1"],
        &["query", "--fields", "activity_id,nothing_like_it", "--limit", "1"],
        &["query", "--since", "yesterday"],
        &["query", "--since", "1h"],
    ];
    let all: Vec<String> =
        asked.iter().map(|args| format!("{}\n{}", args.join(" "), told_of_both(args))).collect();
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn a_field_that_no_record_has_is_told() {
    let asked: [&[&str]; 9] = [
        &["stats", "--by", "statuss"],
        &["stats", "--all", "--by", "nothing_like_it", "--json"],
        &["stats", "fit", "--by", "used.epoch", "--csv"],
        &["query", r#"[{"$group": {"_id": "$actvity_id", "n": {"$sum": 1}}}]"#],
        &["query", r#"[{"$group": {"_id": null, "mean": {"$avg": "$duration_n"}}}]"#, "--json"],
        &["query", r#"[{"$match": {"statuss": "ERROR"}}, {"$count": "n"}]"#],
        &["query", r#"[{"$sort": {"started": 1}}, {"$limit": 1}, {"$project": {"task_id": 1}}]"#],
        &[
            "query",
            r#"[{"$group": {"_id": "$status", "mean": {"$sum": 1}}}, {"$match": {"men": 1}}]"#,
        ],
        &["query", r#"[{"$group": {"_id": null, "n": {"$sum": 1}}}]"#, "--fields", "n,mean"],
    ];
    let all: Vec<String> =
        asked.iter().map(|args| format!("{}\n{}", args.join(" "), told_of_both(args))).collect();
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn a_field_that_some_record_has_is_not_told() {
    let folder = TempDir::new().unwrap();
    let line = |n: u32, used: &str| {
        format!(
            "{{\"type\":\"task\",\"task_id\":\"t{n:03}\",\"workflow_id\":\"w\",\"used\":{used}}}\n"
        )
    };
    let lines: String = (0..300).map(|n| line(n, r#"{"x":1}"#)).collect();
    let last = line(300, r#"{"rare":{"deep":{"down":1}},"none":null}"#);
    std::fs::write(folder.path().join("many.jsonl"), lines + &last).unwrap();
    let problems = |args: &[&str]| {
        let output = runlore().arg("--store").arg(folder.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for args in [
        &["stats", "--by", "used.rare.deep.down"][..],
        &["stats", "--all", "--by", "used.none"],
        &["stats"],
        &["query", r#"[{"$group": {"_id": "$used.rare.deep.down"}}]"#],
        &["query", r#"[{"$match": {"error": {"$exists": false}}}, {"$count": "n"}]"#],
        &["query", "--sort", "used.rare.deep.down", "--limit", "1"],
    ] {
        assert_eq!(problems(args), "", "{args:?}");
    }
    let told = problems(&["query", "--fields", "used.rare.deep.dwn", "--limit", "1"]);
    assert!(told.contains("`used.rare.deep.dwn`"), "{told}");
}

#[test]
fn two_runs_differ_in_what_went_in_and_came_out() {
    let folder = TempDir::new().unwrap();
    let lines = |run: &str, rate: f64, loss: f64| {
        format!(
            r#"{{"type":"workflow","workflow_id":"{run}","name":"{run}","status":"FINISHED","started_at":1.0,"ended_at":2.0}}
{{"type":"task","task_id":"{run}-1","workflow_id":"{run}","activity_id":"step","started_at":1.1,"used":{{"lr":{rate},"n":1,"name":"sgd"}},"generated":{{"loss":9.5}}}}
{{"type":"task","task_id":"{run}-2","workflow_id":"{run}","activity_id":"step","started_at":1.2,"used":{{"lr":{rate},"n":2,"name":"sgd"}},"generated":{{"loss":{loss}}}}}
"#
        )
    };
    let text = lines("good", 0.5, 0.25) + &lines("bad", 0.125, 0.75);
    std::fs::write(folder.path().join("runs.jsonl"), text).unwrap();
    let told =
        told_by(runlore().arg("--store").arg(folder.path()).args(["compare", "good", "bad"]));
    let differs: Vec<&str> = told.lines().filter(|line| line.starts_with("differs")).collect();
    assert_eq!(
        differs,
        ["differs step generated.loss, at last: 0.25 → 0.75", "differs step used.lr: 0.5 → 0.125"]
    );
}
