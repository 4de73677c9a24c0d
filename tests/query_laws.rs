//! What holds for every filter, find and pipeline, and for every text that is none.

use std::cmp::Ordering;

use proptest::prelude::*;
use runlore::query::{Filter, Find, Pipeline};
use serde_json::{Value, json};

use crate::support::random_query::{document, documents, filter, sort, value};
use crate::support::{Cases, Random, tried};

fn parse(filter: &Value) -> Filter {
    Filter::parse(&filter.to_string()).unwrap_or_else(|error| panic!("{filter}: {error}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_reads_back_as_it_is_written(filter in filter()) {
        let filter = parse(&filter);
        prop_assert_eq!(Filter::parse(&filter.to_json()).unwrap(), filter);
    }

    #[test]
    fn a_filter_in_memory_is_the_one_in_text(filter in filter()) {
        prop_assert_eq!(Filter::from_json(&filter).unwrap(), parse(&filter));
    }

    #[test]
    fn not_is_the_complement(filter in filter(), document in document()) {
        let filter = parse(&filter);
        prop_assert_eq!((!filter.clone()).matches(&document), !filter.matches(&document));
        prop_assert_eq!((!!filter.clone()).matches(&document), filter.matches(&document));
    }

    #[test]
    fn and_and_or_are_those_of_logic(left in filter(), right in filter(), document in document()) {
        let (left, right) = (parse(&left), parse(&right));
        let (is_left, is_right) = (left.matches(&document), right.matches(&document));
        let both = left.clone().and(right.clone());
        let either = left.clone().or(right.clone());
        prop_assert_eq!(both.matches(&document), is_left && is_right);
        prop_assert_eq!(either.matches(&document), is_left || is_right);
        prop_assert_eq!(&Filter::parse(&both.to_json()).unwrap(), &both);
        prop_assert_eq!(&Filter::parse(&either.to_json()).unwrap(), &either);
        let neither = (!left).and(!right);
        prop_assert_eq!((!either).matches(&document), neither.matches(&document));
    }

    #[test]
    fn what_is_ordered_is_ordered_one_way(left in value(), right in value()) {
        let is = |operator: &str| {
            // Inside an object, arrays are compared whole.
            let filter = json!({"a": {operator: {"x": right.clone()}}});
            parse(&filter).matches(&json!({"a": {"x": left.clone()}}))
        };
        let (less, equal, greater) = (is("$lt"), is("$eq"), is("$gt"));
        prop_assert_eq!([less, equal, greater].iter().filter(|is| **is).count(), 1);
        prop_assert_eq!(is("$lte"), less || equal);
        prop_assert_eq!(is("$gte"), greater || equal);
        prop_assert_eq!(is("$ne"), !equal);
    }

    #[test]
    fn a_find_is_a_filter_a_sort_and_a_part(
        documents in documents(), filter in filter(), sort in sort(), skip in 0..6_u64, limit in 0..8_u64,
    ) {
        let ascending = |documents: &[Value], keys: &[(String, i32)]| -> Vec<Value> {
            let keys: Vec<String> = keys.iter().map(|(path, by)| format!("{}:{by}", json!(path))).collect();
            let find = Find::parse(&format!("{{\"sort\": {{{}}}}}", keys.join(","))).unwrap();
            find.apply(documents.to_vec()).collect()
        };
        let filter = parse(&filter);
        let mut expected: Vec<Value> =
            documents.iter().filter(|document| filter.matches(document)).cloned().collect();
        // Sorting by the last key first, each time stably, is sorting by all.
        for key in sort.iter().rev() {
            expected = ascending(&expected, std::slice::from_ref(key));
        }
        let upto = if limit == 0 { usize::MAX } else { limit as usize };
        let expected: Vec<Value> = expected.into_iter().skip(skip as usize).take(upto).collect();

        let find = sort.iter().fold(Find::new().filter(filter), |find, (path, by)| {
            find.sort(&if *by < 0 { format!("-{path}") } else { path.clone() })
        });
        let find = find.skip(skip).limit(limit);
        prop_assert_eq!(find.apply(documents).collect::<Vec<_>>(), expected);
        prop_assert_eq!(&Find::parse(&find.to_json()).unwrap(), &find);
    }

    #[test]
    fn a_pipeline_does_what_a_find_does(
        documents in documents(), filter in filter(), sort in sort(), skip in 0..6_u64, limit in 1..8_u64,
    ) {
        let keys: Vec<String> = sort.iter().map(|(path, by)| format!("{}:{by}", json!(path))).collect();
        let sort = keys.join(",");
        let find = format!(r#"{{"filter": {filter}, "sort": {{{sort}}}, "skip": {skip}, "limit": {limit}}}"#);
        let pipeline = format!(
            r#"[{{"$match": {filter}}}, {{"$sort": {{{sort}}}}}, {{"$skip": {skip}}}, {{"$limit": {limit}}}]"#
        );
        let found: Vec<Value> = Find::parse(&find).unwrap().apply(documents.clone()).collect();
        let piped: Vec<Value> = Pipeline::parse(&pipeline).unwrap().apply(documents).collect();
        prop_assert_eq!(found, piped);
    }

    #[test]
    fn what_is_included_and_what_is_excluded_make_the_whole(documents in documents()) {
        let of = |projection: &str| -> Vec<Value> {
            let find = Find::parse(&format!(r#"{{"projection": {projection}}}"#)).unwrap();
            find.apply(documents.clone()).collect()
        };
        let parts = of(r#"{"a": 1, "b": 1}"#).into_iter().zip(of(r#"{"a": 0, "b": 0}"#));
        for ((included, excluded), whole) in parts.zip(&documents) {
            let (Value::Object(mut included), Value::Object(excluded)) = (included, excluded) else {
                panic!("an object stays one")
            };
            included.extend(excluded);
            prop_assert_eq!(&Value::Object(included), whole);
        }
    }

    #[test]
    fn a_percentile_is_found_by_sorting(
        mut numbers in prop::collection::vec(-1e6..1e6_f64, 1..200), share in 0.0..=1.0_f64,
    ) {
        let pipeline = json!([{"$group": {"_id": null, "x": {
            "$percentile": {"input": "$n", "p": [share], "method": "approximate"}
        }}}]);
        let pipeline = Pipeline::parse(&pipeline.to_string()).unwrap();
        let documents = numbers.iter().map(|number| json!({"n": number})).collect::<Vec<_>>();
        let found = pipeline.apply(documents).next().unwrap()["x"][0].as_f64().unwrap();
        numbers.sort_by(f64::total_cmp);
        // The least number that no less than this share of all reaches.
        let enough = |at: usize| (at + 1) as f64 >= share * numbers.len() as f64;
        let expected = (0..numbers.len()).find(|at| enough(*at)).unwrap();
        prop_assert_eq!(found.partial_cmp(&numbers[expected]), Some(Ordering::Equal));
    }

    #[test]
    fn groups_are_a_partition(documents in documents()) {
        let pipeline = r#"[{"$group": {"_id": "$a", "ids": {"$push": "$_id"}, "n": {"$count": {}}}}]"#;
        let groups: Vec<Value> = Pipeline::parse(pipeline).unwrap().apply(documents.clone()).collect();
        let mut ids = Vec::new();
        for group in &groups {
            prop_assert_eq!(group["n"].as_u64(), Some(group["ids"].as_array().unwrap().len() as u64));
            ids.extend(group["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..documents.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn no_more_is_read_than_is_asked_for() {
    let endless = || (0_u64..).map(|i| json!({"i": i}));
    let find = Find::parse(r#"{"filter": {"i": {"$gt": 5}}, "skip": 1, "limit": 2}"#).unwrap();
    assert_eq!(find.apply(endless()).collect::<Vec<_>>(), [json!({"i": 7}), json!({"i": 8})]);
    let stages = r#"[{"$match": {"i": {"$gt": 5}}}, {"$project": {"i": 1}}, {"$limit": 2}, {"$group": {"_id": null, "n": {"$sum": "$i"}}}]"#;
    let pipeline = Pipeline::parse(stages).unwrap();
    assert_eq!(pipeline.apply(endless()).collect::<Vec<_>>(), [json!({"_id": null, "n": 13})]);
}

/// Pieces that mean something to filters, to JSON, or to nobody.
const BITS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "1e999",
    "1.5",
    "\\",
    "\\ud800",
    "\\n",
    "é",
    "\n",
    "\"$and\":",
    "\"$or\":[",
    "\"$nor\":[{}]",
    "\"$not\":{",
    "\"$elemMatch\":{",
    "\"$regex\":\"(\"",
    "\"$options\":\"q\"",
    "\"$size\":-1",
    "\"$type\":99",
    "\"$in\":[",
    "\"$all\":[{\"$elemMatch\":{}}]",
    "\"$exists\":1",
    "\"$group\":{\"_id\":null}",
    "\"$percentile\":{}",
    "\"$unwind\":\"$a\"",
    "\"$project\":{",
    "{\"$not\":{\"$not\":{\"$not\":{\"$not\":{\"$not\":{\"$not\":{\"$not\":{",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

const SEEDS: &[&str] = &[
    r#"{"status": "ERROR", "duration_ns": {"$gt": 1000000000}}"#,
    r#"{"$or": [{"a": {"$in": [1, "x", null]}}, {"$nor": [{"b.0.c": {"$exists": false}}]}]}"#,
    r#"{"a": {"$elemMatch": {"b": {"$gte": 1, "$lt": 5}, "c": {"$ne": null}}}, "d": {"$all": [1, [2]]}}"#,
    r#"{"a": {"$regex": "^a(b|c)*[^d]$", "$options": "im"}, "b": {"$not": {"$size": 2}}, "c": {"$type": ["int", 2]}}"#,
    r#"{"filter": {"a": 1}, "sort": {"a": -1, "b.c": 1}, "projection": {"a.b": 1, "_id": 0}, "limit": 5, "skip": 2}"#,
    r#"[{"$match": {"a": 1}}, {"$unwind": {"path": "$t", "includeArrayIndex": "i"}}, {"$sort": {"a": 1}}, {"$limit": 3}]"#,
    r#"[{"$group": {"_id": {"x": "$a.b"}, "n": {"$sum": 1}, "p": {"$percentile": {"input": "$d", "p": [0.5], "method": "approximate"}}}}]"#,
    r#"[{"$project": {"_id": 0, "x": "$a", "y": {"z": {"$literal": 1}}}}, {"$count": "n"}]"#,
];

/// Spoils a text a few times, between characters.
fn spoilt(random: &mut Random) -> String {
    let mut text: Vec<char> = random.pick(SEEDS).chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let until = (at + random.below(20)).min(text.len());
        match random.below(5) {
            0 => text.truncate(at),
            1 => _ = text.drain(at..until),
            2 => {
                let bit: Vec<char> =
                    random.pick(BITS).repeat(1 + random.below(3)).chars().collect();
                _ = text.splice(at..until, bit);
            }
            3 => {
                let part = text[at..until].to_vec();
                _ = text.splice(at..at, part);
            }
            _ => {
                let other: Vec<char> = random.pick(SEEDS).chars().collect();
                let from = random.below(other.len());
                let to = (from + random.below(60)).min(other.len());
                _ = text.splice(at..until, other[from..to].iter().copied());
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn no_mutation_of_a_query_breaks_its_reader() {
    let mut cases = Cases::new(3000);
    let mut random = Random::new();
    let document = json!({"a": [{"b": 1, "c": [2]}, 3], "b": [{"c": null}], "d": 1.5, "t": ["x"], "status": "ERROR"});
    let mut readable = 0;
    for case in &mut cases {
        let text = spoilt(&mut random);
        let told = [
            Filter::parse(&text).map(|filter| {
                filter.matches(&document);
                assert_eq!(
                    Filter::parse(&filter.to_json()).unwrap(),
                    filter,
                    "case {case}: {text}"
                );
            }),
            Find::parse(&text).map(|find| {
                assert!(find.apply([document.clone()]).count() <= 1);
                assert_eq!(Find::parse(&find.to_json()).unwrap(), find, "case {case}: {text}");
            }),
            Pipeline::parse(&text).map(|pipeline| {
                assert!(pipeline.apply([document.clone()]).count() <= 9);
                assert_eq!(
                    Pipeline::parse(&pipeline.to_json()).unwrap(),
                    pipeline,
                    "case {case}: {text}"
                );
            }),
        ];
        for outcome in told {
            match outcome {
                Ok(()) => readable += 1,
                Err(error) => {
                    let sentence = error.to_string();
                    assert!(!sentence.contains('\n'), "case {case}: {text}: {sentence}");
                    assert_eq!(error.kind(), runlore::ErrorKind::Query);
                }
            }
        }
    }
    assert!(readable > 0, "some of it can still be read");
    tried("mutations of queries", format!("{} texts", cases.count()));
}
