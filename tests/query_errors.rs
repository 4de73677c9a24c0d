//! What is said of queries that cannot be used: one sentence each, with what to do.

use insta::assert_snapshot;
use runlore::query::{Filter, Find, Pipeline, SyntaxError};

fn told<T: std::fmt::Debug>(texts: &[&str], parse: impl Fn(&str) -> runlore::Result<T>) -> String {
    let lines = texts.iter().map(|text| {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind(), runlore::ErrorKind::Query);
        format!("{text}\n  {error}\n")
    });
    lines.collect()
}

#[test]
fn a_wrong_filter_is_told_in_one_sentence() {
    let filters = [
        r#"[1]"#,
        r#"{"a": {"$gtt": 1}}"#,
        r#"{"a": {"$nearSphere": 1}}"#,
        r#"{"$xor": [{"a": 1}]}"#,
        r#"{"$gt": 1}"#,
        r#"{"a": {"$or": [{"$gt": 1}]}}"#,
        r#"{"$and": []}"#,
        r#"{"$or": {"a": 1}}"#,
        r#"{"$nor": [1]}"#,
        r#"{"a": {"$in": 1}}"#,
        r#"{"a": {"$in": [{"$gt": 1}]}}"#,
        r#"{"a": {"$size": "2"}}"#,
        r#"{"a": {"$size": 1.5}}"#,
        r#"{"a": {"$type": "text"}}"#,
        r#"{"a": {"$type": "strin"}}"#,
        r#"{"a": {"$type": 99}}"#,
        r#"{"a": {"$regex": 1}}"#,
        r#"{"a": {"$regex": "a(?=b)"}}"#,
        r#"{"a": {"$regex": "(a"}}"#,
        r#"{"a": {"$regex": "a{1000}{1000}{1000}"}}"#,
        r#"{"a": {"$regex": "a", "$options": "g"}}"#,
        r#"{"a": {"$options": "i"}}"#,
        r#"{"a": {"$not": 1}}"#,
        r#"{"a": {"$not": {}}}"#,
        r#"{"a": {"$elemMatch": 1}}"#,
        r#"{"a": {"$all": [{"$elemMatch": {}}, 1]}}"#,
        r#"{"a": {"$gt": 1, "b": 2}}"#,
        r#"{"a": 1, "a": 2}"#,
    ];
    assert_snapshot!(told(&filters, Filter::parse));
}

#[test]
fn a_wrong_query_is_told_in_one_sentence() {
    let finds = [
        r#"{"where": {}}"#,
        r#"{"sort": {"a": "up"}}"#,
        r#"{"sort": ["a"]}"#,
        r#"{"limit": -1}"#,
        r#"{"projection": {"a": 1, "b": 0}}"#,
        r#"{"projection": {"a": 1, "a.b": 1}}"#,
        r#"{"projection": {"a": "$b"}}"#,
        r#"{"projection": {"$a": 1}}"#,
    ];
    assert_snapshot!(told(&finds, Find::parse));
}

#[test]
fn a_wrong_pipeline_is_told_in_one_sentence() {
    let pipelines = [
        r#"{"$match": {}}"#,
        r#"[{"$macth": {}}]"#,
        r#"[{"$lookup": {}}]"#,
        r#"[{"$match": {}, "$limit": 1}]"#,
        r#"[{"$group": {"n": {"$sum": 1}}}]"#,
        r#"[{"$group": {"_id": null, "n": 1}}]"#,
        r#"[{"$group": {"_id": null, "n": {"$total": 1}}}]"#,
        r#"[{"$group": {"_id": null, "n": {"$avg": {"$divide": ["$a", 2]}}}}]"#,
        r#"[{"$group": {"_id": null, "n": {"$percentile": {"input": "$a", "p": [95], "method": "approximate"}}}}]"#,
        r#"[{"$group": {"_id": null, "n": {"$percentile": {"input": "$a", "p": [0.95]}}}}]"#,
        r#"[{"$project": {"x": "$$NOW"}}]"#,
        r#"[{"$project": {"x": "$a..b"}}]"#,
        r#"[{"$project": {}}]"#,
        r#"[{"$limit": 0}]"#,
        r#"[{"$skip": -1}]"#,
        r#"[{"$sort": {}}]"#,
        r#"[{"$count": "a.b"}]"#,
        r#"[{"$unwind": "tags"}]"#,
        r#"[{"$unwind": {"path": "$tags", "keepEmpty": true}}]"#,
    ];
    assert_snapshot!(told(&pipelines, Pipeline::parse));
}

#[test]
fn text_that_is_not_json_is_pointed_at() {
    let long = format!(r#"{{"a": "{}", b: 1}}"#, "x".repeat(300));
    let texts = [
        "",
        "{",
        r#"{"status": ERROR}"#,
        r#"{"status": 'ERROR'}"#,
        r#"{status: "ERROR"}"#,
        r#"{"é": "ü", x}"#,
        r#"{"a": 1} and more"#,
        r#"{"a": 1e999}"#,
        "{\n  \"a\": 1,\n\t\"b\": [1, 2,],\n  \"c\": 3\n}",
        "{\"a\":\r\n tru\r\n}",
        r#"{"a": {"b": 1, "b": 2}}"#,
        &long,
    ];
    let mut drawn = String::new();
    for text in texts {
        let error = Filter::parse(text).unwrap_err();
        let place = error.get_ref().unwrap().downcast_ref::<SyntaxError>().unwrap();
        assert!(text.is_char_boundary(place.offset()) && place.offset() <= text.len());
        let before = &text[..place.offset()];
        assert_eq!(before.matches('\n').count() + 1, place.line(), "{text}");
        drawn.push_str(&format!("{error}\n{}\n\n", place.caret()));
    }
    assert_snapshot!(drawn);
}

#[test]
fn a_filter_as_deep_as_can_be_read_is_answered_and_a_deeper_one_is_refused() {
    let nested = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let document = serde_json::json!({"a": 1});
    for levels in [1, 10, 30, 45] {
        let text = nested(r#"{"$nor": ["#, r#"{"a": 1}"#, "]}", levels);
        assert_eq!(Filter::parse(&text).unwrap().matches(&document), levels % 2 == 0);
        let text = format!(r#"{{"a": {}}}"#, nested(r#"{"$not": "#, r#"{"$gt": 0}"#, "}", levels));
        assert_eq!(Filter::parse(&text).unwrap().matches(&document), levels % 2 == 0);
    }
    for levels in [60, 200, 100_000] {
        for text in [
            nested(r#"{"$and": ["#, "{}", "]}", levels),
            nested(r#"{"a": "#, "1", "}", 2 * levels),
            nested("[", "", "]", 2 * levels),
        ] {
            let error = Filter::parse(&text).unwrap_err().to_string();
            assert!(error.contains("nested"), "{error}");
        }
    }
    let mut value = serde_json::json!(1);
    for _ in 0..120 {
        value = serde_json::json!({ "a": value });
    }
    assert!(Filter::from_json(&value).unwrap_err().to_string().contains("nested"));
    let long_path = vec!["a"; 1000].join(".");
    assert!(Filter::parse(&format!(r#"{{"{long_path}": 1}}"#)).is_err());
}
