//! What a real server answered: the library answers the same.
//!
//! `tests/data/query/record.py` asked, and wrote down the answers. Where that server does not do what MongoDB documents,
//! `deviations.jsonl` names the case, says why, and holds the answer that MongoDB's rules ask for.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use runlore::query::{Find, Pipeline};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Stored {
    collection: String,
    document: Value,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    collection: String,
    find: Option<String>,
    aggregate: Option<String>,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Deserialize)]
struct Deviation {
    name: String,
    reason: String,
    #[serde(flatten)]
    documented: Answer,
}

/// Which documents, or what was made of them, or why nothing was.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ids(Vec<Value>),
    Documents(Vec<Value>),
    Refused(#[allow(dead_code, reason = "shown where a case fails")] String),
}

/// The lines of a file after its first, which says who answered.
fn lines<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/query").join(name);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    let said: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert!(said["answered_by"].is_string(), "{name} says who answered");
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

fn ask(case: &Case, documents: &[Value]) -> Answer {
    let documents = documents.iter().cloned();
    match (&case.find, &case.aggregate) {
        (Some(text), None) => match Find::parse(text) {
            Err(error) => Answer::Refused(error.to_string()),
            Ok(find) => {
                let found: Vec<Value> = find.apply(documents).collect();
                if text.contains("\"projection\"") {
                    return Answer::Documents(found);
                }
                Answer::Ids(found.into_iter().map(|mut one| one["_id"].take()).collect())
            }
        },
        (None, Some(text)) => match Pipeline::parse(text) {
            Err(error) => Answer::Refused(error.to_string()),
            Ok(pipeline) => Answer::Documents(pipeline.apply(documents).collect()),
        },
        _ => panic!("{} is neither a find nor a pipeline", case.name),
    }
}

/// What may come in any order.
#[derive(Clone, Copy)]
struct Loose {
    documents: bool,
    arrays: bool,
}

fn loose(case: &Case) -> Loose {
    let text = case.aggregate.as_deref().unwrap_or_default();
    let group = text.rfind("\"$group\"").unwrap_or(0);
    let is_grouped = text.contains("\"$group\"") && !text[group..].contains("\"$sort\"");
    Loose { documents: is_grouped, arrays: text.contains("\"$addToSet\"") }
}

fn agree(left: &Answer, right: &Answer, loose: Loose) -> bool {
    match (left, right) {
        (Answer::Refused(_), Answer::Refused(_)) => true,
        (Answer::Ids(left), Answer::Ids(right)) => all_same(left, right, loose),
        (Answer::Documents(left), Answer::Documents(right)) if loose.documents => {
            same_members(left, right, loose)
        }
        (Answer::Documents(left), Answer::Documents(right)) => all_same(left, right, loose),
        _ => false,
    }
}

fn all_same(left: &[Value], right: &[Value], loose: Loose) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| same(left, right, loose))
}

fn same_members(left: &[Value], right: &[Value], loose: Loose) -> bool {
    let mut right: Vec<&Value> = right.iter().collect();
    left.iter().all(|left| {
        let place = right.iter().position(|right| same(left, right, loose));
        place.map(|place| right.swap_remove(place)).is_some()
    }) && right.is_empty()
}

/// Numbers are the same whatever their type; whole ones to the last digit.
fn same(left: &Value, right: &Value, loose: Loose) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let both_whole = !left.is_f64() && !right.is_f64();
            if both_whole { left == right } else { left.as_f64() == right.as_f64() }
        }
        (Value::Array(left), Value::Array(right)) if loose.arrays => {
            same_members(left, right, loose)
        }
        (Value::Array(left), Value::Array(right)) => all_same(left, right, loose),
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| {
                    right.get(key).is_some_and(|other| same(value, other, loose))
                })
        }
        _ => left == right,
    }
}

fn collections() -> HashMap<String, Vec<Value>> {
    let mut collections: HashMap<String, Vec<Value>> = HashMap::new();
    for stored in lines::<Stored>("documents.jsonl") {
        collections.entry(stored.collection).or_default().push(stored.document);
    }
    collections
}

#[test]
fn every_recorded_case_is_answered_as_the_server_did() {
    let collections = collections();
    let deviations: BTreeMap<String, Deviation> = lines("deviations.jsonl")
        .into_iter()
        .map(|one: Deviation| (one.name.clone(), one))
        .collect();
    let cases: Vec<Case> = lines("cases.jsonl");
    assert!(cases.len() >= 600, "{} cases", cases.len());
    let mut wrong = Vec::new();
    let mut excused = 0;
    for case in &cases {
        let ours = ask(case, &collections[&case.collection]);
        let loose = loose(case);
        let expected = match deviations.get(&case.name) {
            None => &case.answer,
            Some(deviation) => {
                excused += 1;
                assert!(deviation.reason.len() > 20, "{}: a reason", case.name);
                assert!(
                    !agree(&deviation.documented, &case.answer, loose),
                    "{}: the server does as documented",
                    case.name
                );
                &deviation.documented
            }
        };
        if !agree(&ours, expected, loose) {
            let query = case.find.as_ref().or(case.aggregate.as_ref()).unwrap();
            wrong.push(format!(
                "{}\n  {query}\n  here   {ours:?}\n  there  {expected:?}",
                case.name
            ));
        }
    }
    assert_eq!(excused, deviations.len(), "each deviation is of a case");
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_is_written_reads_back_the_same() {
    for case in lines::<Case>("cases.jsonl") {
        if let Some(Ok(find)) = case.find.as_deref().map(Find::parse) {
            let again = Find::parse(&find.to_json());
            assert_eq!(again.ok().as_ref(), Some(&find), "{}: {}", case.name, find.to_json());
        }
        if let Some(Ok(pipeline)) = case.aggregate.as_deref().map(Pipeline::parse) {
            let again = Pipeline::parse(&pipeline.to_json());
            assert_eq!(again.ok().as_ref(), Some(&pipeline), "{}", case.name);
        }
    }
}
