//! Sections that have a second name or a second form.

use serde_json::{Value as Json, json};

use super::node::{Entry, Node, Value};

/// The parent section, the alias of the inner section, and that section's own name.
const SECTION: &str = "instrumentation";
const OTHER: &str = "torch";
const OWN: &str = "ml";

/// A section that may be written as a list of names.
const REDACT: &str = "redact";
const NAMES: &str = "names";

/// Renames the section `torch` to `ml`. If both are there, the first one is kept. Returns the
/// number of the second one with an error message.
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

/// Turns a list for `redact` into the section that has this list as its `names`.
pub(super) fn resolve_redact(settings: &mut Node) {
    let section =
        entries(settings).and_then(|entries| entries.iter_mut().find(|entry| entry.key == SECTION));
    let keys = section.and_then(|section| entries(&mut section.node));
    for entry in keys.into_iter().flatten().filter(|entry| entry.key == REDACT) {
        if matches!(entry.node.value, Value::List(_) | Value::Text(_)) {
            let number = entry.node.number;
            let names = std::mem::replace(&mut entry.node, Node { number, value: Value::Null });
            let names = Entry { number, key: NAMES.to_owned(), node: names };
            entry.node.value = Value::Map(vec![names]);
        }
    }
}

fn entries(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// Adds both to the JSON Schema: `torch` with the same keys as `ml`, and the list form of `redact`.
pub(super) fn describe(schema: &mut Json) {
    let keys = &mut schema["properties"][SECTION]["properties"];
    let mut same = keys[OWN].clone();
    same["description"] = format!("The same as `{OWN}`, as Flowcept names it.").into();
    keys[OTHER] = same;
    let list = keys[REDACT]["properties"][NAMES].clone();
    let redact = &mut keys[REDACT];
    let about = redact["description"].take();
    *redact = json!({"description": about, "anyOf": [redact.take(), list]});
}
