//! Whatever is asked of an SQLite file, a folder of JSON lines with the same records gives the same answer, and so does the evaluation in
//! memory.

use std::path::Path;

use proptest::prelude::*;
use runlore::Provenance;
use runlore::query::{Collection, Filter, Find, Pipeline};
use runlore::record::Record;
use runlore::store::Sink;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::number;
use crate::support::random_query::{scalar, value};

const TEXTS: [&str; 5] = ["workflow_id", "campaign_id", "parent_task_id", "activity_id", "status"];
const NUMBERS: [&str; 2] = ["started_at", "duration_ns"];

/// A task as programs record it: texts where texts belong, and numbers.
fn plain_task() -> impl Strategy<Value = Value> {
    let text = || {
        prop::option::of(prop::sample::select(vec![
            "", "a", "b", "ab", "ERROR", "FINISHED", "a\0b",
        ]))
    };
    let number = prop::option::of(prop_oneof![
        (-2_i64..4).prop_map(Value::from),
        prop::sample::select(vec![0.0, -0.0, 1.0, 1.5, 9_223_372_036_854_775_808.0])
            .prop_map(Value::from),
        prop::sample::select(vec![i64::MAX, i64::MIN, 9_007_199_254_740_993]).prop_map(Value::from),
    ]);
    let texts = prop::array::uniform5(text());
    let numbers = prop::array::uniform2(number);
    (texts, numbers, value()).prop_map(|(texts, numbers, used)| {
        let mut task = Map::new();
        task.extend(
            TEXTS.iter().zip(texts).filter_map(|(n, v)| Some(((*n).to_owned(), v?.into()))),
        );
        task.extend(NUMBERS.iter().zip(numbers).filter_map(|(n, v)| Some(((*n).to_owned(), v?))));
        task.insert("used".to_owned(), json!({"x": used}));
        Value::Object(task)
    })
}

/// A task of any shape.
fn odd_task() -> impl Strategy<Value = Value> {
    let names: Vec<&str> = TEXTS.into_iter().chain(NUMBERS).collect();
    prop::collection::btree_map(prop::sample::select(names), value(), 0..6)
        .prop_map(|fields| fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "task_id",
        "workflow_id",
        "parent_task_id",
        "activity_id",
        "status",
        "started_at",
        "duration_ns",
        "used.x",
        "status.a",
        "activity_id.0",
    ])
}

fn operators() -> impl Strategy<Value = Value> {
    let one = |name: &'static str| value().prop_map(move |value| json!({name: value}));
    let compared = |name: &'static str| scalar().prop_map(move |value| json!({name: value}));
    let many = |name: &'static str| {
        prop::collection::vec(scalar(), 0..3).prop_map(move |values| json!({name: values}))
    };
    let leaf = prop_oneof![
        one("$eq"),
        one("$ne"),
        compared("$gt"),
        compared("$gte"),
        compared("$lt"),
        compared("$lte"),
        many("$in"),
        many("$nin"),
        many("$all"),
        any::<bool>().prop_map(|yes| json!({"$exists": yes})),
        prop::sample::select(vec!["^a", "b$", "E", ""]).prop_map(|text| json!({"$regex": text})),
        (0_u8..3).prop_map(|size| json!({"$size": size})),
        prop::sample::select(vec!["string", "number", "int", "double", "null", "array"])
            .prop_map(|name| json!({"$type": name})),
        scalar().prop_map(|value| json!({"$elemMatch": {"$eq": value}})),
    ];
    leaf.clone().prop_recursive(2, 4, 1, |inner| inner.prop_map(|inner| json!({"$not": inner})))
}

fn filter() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (path(), operators()).prop_map(|(path, operators)| json!({path: operators})),
        (path(), scalar()).prop_map(|(path, value)| json!({path: value})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let several = prop::collection::vec(inner, 1..4);
        (prop::sample::select(vec!["$and", "$or", "$nor"]), several)
            .prop_map(|(name, filters)| json!({name: filters}))
    })
}

#[derive(Debug, Clone)]
struct Asked {
    filter: Value,
    sort: Vec<(&'static str, bool)>,
    limit: u64,
    skip: u64,
    projection: Value,
    last: Value,
}

fn asked() -> impl Strategy<Value = Asked> {
    let sort = prop::collection::vec((path(), any::<bool>()), 0..3);
    (filter(), sort, 0_u64..6, 0_u64..4, projection(), last()).prop_map(
        |(filter, sort, limit, skip, projection, last)| Asked {
            filter,
            sort,
            limit,
            skip,
            projection,
            last,
        },
    )
}

/// What of each document: nothing said, some fields, or all but some.
fn projection() -> impl Strategy<Value = Value> {
    let shown = prop::sample::select(vec!["task_id", "status", "started_at", "used.x", "used.x.a"]);
    prop_oneof![
        Just(json!({})),
        prop::collection::vec((shown, any::<bool>()), 1..4).prop_map(|fields| {
            let value = u8::from(fields[0].1);
            // One may not lie inside another.
            let inside =
                |name: &str| name == "used.x.a" && fields.iter().any(|it| it.0 == "used.x");
            let names = fields.iter().map(|it| it.0).filter(|name| !inside(name));
            names.map(|name| (name.to_owned(), json!(value))).collect()
        }),
    ]
}

/// A stage to end with.
fn last() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"$group": {"_id": "$activity_id", "n": {"$sum": 1}, "mean": {"$avg": "$duration_ns"}}}),
        json!({"$group": {
            "_id": {"a": "$status", "b": ["$started_at"]}, "all": {"$push": "$task_id"}, "set": {"$addToSet": "$used.x"},
        }}),
        json!({"$group": {
            "_id": "$used.x", "least": {"$min": "$started_at"}, "most": {"$max": "$status"}, "first": {"$first": "$$ROOT"},
            "last": {"$last": "$used"}, "p": {"$percentile": {"input": "$duration_ns", "p": [0.5], "method": "approximate"}},
        }}),
        json!({"$count": "n"}),
        json!({"$project": {"task_id": 1, "used": 1}}),
        json!({"$project": {"name": "$activity_id", "both": ["$used.x", "$status"]}}),
        json!({"$unwind": {"path": "$used.x", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": true}}),
        json!({"$skip": 1}),
        json!({"$match": {"status": {"$exists": true}}}),
    ])
}

impl Asked {
    fn find(&self) -> Find {
        let projection = json!({"projection": self.projection}).to_string();
        let filter = Filter::from_json(&self.filter).unwrap();
        let find = Find::parse(&projection).unwrap();
        let find = find.filter(filter).limit(self.limit).skip(self.skip);
        self.sort.iter().fold(find, |find, (path, is_last_first)| {
            find.sort(&format!("{}{path}", if *is_last_first { "-" } else { "" }))
        })
    }

    fn pipeline(&self) -> Pipeline {
        let mut stages = vec![json!({"$match": self.filter})];
        let mut sort = Map::new();
        for (path, is_last_first) in &self.sort {
            sort.entry(*path).or_insert(json!(if *is_last_first { -1 } else { 1 }));
        }
        if !sort.is_empty() {
            stages.push(json!({"$sort": sort}));
        }
        if self.limit > 0 {
            stages.push(json!({"$limit": self.limit}));
        }
        stages.push(self.last.clone());
        Pipeline::parse(&Value::from(stages).to_string()).unwrap()
    }
}

/// The tasks in a store, and as it has them.
fn filled(place: &Path, tasks: &[Value]) -> (Provenance, Vec<Value>) {
    let mut sink = Sink::open(place, "test").unwrap();
    let mut records = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let mut task = task.clone();
        task["task_id"] = format!("t{number}").into();
        task["type"] = "task".into();
        let record = Record::from_json(task).unwrap();
        sink.add(&record).unwrap();
        records.push(record.to_json());
    }
    sink.finish().unwrap();
    (Provenance::open(place).unwrap(), records)
}

/// Asks many questions of few tasks: to fill a file takes longer than to ask.
fn check(tasks: &[Value], questions: &[Asked]) {
    let folder = TempDir::new().unwrap();
    let (lines, all) = filled(&folder.path().join("lines"), tasks);
    let (sqlite, _) = filled(&folder.path().join("x.db"), tasks);
    let stores = [("lines", lines), ("sqlite", sqlite)];
    for question in questions {
        let find = question.find();
        let expected: Vec<Value> = find.apply(all.clone()).collect();
        for (name, store) in &stores {
            let found = store.find(Collection::Tasks, &find).unwrap();
            let found: Vec<Value> = found.map(Result::unwrap).collect();
            assert_eq!(found, expected, "{name}: {find:?} of {all:#?}");
            let count = store.count(Collection::Tasks, &find).unwrap();
            assert_eq!(count, expected.len() as u64, "{name}: count of {find:?} of {all:#?}");
        }
        let pipeline = question.pipeline();
        let expected: Vec<Value> = pipeline.apply(all.clone()).collect();
        for (name, store) in &stores {
            let found = store.aggregate(Collection::Tasks, &pipeline).unwrap();
            let found: Vec<Value> = found.map(Result::unwrap).collect();
            assert_eq!(found, expected, "{name}: {pipeline:?} of {all:#?}");
        }
    }
    for (name, store) in &stores {
        assert_eq!(store.problems(), Vec::<String>::new(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(number("RUNLORE_TEST_CASES").unwrap_or(24) as u32))]

    #[test]
    fn of_tasks_as_programs_record_them(
        tasks in prop::collection::vec(plain_task(), 1..24),
        questions in prop::collection::vec(asked(), 100),
    ) {
        check(&tasks, &questions);
    }

    #[test]
    fn of_tasks_of_any_shape(
        plain in prop::collection::vec(plain_task(), 0..12),
        odd in prop::collection::vec(odd_task(), 1..4),
        questions in prop::collection::vec(asked(), 60),
    ) {
        let tasks: Vec<Value> = plain.into_iter().chain(odd).collect();
        check(&tasks, &questions);
    }
}
