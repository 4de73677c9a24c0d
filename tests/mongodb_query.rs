//! Whatever is asked of MongoDB, the answer is that of the evaluation in memory, and of SQLite.

use mongodb::bson::{Bson, Document, doc};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use runlore::query::{Collection, Filter, Find, Pipeline, Source};
use runlore::record::Record;
use runlore::store::Sink;
use runlore::store::mongodb::MongodbSource;
use serde_json::{Map, Value, json};

use crate::mongo_server::{database, with_driver};
use crate::support::number;

/// Not 2⁶³ as a double: SecantusDB takes it for another number than the whole one, where MongoDB compares exactly.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => select(vec!["", "a", "b", "ab", "ERROR", "FINISHED", "a\0b", "é", "$a", "a.b"]).prop_map(Value::from),
        3 => (-2_i64..4).prop_map(Value::from),
        2 => select(vec![0.0, -0.0, 1.0, 1.5, 2.5]).prop_map(Value::from),
        1 => select(vec![i64::MAX, i64::MIN, 9_007_199_254_740_993]).prop_map(Value::from),
        1 => select(vec![u64::MAX, 9_223_372_036_854_775_808]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
    ]
}

/// With keys that could be taken for more than names.
fn value() -> impl Strategy<Value = Value> {
    value_with(&["a", "b", "$c", "d.e"])
}

/// What may stand in a filter.
fn operand() -> impl Strategy<Value = Value> {
    value_with(&["a", "b", "d.e"])
}

fn value_with(keys: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    prop_oneof![
        6 => scalar(),
        1 => Just(Value::Null),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(Value::from),
        1 => prop::collection::btree_map(select(keys.to_vec()), scalar(), 0..3)
            .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
    ]
}

/// A group by what may be of any shape.
const BY_ANYTHING: &str = "$used.x";

const NAMES: [&str; 6] =
    ["workflow_id", "activity_id", "status", "started_at", "duration_ns", "finished"];

fn task() -> impl Strategy<Value = Value> {
    let fields = prop::collection::btree_map(select(NAMES.to_vec()), scalar(), 0..6);
    (fields, value(), value()).prop_map(|(fields, x, y)| {
        let mut task: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        task.insert("used".to_owned(), json!({"x": x, "y": y}));
        Value::Object(task)
    })
}

fn path() -> impl Strategy<Value = &'static str> {
    select(vec![
        "task_id",
        "workflow_id",
        "activity_id",
        "status",
        "started_at",
        "duration_ns",
        "finished",
        "used.x",
        "used.y",
        "used.x.a",
        "used",
        "_id",
        "registered_at",
    ])
}

/// What may be asked of a field, mostly what it may have.
fn operand_of(path: &str) -> BoxedStrategy<Value> {
    let usual = match path {
        "started_at" | "duration_ns" => (-2_i64..4).prop_map(Value::from).boxed(),
        "workflow_id" | "activity_id" | "status" => {
            select(vec!["", "a", "b", "ab", "ERROR", "FINISHED"]).prop_map(Value::from).boxed()
        }
        _ => return operand().boxed(),
    };
    prop_oneof![3 => usual, 1 => operand()].boxed()
}

fn operators(path: &str) -> impl Strategy<Value = Value> + use<> {
    let operand = operand_of(path);
    let one = |name: &'static str| operand.clone().prop_map(move |value| json!({name: value}));
    let many = |name: &'static str| {
        prop::collection::vec(operand.clone(), 0..3).prop_map(move |values| json!({name: values}))
    };
    let leaf = prop_oneof![
        one("$eq"),
        one("$ne"),
        one("$gt"),
        one("$gte"),
        one("$lt"),
        one("$lte"),
        many("$in"),
        many("$nin"),
        many("$all"),
        any::<bool>().prop_map(|yes| json!({"$exists": yes})),
        select(vec!["^a", "b$", "E", "", "[a-z]", "\\w"]).prop_map(|text| json!({"$regex": text})),
        (0_u8..3).prop_map(|size| json!({"$size": size})),
        select(vec![
            "string", "number", "int", "long", "double", "null", "array", "object", "date", "bool"
        ])
        .prop_map(|name| json!({"$type": name})),
        scalar().prop_map(|value| json!({"$elemMatch": {"$eq": value}})),
    ];
    leaf.clone().prop_recursive(2, 4, 1, |inner| inner.prop_map(|inner| json!({"$not": inner})))
}

fn filter() -> impl Strategy<Value = Value> {
    let leaf = path().prop_flat_map(|path| {
        prop_oneof![
            operators(path).prop_map(move |operators| json!({path: operators})),
            operand_of(path).prop_map(move |value| json!({path: value})),
        ]
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        (select(vec!["$and", "$or", "$nor"]), prop::collection::vec(inner, 1..4))
            .prop_map(|(name, filters)| json!({name: filters}))
    })
}

#[derive(Debug, Clone)]
struct Asked {
    filter: Value,
    sort: Vec<(&'static str, bool)>,
    limit: u64,
    skip: u64,
    fields: Vec<&'static str>,
    last: Value,
}

fn asked() -> impl Strategy<Value = Asked> {
    // Not by fields that may be arrays: servers differ about where these belong.
    let sorted =
        select(vec!["task_id", "workflow_id", "status", "started_at", "duration_ns", "finished"]);
    let sort = prop::collection::vec((sorted, any::<bool>()), 0..3);
    let fields =
        prop::collection::vec(select(vec!["task_id", "used.x", "started_at", "finished"]), 0..3);
    (filter(), sort, 0_u64..6, 0_u64..4, fields, last()).prop_map(
        |(filter, sort, limit, skip, fields, last)| Asked {
            filter,
            sort,
            limit,
            skip,
            fields,
            last,
        },
    )
}

/// The stages that a pipeline ends with.
fn last() -> impl Strategy<Value = Value> {
    let id = select(vec![
        json!("$status"),
        json!("$activity_id"),
        json!("$started_at"),
        json!("$duration_ns"),
        json!(BY_ANYTHING),
        json!({"a": "$status", "b": "$workflow_id"}),
        json!({"a": {"$literal": "$x"}, "b": ["$activity_id", null]}),
        json!(null),
    ]);
    let group = id.prop_map(|id| {
        json!({"$group": {
            "_id": id, "n": {"$sum": 1}, "all": {"$push": "$task_id"}, "most": {"$max": "$duration_ns"},
            "first": {"$first": "$started_at"},
            "p": {"$percentile": {"input": "$duration_ns", "p": [0.1, 0.5, 1], "method": "approximate"}},
        }})
    });
    let other = select(vec![
        json!([{"$count": "n"}]),
        json!([{"$group": {"_id": "$status"}}, {"$count": "n"}]),
        json!([{"$project": {"task_id": 1, "used.x": 1, "started_at": 1}}]),
        json!([{"$project": {"used": 0, "finished": 0}}]),
        json!([{"$project": {"_id": 0, "at": "$started_at", "x": "$used.x", "y": ["$used.y", "$status"]}}]),
        json!([{"$project": {"task_id": 1, "o": {"p": "$status"}, "unit": {"$literal": 5}}}, {"$skip": 1}]),
        json!([{"$unwind": "$used.x"}]),
        json!([{"$unwind": {"path": "$used.x", "preserveNullAndEmptyArrays": true}}, {"$count": "n"}]),
    ]);
    prop_oneof![group.prop_map(|group| json!([group])), other]
}

impl Asked {
    fn find(&self) -> Find {
        let filter = Filter::from_json(&self.filter).unwrap();
        let find =
            Find::new().filter(filter).limit(self.limit).skip(self.skip).fields(&self.fields);
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
        stages.extend(self.last.as_array().unwrap().iter().cloned());
        Pipeline::parse(&Value::from(stages).to_string()).unwrap()
    }
}

/// As long as all tasks are of such fields, it is the database that says which of them are meant; else a look at each task has the
/// last word.
fn is_plain_field(name: &String, value: &mut Value) -> bool {
    match &**name {
        "started_at" => value.as_f64().is_some_and(|number| (-1000.0..1000.0).contains(&number)),
        "duration_ns" => value.as_i64().is_some_and(|number| (-1000..1000).contains(&number)),
        "workflow_id" | "activity_id" | "status" => {
            value.as_str().is_some_and(|text| !text.contains('\0'))
        }
        _ => true,
    }
}

/// In an order of their own: which group comes first is nobody's promise.
fn sorted(mut made: Vec<Value>) -> Vec<Value> {
    if made.iter().all(|one| one.get("all").is_some()) {
        made.sort_by_key(|group| group["all"].to_string());
    }
    made
}

/// A task as another program would store it: a moment is a date, and nothing is ours.
fn foreign(number: usize, task: &Value) -> Document {
    let mut stored = document(task.as_object().unwrap());
    stored.insert("task_id", format!("f{number}"));
    if let Some(seconds) = task.get("started_at").and_then(Value::as_i64) {
        let millis = seconds.saturating_mul(1000).clamp(-1_000_000, 1_000_000);
        stored.insert("started_at", mongodb::bson::DateTime::from_millis(millis));
    }
    stored
}

fn all<'a>(documents: runlore::Result<runlore::query::Documents<'a>>) -> Vec<Value> {
    documents.unwrap().map(Result::unwrap).collect()
}

/// A value as any client would store it.
fn bson(value: &Value) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(yes) => Bson::Boolean(*yes),
        Value::String(text) => Bson::String(text.clone()),
        Value::Array(items) => items.iter().map(bson).collect::<Vec<_>>().into(),
        Value::Object(map) => Bson::Document(document(map)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32),
            (None, Some(large)) => Bson::Decimal128(large.to_string().parse().unwrap()),
            (None, None) => Bson::Double(number.as_f64().unwrap()),
        },
    }
}

fn document(map: &Map<String, Value>) -> Document {
    map.iter().map(|(key, value)| (key.clone(), bson(value))).collect()
}

/// What the server alone makes of the filters, over documents that are the records and nothing else: nobody looks at its answers before
/// they are compared.
fn judged(uri: &str, documents: &[Value], questions: &[Asked]) -> Vec<Vec<String>> {
    with_driver(uri, async |database| {
        let judge = database.collection::<Document>("judge");
        let records = documents.iter().enumerate().map(|(number, record)| {
            let mut record = document(record.as_object().unwrap());
            record.insert("_id", i32::try_from(number).unwrap());
            record
        });
        judge.insert_many(records).await?;
        let mut answers = Vec::new();
        for question in questions {
            let filter = document(question.filter.as_object().unwrap());
            let mut found = judge.find(filter).sort(doc! {"_id": 1}).await?;
            let mut ids = Vec::new();
            while found.advance().await? {
                ids.push(found.current().get_str("task_id").unwrap().to_owned());
            }
            answers.push(ids);
        }
        Ok(answers)
    })
}

/// Whether there is a whole number beyond 63 bits in it.
fn has_large(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_u64() && !number.is_i64(),
        Value::Array(items) => items.iter().any(has_large),
        Value::Object(fields) => fields.values().any(has_large),
        _ => false,
    }
}

/// Whether the server's own documents are like the records, where the filter looks: they have an `_id`, and their whole numbers beyond 63
/// bits are decimals; and not whether what is missing has all of null, which SecantusDB denies and MongoDB does not, or `é` is `\w`, the other way round.
fn can_be_judged(question: &Asked, documents: &[Value]) -> bool {
    let filter = question.filter.to_string();
    let is_long = filter.contains("\"long\"") && documents.iter().any(has_large);
    let is_word = filter.contains(r"\\w") && documents.iter().any(|it| !it.to_string().is_ascii());
    let is_other = filter.contains("\"_id\"") || is_long || is_word;
    !(is_other || filter.contains("$all") && filter.contains("null"))
}

#[test]
fn every_engine_gives_the_same_answers() {
    let Some(uri) = database() else { return };
    let cases = number("RUNLORE_TEST_CASES").unwrap_or(12) as u32;
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let input = (
        prop::collection::vec(task(), 1..25),
        prop::collection::vec(asked(), 25),
        prop::bool::weighted(0.7),
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(task(), 1..4)],
    );
    let outcome = runner.run(&input, |(tasks, questions, is_plain, others)| {
        with_driver(&uri, async |database| database.drop().await);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.db");
        let mut sink = Sink::open(&*uri, "test").unwrap();
        let mut documents = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let mut task = task.clone();
            if is_plain {
                task.as_object_mut().unwrap().retain(is_plain_field);
            }
            task["task_id"] = format!("t{number}").into();
            task["type"] = "task".into();
            let record = Record::from_json(task).unwrap();
            documents.push(record.to_json());
            sink.add(&record).unwrap();
        }
        sink.finish().unwrap();
        let server = MongodbSource::open(&uri).unwrap();
        prop_assert_eq!(&all(server.documents(Collection::Tasks)), &documents);
        if !others.is_empty() {
            with_driver(&uri, async |database| {
                let others = others.iter().enumerate().map(|(number, task)| foreign(number, task));
                database.collection::<Document>("tasks").insert_many(others).await
            });
            // In the order of the server's own ids.
            documents = all(server.documents(Collection::Tasks));
            prop_assert_eq!(documents.len(), tasks.len() + others.len());
        }
        #[cfg(feature = "sqlite")]
        {
            let mut sink = Sink::open(&*file, "test").unwrap();
            for document in &documents {
                sink.add(&Record::from_json(document.clone()).unwrap()).unwrap();
            }
            sink.finish().unwrap();
        }
        #[cfg(feature = "sqlite")]
        let other = runlore::store::sqlite::SqliteSource::open(&file).unwrap();
        let judged_questions: Vec<_> =
            questions.iter().filter(|it| can_be_judged(it, &documents)).cloned().collect();
        let judgements = judged(&uri, &documents, &judged_questions);
        for (question, judgement) in judged_questions.iter().zip(judgements) {
            let filter = Filter::from_json(&question.filter).unwrap();
            let find = Find::new().filter(filter);
            let found: Vec<_> = find
                .apply(documents.clone())
                .map(|task| task["task_id"].as_str().unwrap().to_owned())
                .collect();
            prop_assert_eq!(&found, &judgement, "the server disagrees: {:?}", question);
        }
        for question in &questions {
            let find = question.find();
            let expected: Vec<Value> = find.apply(documents.clone()).collect();
            prop_assert_eq!(
                &all(server.find(Collection::Tasks, &find)),
                &expected,
                "{:?}",
                question
            );
            let (count, problems) = server.count(Collection::Tasks, &find).unwrap();
            prop_assert_eq!(count, expected.len() as u64, "{:?}", question);
            prop_assert!(problems.is_empty());
            #[cfg(feature = "sqlite")]
            prop_assert_eq!(
                &all(other.find(Collection::Tasks, &find)),
                &expected,
                "{:?}",
                question
            );
            let pipeline = question.pipeline();
            let expected = sorted(pipeline.apply(documents.clone()).collect());
            let found = sorted(all(server.aggregate(Collection::Tasks, &pipeline)));
            // To SecantusDB an empty object is like an empty array.
            if !question.last.to_string().contains(&format!("\"_id\":\"{BY_ANYTHING}\"")) {
                prop_assert_eq!(&found, &expected, "{:?}", question);
            }
            #[cfg(feature = "sqlite")]
            prop_assert_eq!(
                sorted(all(other.aggregate(Collection::Tasks, &pipeline))),
                expected,
                "{:?}",
                question
            );
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
