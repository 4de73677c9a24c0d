//! Whatever is asked of an SQLite file, the answer is that of the evaluation in memory.

use proptest::prelude::*;
use runlore::query::{Collection, Filter, Find, Pipeline, Source};
use runlore::record::Record;
use runlore::store::Sink;
use runlore::store::sqlite::SqliteSource;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

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
}

fn asked() -> impl Strategy<Value = Asked> {
    (filter(), prop::collection::vec((path(), any::<bool>()), 0..3), 0_u64..6, 0_u64..4)
        .prop_map(|(filter, sort, limit, skip)| Asked { filter, sort, limit, skip })
}

impl Asked {
    fn find(&self) -> Find {
        let filter = Filter::from_json(&self.filter).unwrap();
        let find = Find::new().filter(filter).limit(self.limit).skip(self.skip);
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
        stages.push(match self.skip {
            0 => json!({"$group": {"_id": "$activity_id", "n": {"$sum": 1}, "mean": {"$avg": "$duration_ns"}}}),
            1 => json!({"$group": {
                "_id": {"a": "$status", "b": ["$started_at"]}, "all": {"$push": "$task_id"}, "set": {"$addToSet": "$used.x"},
            }}),
            2 => json!({"$count": "n"}),
            _ => json!({"$project": {"task_id": 1, "used": 1}}),
        });
        Pipeline::parse(&Value::from(stages).to_string()).unwrap()
    }
}

fn source(folder: &TempDir, tasks: &[Value]) -> SqliteSource {
    let path = folder.path().join("x.db");
    let mut sink = Sink::open(format!("sqlite://{}", path.display()), "test").unwrap();
    for (number, task) in tasks.iter().enumerate() {
        let mut task = task.clone();
        task["task_id"] = format!("t{number}").into();
        task["type"] = "task".into();
        sink.add(&Record::from_json(task).unwrap()).unwrap();
    }
    sink.finish().unwrap();
    SqliteSource::open(path).unwrap()
}

/// Asks many questions of few tasks: to fill a file takes longer than to ask.
fn check(tasks: &[Value], questions: &[Asked]) {
    let folder = TempDir::new().unwrap();
    let source = source(&folder, tasks);
    let all = source.documents(Collection::Tasks).unwrap();
    let all: Vec<Value> = all.map(Result::unwrap).collect();
    assert_eq!(all.len(), tasks.len());
    for question in questions {
        let find = question.find();
        let expected: Vec<Value> = find.apply(all.clone()).collect();
        let found = source.find(Collection::Tasks, &find).unwrap();
        let found: Vec<Value> = found.map(Result::unwrap).collect();
        assert_eq!(found, expected, "{find:?} of {all:#?}");
        let pipeline = question.pipeline();
        let expected: Vec<Value> = pipeline.apply(all.clone()).collect();
        let found = source.aggregate(Collection::Tasks, &pipeline).unwrap();
        let found: Vec<Value> = found.map(Result::unwrap).collect();
        assert_eq!(found, expected, "{pipeline:?} of {all:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

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
