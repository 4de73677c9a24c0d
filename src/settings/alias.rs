//! Sections that go by a second name.

use serde_json::Value as Json;

use super::node::{Node, Value};

/// The section, its other name, and its own.
const SECTION: &str = "instrumentation";
const OTHER: &str = "torch";
const OWN: &str = "ml";

/// Renames the section to its own name. If it is there under both names, the first stays, and the answer is the number of
/// the second with what is wrong.
pub(super) fn resolve(settings: &mut Node) -> Option<(u32, String)> {
    let section = entries(settings)?.iter_mut().find(|entry| entry.key == SECTION)?;
    let entries = entries(&mut section.node)?;
    let first = |key: &str| entries.iter().position(|entry| entry.key == key);
    let other = first(OTHER)?;
    let second = first(OWN).map(|own| {
        let second = entries.remove(own.max(other));
        let [used, ignored] = if own < other { [OWN, OTHER] } else { [OTHER, OWN] };
        let message = format!(
            "`{OWN}` and `{OTHER}` in {SECTION} are the same section: `{used}`, the first, is used, \
             and `{ignored}` is ignored"
        );
        (second.number, message)
    });
    for entry in entries.iter_mut().filter(|entry| entry.key == OTHER) {
        OWN.clone_into(&mut entry.key);
    }
    second
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
