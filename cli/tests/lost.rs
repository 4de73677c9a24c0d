//! What was lost of a run: every view says so before anything else.

use serde_json::{Value, json};

use crate::endings::{ask, folder_of, listed, run, task};

#[test]
fn what_was_lost_is_said_first_everywhere() {
    let ended = |totals: Value| json!({"status": "FINISHED", "ended_at": 15.0, "totals": totals});
    let folder = folder_of(&[
        run("whole", 10.0, ended(json!({"dropped": 0, "refused": 0, "overflowed": 5}))),
        task("a", "whole", json!({})),
        run("holed", 11.0, ended(json!({"dropped": 12, "refused": 1}))),
        task("b", "holed", json!({})),
    ]);
    let told = "incomplete: 12 tasks were dropped and have no record; 1 task was refused by the store and kept apart";
    let ask = |args: &[&str]| ask(folder.path(), args);
    assert!(listed(folder.path())[0].ends_with("|1 (+ 13 lost)|0"), "{:?}", listed(folder.path()));
    assert!(!listed(folder.path())[1].contains("lost"));
    for args in [&["tree", "holed"][..], &["tree", "holed", "--resources"], &["stats", "holed"]] {
        assert!(ask(args).starts_with(&format!("{told}\n")), "{args:?}: {}", ask(args));
    }
    assert!(ask(&["tree", "holed"]).contains("(13 lost)"));
    assert!(ask(&["stats", "--all"]).starts_with(told));
    assert!(ask(&["stats", "holed", "--json"]).contains(&format!("runlore: {told}")));
    assert!(ask(&["compare", "whole", "holed"]).starts_with(&format!("after is {told}\n")));
    assert!(ask(&["compare", "whole", "holed", "--json"]).contains(&format!("after is {told}")));
    assert!(ask(&["show", "holed"]).contains(told.trim_start_matches("incomplete: ")));
    for quiet in [&["tree", "whole"][..], &["stats", "whole"], &["show", "whole"]] {
        assert!(!ask(quiet).contains("incomplete"), "{quiet:?}");
    }
    let found = ask(&["analyze", "holed", "--fail-on", "critical"]);
    assert!(found.contains("lost_tasks") && found.ends_with("--- exit code Some(2)\n"), "{found}");
    assert!(!ask(&["analyze", "whole"]).contains("lost_tasks"));
    let html = ask(&["report", "holed", "--format", "html"]);
    assert!(html.contains("<div class=\"bad\"><dt>not recorded</dt><dd>13</dd>"), "a red tile");
    let html = ask(&["report", "whole", "--format", "html"]);
    assert!(html.contains("<div><dt>not recorded</dt><dd>0</dd>"), "no red tile");
}

#[test]
fn a_number_of_lost_tasks_that_is_not_known_is_said_to_be_unknown() {
    let folder = folder_of(&[
        run(
            "killed",
            10.0,
            json!({"status": "UNKNOWN", "unavailable": {"totals": "its session kept no counts"}}),
        ),
        task("a", "killed", json!({})),
    ]);
    let told = "incomplete: how many tasks were lost is unknown (its session kept no counts)";
    assert!(listed(folder.path())[0].contains("1 (+ unknown lost)"), "{:?}", listed(folder.path()));
    for args in [&["tree"][..], &["stats"]] {
        assert!(ask(folder.path(), args).starts_with(told), "{args:?}");
    }
    let found = ask(folder.path(), &["analyze"]);
    assert!(found.contains("lost_tasks") && found.contains("is unknown"), "{found}");
}
