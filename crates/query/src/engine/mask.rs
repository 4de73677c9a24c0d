//! Computes which fields of a document a query reads, so that parsers can skip all others.

use runlore_core::json::mask::FieldMask;

use super::filter::tree::Node;
use super::find::Find;
use super::find::projection::{Field, Fields};

/// Returns the fields that a query reads or returns. `None` if it needs the whole document.
pub fn mask_of(find: &Find) -> Option<FieldMask> {
    let projection = find.projection.as_ref().filter(|projection| projection.includes)?;
    let mut mask = FieldMask::paths(["_id"]);
    add_fields(&mut mask, &projection.fields)?;
    add_node(&mut mask, find.filter.root());
    for (path, _) in find.sort.keys() {
        mask.add(path.keys());
    }
    Some(mask)
}

fn add_fields(mask: &mut FieldMask, fields: &Fields) -> Option<()> {
    for (name, field) in fields {
        match field {
            Field::Include => mask.add([&**name].into_iter()),
            Field::Exclude => {}
            Field::Compute(_) => return None,
            Field::Inside(fields) => {
                if let Some(inside) = mask.inside(name) {
                    add_fields(inside, fields)?;
                }
            }
        }
    }
    Some(())
}

fn add_node(mask: &mut FieldMask, node: &Node) {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.iter().for_each(|node| add_node(mask, node));
        }
        Node::Field(path, _) => mask.add(path.keys()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::query::field;

    #[test]
    fn only_what_is_asked_for_is_kept() {
        let find = Find::new()
            .filter(field("status").eq("ERROR"))
            .sort("-at.start")
            .fields(["name", "used.lr"]);
        let wanted = mask_of(&find).unwrap();
        let text = r#"{"name": {"all": 1}, "status": "ERROR", "used": {"lr": 2, "x": [3]}, "at": {"start": 4, "end": 5}, "y": [6]}"#;
        let kept =
            json!({"name": {"all": 1}, "status": "ERROR", "used": {"lr": 2}, "at": {"start": 4}});
        assert_eq!(wanted.read(text).unwrap(), kept);
        assert_eq!(mask_of(&Find::new()), None);
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300_f64).prop_map(Value::from),
            "[ab\\u{e9}\"\\\\]{0,4}".prop_map(Value::from),
        ];
        let names = prop_oneof![Just("a"), Just("b"), Just("type"), Just("task_id"), Just("0")];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let entry = (names.clone(), inner.clone());
            let entries = prop::collection::vec(entry, 0..5).prop_map(|entries| {
                entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            });
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
                entries.prop_map(Value::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_answer_is_that_of_whole_documents(
            documents in prop::collection::vec(documents(), 1..4),
            fields in prop::collection::vec("[ab0](\\.[ab0]){0,2}", 1..4),
            by in "-?[ab](\\.[ab0]){0,2}",
            at in "[ab](\\.[ab0]){0,2}",
        ) {
            let find = Find::new().filter(field(&at).exists(true).or(field("b").gt(1))).sort(&by).fields(fields);
            let wanted = mask_of(&find).unwrap();
            let read = |document: &Value| wanted.read(&document.to_string()).unwrap();
            let parts: Vec<Value> = documents.iter().map(read).collect();
            let answer = |documents: Vec<Value>| find.apply(documents).collect::<Vec<_>>();
            prop_assert_eq!(answer(parts), answer(documents));
        }
    }
}
