//! Tasks print as the tree of who called whom.

use std::fmt::Write as _;

use runlore::query::{Detached, Tree};
use runlore::record::{Record, TaskObject, WorkflowObject};
use serde_json::{Value, json};

fn tree(records: impl IntoIterator<Item = Value>) -> Tree {
    let mut workflows: Vec<WorkflowObject> = Vec::new();
    let mut tasks: Vec<TaskObject> = Vec::new();
    for json in records {
        match Record::from_json(json).unwrap() {
            Record::Task(task) => tasks.push(*task),
            Record::Workflow(workflow) => workflows.push(*workflow),
            Record::Other(other) => panic!("{other:?}"),
        }
    }
    Tree::new(workflows, tasks)
}

#[test]
fn every_way_to_end_shows() {
    let tree = tree([
        json!({"type": "workflow", "workflow_id": "w", "name": "train", "status": "FINISHED", "duration_ns": 1_200_000_000}),
        json!({"task_id": "1", "workflow_id": "w", "activity_id": "load", "started_at": 1.0, "status": "FINISHED", "duration_ns": 30_000_000,
            "used": {"opts": {"mode": "fast"}, "path": "a.csv"}, "generated": {"rows": 3}}),
        json!({"task_id": "3", "workflow_id": "w", "activity_id": "epoch", "started_at": 3.0, "ended_at": 3.8, "status": "ERROR",
            "stderr": "disk full: No space left on device"}),
        json!({"task_id": "2", "workflow_id": "w", "activity_id": "clean", "started_at": 2.0, "status": "RUNNING", "parent_task_id": "1"}),
        json!({"task_id": "4", "workflow_id": "w", "activity_id": "panics", "started_at": 4.0, "status": "ERROR", "parent_task_id": "3",
            "error": {"kind": "panic", "message": "index out of bounds\nthe len is 3"}, "used": {"text": "x".repeat(100)}}),
        json!({"task_id": "5", "workflow_id": "w", "activity_id": "odd", "status": "CANCELLED", "parent_task_id": "3"}),
        json!({"task_id": "6", "workflow_id": "w", "generated": {"y": null}}),
    ]);
    insta::assert_snapshot!(tree, @r#"
    train  FINISHED  1.2 s
    ├─ load  FINISHED  30 ms
    │  └─ clean  RUNNING  (its run ended first)
    ├─ epoch  ERROR  800 ms  disk full: No space left on device
    │  ├─ panics  ERROR  index out of bounds\nthe len is 3
    │  └─ odd  UNKNOWN
    └─ 6
    "#);
    insta::assert_snapshot!(tree.render().values(true), @r#"
    train  FINISHED  1.2 s
    ├─ load  FINISHED  30 ms  opts={"mode":"fast"} path="a.csv" → rows=3
    │  └─ clean  RUNNING  (its run ended first)
    ├─ epoch  ERROR  800 ms  disk full: No space left on device
    │  ├─ panics  ERROR  text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  index out of bounds\nthe len is 3
    │  └─ odd  UNKNOWN
    └─ 6  → y=null
    "#);
}

#[test]
fn a_task_without_its_parent_says_so() {
    let tree = tree([
        json!({"type": "workflow", "workflow_id": "w", "name": "run"}),
        json!({"task_id": "1", "workflow_id": "w", "activity_id": "orphan", "parent_task_id": "gone"}),
        json!({"task_id": "2", "workflow_id": "w", "activity_id": "child", "parent_task_id": "1"}),
        json!({"task_id": "3", "workflow_id": "elsewhere", "activity_id": "no workflow"}),
    ]);
    insta::assert_snapshot!(tree, @r#"
    run
    └─ orphan  (its parent gone is not in the records)
       └─ child
    no workflow
    "#);
}

#[test]
fn circles_end() {
    let tree = tree([
        json!({"task_id": "self", "parent_task_id": "self", "started_at": 1.0}),
        json!({"task_id": "a", "parent_task_id": "c", "started_at": 3.0}),
        json!({"task_id": "b", "parent_task_id": "a", "started_at": 2.0}),
        json!({"task_id": "c", "parent_task_id": "b", "started_at": 4.0}),
        json!({"task_id": "below", "parent_task_id": "c", "started_at": 5.0}),
        json!({"type": "workflow", "workflow_id": "w1", "parent_workflow_id": "w2", "started_at": 6.0}),
        json!({"type": "workflow", "workflow_id": "w2", "parent_workflow_id": "w1", "started_at": 7.0}),
        json!({"type": "workflow", "workflow_id": "w3", "parent_task_id": "t3", "started_at": 8.0}),
        json!({"task_id": "t3", "workflow_id": "w3", "started_at": 9.0}),
    ]);
    assert_eq!(tree.len(), 9);
    insta::assert_snapshot!(tree, @r#"
    self  (its parent self is also below it)
    b  (its parent a is also below it)
    └─ c
       ├─ a
       └─ below
    w1  (its parent w2 is also below it)
    └─ w2
    w3  (its parent t3 is also below it)
    └─ t3
    "#);
}

#[test]
fn a_sub_workflow_stands_under_the_task_that_started_it() {
    let tree = tree([
        json!({"type": "workflow", "workflow_id": "w", "name": "outer"}),
        json!({"task_id": "1", "workflow_id": "w", "activity_id": "starts inner"}),
        json!({"type": "workflow", "workflow_id": "v", "name": "inner", "parent_workflow_id": "w", "parent_task_id": "1"}),
        json!({"task_id": "2", "workflow_id": "v", "activity_id": "first", "parent_task_id": "1"}),
        json!({"task_id": "3", "workflow_id": "v", "activity_id": "second"}),
        json!({"type": "workflow", "workflow_id": "u", "name": "no task known", "parent_workflow_id": "w"}),
        json!({"task_id": "4", "workflow_id": "u", "activity_id": "handed over", "parent_task_id": "3"}),
        json!({"type": "workflow", "workflow_id": "x", "name": "not started here", "parent_workflow_id": "gone"}),
    ]);
    insta::assert_snapshot!(tree, @r#"
    outer
    ├─ no task known
    └─ starts inner
       └─ inner
          ├─ first
          └─ second
             └─ handed over
    not started here  (its parent gone is not in the records)
    "#);
}

#[test]
fn an_id_that_repeats_in_another_workflow_links_within_its_own() {
    let tree = tree([
        json!({"task_id": "0", "workflow_id": "w", "activity_id": "loop of w"}),
        json!({"task_id": "0", "workflow_id": "v", "activity_id": "loop of v"}),
        json!({"task_id": "1", "workflow_id": "w", "activity_id": "in w", "parent_task_id": "0"}),
        json!({"task_id": "2", "workflow_id": "v", "activity_id": "in v", "parent_task_id": "0"}),
    ]);
    insta::assert_snapshot!(tree, @r#"
    loop of w
    └─ in w
    loop of v
    └─ in v
    "#);
}

#[test]
fn text_of_a_record_cannot_draw_on_the_terminal() {
    let tree = tree([
        json!({"task_id": "1", "activity_id": "\u{1b}[2Jgone\nfake  FINISHED", "status": "ERROR", "stderr": "\u{9b}31m"}),
    ]);
    insta::assert_snapshot!(tree, @r#"\u{1b}[2Jgone\nfake  FINISHED  ERROR  \u{9b}31m"#);
}

#[test]
fn a_hundred_thousand_levels_neither_overflow_nor_fill_the_disk() {
    const LEVELS: usize = 100_000;
    let tasks = (0..LEVELS).map(|level| TaskObject {
        task_id: level.to_string(),
        parent_task_id: level.checked_sub(1).map(|parent| parent.to_string()),
        started_at: Some(level as f64),
        ..TaskObject::default()
    });
    // Children before their parents, the worst order.
    let tree = Tree::new([], tasks.collect::<Vec<_>>().into_iter().rev());
    let mut text = String::new();
    write!(text, "{tree}").unwrap();
    assert_eq!(text.lines().count(), LEVELS);
    assert!(text.lines().nth(2).unwrap().ends_with("   └─ 2"));
    assert!(text.ends_with("└─ (level 99999) 99999\n"));
    assert!(text.len() < 200 * LEVELS);
    assert!(tree.walk().enumerate().all(|(at, (depth, _))| at == depth));

    let mut circle = tree.walk().map(|(_, node)| node.item.clone()).collect::<Vec<_>>();
    let Some(runlore::query::Item::Task(first)) = circle.first_mut() else { panic!() };
    first.parent_task_id = Some((LEVELS - 1).to_string());
    let tasks = circle.into_iter().filter_map(|item| match item {
        runlore::query::Item::Task(task) => Some(*task),
        runlore::query::Item::Workflow(_) => None,
    });
    let tree = Tree::new([], tasks);
    assert_eq!(tree.walk().count(), LEVELS);
    assert_eq!(tree.walk().next().unwrap().1.detached, Some(Detached::Circle));
}
