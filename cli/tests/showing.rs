//! `show`.

use serde_json::Value;

use crate::support::{data, told};

#[test]
fn a_task_is_shown_in_sections() {
    insta::assert_snapshot!(told(["show", "b002"]));
}

#[test]
fn a_task_says_where_its_code_is() {
    insta::assert_snapshot!(told(["show", "0198c2a0-0001-7000-8000-00000000b001"]));
}

#[test]
fn a_run_is_shown_too() {
    insta::assert_snapshot!(told(["show", "a001"]));
}

#[test]
fn what_a_task_used_is_told_in_words() {
    insta::assert_snapshot!(told(["show", "e001"]));
}

#[test]
fn it_is_told_that_other_tasks_ran_too() {
    insta::assert_snapshot!(told(["show", "e003"]));
}

#[test]
fn what_a_command_used_is_told_apart() {
    insta::assert_snapshot!(told(["show", "e005"]));
}

#[test]
fn what_is_not_known_of_a_command_has_its_reason() {
    insta::assert_snapshot!(told(["show", "e006"]));
}

#[test]
fn the_machine_of_a_run_is_told_in_a_few_lines() {
    insta::assert_snapshot!(told(["show", "fit"]));
}

#[test]
fn the_newest_run_of_a_name_is_meant_by_it() {
    let run: Value = serde_json::from_str(&told(["show", "train", "--json"])).unwrap();
    assert_eq!(run["workflow_id"], "0198c2b0-0000-7000-8000-00000000a002");
}

#[test]
fn text_of_a_record_cannot_draw_on_the_terminal() {
    let text = told(["show", "b102"]);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.starts_with(r"epoch \u{1b}[31mred\u{1b}[0m  RUNNING"), "{text}");
}

#[test]
fn as_json_a_record_is_exact() {
    let shown: Value = serde_json::from_str(&told(["show", "b002", "--json"])).unwrap();
    let file = data().join("train_0198c2a0-0000-7000-8000-00000000a001_4711.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let stored: Value = serde_json::from_str(text.lines().nth(2).unwrap()).unwrap();
    assert_eq!(shown, stored);
}

#[test]
fn an_id_that_may_mean_several_is_answered_with_all_of_them() {
    insta::assert_snapshot!(told(["show", "0198c2b0"]), @r#"
    --- stderr
    runlore: "0198c2b0" matches 3 records: 0198c2b0-0001-7000-8000-00000000b101 (load), 0198c2b0-0002-7000-8000-00000000b102 (epoch \u{1b}[31mred\u{1b}[0m), 0198c2b0-0000-7000-8000-00000000a002 (train); give more characters
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told(["tree", "0198"]), @r#"
    --- stderr
    runlore: "0198" matches 3 runs: 0198c2a0-0000-7000-8000-00000000a001 (train), 0198c2b0-0000-7000-8000-00000000a002 (train), 0198c2b1-0000-7000-8000-00000000a003 (evaluate); give more characters
    --- exit code Some(1)
    "#);
}

#[test]
fn an_id_that_means_nothing_says_where_to_look() {
    insta::assert_snapshot!(told(["show", "b0"]), @r#"
    --- stderr
    runlore: no record in DATA has the id "b0", and no run has this name; `runlore ls` lists runs, `runlore tasks` lists tasks; give at least 4 characters of an id
    --- exit code Some(1)
    "#);
    insta::assert_snapshot!(told(["tree", "nope"]), @r#"
    --- stderr
    runlore: no run in DATA has the id or name "nope"; `runlore ls` lists them
    --- exit code Some(1)
    "#);
}
