//! Sections that go by a second name.

use serde_json::Value as Json;

use super::node::{Node, Value};

/// The section, its other name, and its own.
const SECTION: &str = "instrumentation";
const OTHER: &str = "torch";
const OWN: &str = "ml";

/// Gives sections their own names.
pub(super) fn resolve(settings: &mut Node) {
    let Some(section) = entries(settings).and_then(|entries| {
        entries.iter_mut().find(|entry| entry.key == SECTION).map(|entry| &mut entry.node)
    }) else {
        return;
    };
    for entry in entries(section).into_iter().flatten().filter(|entry| entry.key == OTHER) {
        OWN.clone_into(&mut entry.key);
    }
}

fn entries(node: &mut Node) -> Option<&mut Vec<super::node::Entry>> {
    match &mut node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// For editors: the other name has the same keys.
pub(super) fn describe(schema: &mut Json) {
    let keys = &mut schema["properties"][SECTION]["properties"];
    let mut same = keys[OWN].clone();
    same["description"] = format!("The same as `{OWN}`, as Flowcept names it.").into();
    keys[OTHER] = same;
}
