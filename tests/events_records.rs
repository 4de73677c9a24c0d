//! Records become the events that Stormlog makes of them, and where it refuses one, so do we, in its words.
//!
//! The cases were made by Stormlog itself; see `tests/data/stormlog/README.md`.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use runlore::events::{self, Identity, Options, Reason, Schema, TelemetryEvent};
use serde_json::{Map, Value, json};

pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/stormlog").join(name)
}

/// The cases of a file, one a line.
pub(crate) fn cases(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(data(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn options(case: &Value) -> Options {
    let mut options = Options::default();
    options.legacy = case["permissive_legacy"] != false;
    if let Some(id) = case["options"]["default_session_id"].as_str() {
        options = options.session(id);
    }
    options
}

/// What Stormlog said, in the form of what we say.
fn told<T: Into<Value>>(result: Result<T, impl std::fmt::Display>) -> Value {
    match result {
        Ok(ok) => json!({"ok": ok.into()}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// Where we differ on purpose, and why.
const DIFFERENT: [(&str, Schema, &str); 2] = [
    (
        "v2_session_id_field_present",
        Schema::V4,
        "0.4.3 refuses a session in schema 2, which 0.3.9 takes; so do we, for such files exist",
    ),
    (
        "invalid_v3_missing_metadata",
        Schema::V4,
        "0.4.3 fails with a KeyError; we name the field that is missing, as 0.3.9 does",
    ),
];

fn check(schema: Schema, field: &str, applies: impl Fn(&Value) -> bool) -> usize {
    let mut count = 0;
    for case in cases("records.jsonl").iter().filter(|case| applies(case)) {
        let name = case["name"].as_str().unwrap();
        if DIFFERENT.iter().any(|(other, of, _)| (*other, *of) == (name, schema)) {
            continue;
        }
        let record = &case["record"];
        let event = TelemetryEvent::from_record(record, &options(case));
        let ours = told(event.clone().and_then(|event| event.to_record(schema)));
        assert_eq!(ours, case[field], "{name}");
        let text = record.to_string();
        let of_text = TelemetryEvent::from_json(text.as_bytes(), &options(case));
        assert_eq!(
            of_text.map_err(|error| error.to_string()),
            event.map_err(|error| error.to_string()),
            "{name} as text"
        );
        count += 1;
    }
    count
}

fn is_v4(case: &Value) -> bool {
    case["record"]["schema_version"] == 4
}

#[test]
fn every_record_becomes_what_stormlog_makes_of_it() {
    assert_eq!(check(Schema::V3, "expect", |case| !is_v4(case)), 120);
    assert_eq!(check(Schema::V4, "expect_v4", |_| true), 125);
}

#[test]
fn each_difference_is_as_described() {
    let case =
        |name: &str| cases("records.jsonl").into_iter().find(|case| case["name"] == name).unwrap();
    let with_session = case("v2_session_id_field_present");
    let event = TelemetryEvent::from_record(&with_session["record"], &Options::default()).unwrap();
    assert_eq!(event.to_record(Schema::V3).unwrap(), with_session["expect"]["ok"]);
    assert_eq!(
        events::validate(&with_session["record"]).unwrap_err().to_string(),
        "Unknown telemetry fields: session_id",
        "both versions say so where nothing is filled in"
    );
    let without = &case("invalid_v3_missing_metadata")["record"];
    let error = TelemetryEvent::from_record(without, &Options::default()).unwrap_err();
    assert_eq!(error.reason(), &Reason::Missing(vec!["metadata"]));
}

#[test]
fn what_we_write_is_valid_and_comes_back_equal() {
    let mut count = 0;
    for case in cases("records.jsonl") {
        let Ok(event) = TelemetryEvent::from_record(&case["record"], &options(&case)) else {
            continue;
        };
        for schema in [Schema::V2, Schema::V3, Schema::V4] {
            let Ok(record) = event.to_record(schema) else {
                assert!(schema < Schema::V4, "{}", case["name"]);
                continue;
            };
            events::validate(&record).unwrap_or_else(|error| panic!("{record}: {error}"));
            let again = TelemetryEvent::from_record(&record, &Options::default()).unwrap();
            let mut again = TelemetryEvent { session_id: event.session_id.clone(), ..again };
            if schema == Schema::V4 && !event.metadata.contains_key("memory_capabilities") {
                again.metadata.remove("memory_capabilities");
            }
            if schema == Schema::V2 && !event.metadata.contains_key("session_id") {
                again.metadata.remove("session_id");
            }
            assert_eq!(again, event, "{}", case["name"]);
            count += 1;
        }
    }
    assert_eq!(count, 133);
}

#[test]
fn every_identity_is_what_stormlog_resolves() {
    for case in cases("identity.jsonl") {
        let input = &case["input"];
        let environment = |name: &str| input["env"][name].as_str().map(str::to_owned);
        let ours = Identity::resolve(input, &input["metadata"], environment).map(|identity| {
            json!({
                "job_id": identity.job_id,
                "rank": identity.rank,
                "local_rank": identity.local_rank,
                "world_size": identity.world_size,
            })
        });
        assert_eq!(told(ours), case["expect"], "{}", case["name"]);
    }
}

#[test]
fn a_rank_in_other_digits_counts_and_one_in_no_digits_does_not() {
    let environment = |rank: &'static str| {
        move |name: &str| match name {
            "RANK" => Some(rank.to_owned()),
            "WORLD_SIZE" => Some("8".to_owned()),
            _ => None,
        }
    };
    let nothing = json!({});
    let rank = |text| Identity::resolve(&nothing, &nothing, environment(text)).map(|id| id.rank);
    assert_eq!(rank("\u{663}"), Ok(3));
    assert_eq!(rank("1.0").unwrap_err().to_string(), "rank must be an integer");
    let known = json!({"rank": 1, "local_rank": 0, "world_size": 2});
    let of_known = Identity::resolve(&known, &nothing, environment("bogus")).unwrap();
    assert_eq!(of_known.rank, 1, "what is known is not looked up");
}

#[test]
fn numbers_that_64_bits_do_not_hold_are_refused_by_name() {
    let full = json!({
        "schema_version": 3, "session_id": "s", "timestamp_ns": 1, "event_type": "sample", "collector": "c",
        "sampling_interval_ms": 0, "pid": 1, "host": "h", "device_id": 0, "allocator_allocated_bytes": 1,
        "allocator_reserved_bytes": 1, "allocator_active_bytes": null, "allocator_inactive_bytes": null,
        "allocator_change_bytes": 0, "device_used_bytes": 1, "device_free_bytes": null,
        "device_total_bytes": null, "context": null, "metadata": {},
    });
    let refused = |field: &str, number: &str| {
        let text = full.to_string();
        let value = full[field].to_string();
        let text = text.replace(&format!("\"{field}\":{value}"), &format!("\"{field}\":{number}"));
        TelemetryEvent::from_json(text.as_bytes(), &Options::default())
            .map_err(|error| error.to_string())
    };
    let most = refused("timestamp_ns", "18446744073709551615").unwrap();
    assert_eq!(most.timestamp_ns, u64::MAX);
    for (field, number) in [
        ("timestamp_ns", "18446744073709551616"),
        ("device_used_bytes", "1208925819614629174706176"),
        ("allocator_change_bytes", "9223372036854775808"),
        ("allocator_change_bytes", "-9223372036854775809"),
        ("pid", "9223372036854775808"),
    ] {
        let error = refused(field, number).unwrap_err();
        assert_eq!(error, format!("{field} must be an integer of at most 64 bits"));
    }
    let event = refused("metadata", r#"{"big": [1208925819614629174706176], "x": 1e300}"#).unwrap();
    assert_eq!(event.metadata["big"][0], "1208925819614629174706176");
    assert_eq!(event.metadata["x"], 1e300);
}

#[test]
fn the_short_way_goes_no_deeper_than_the_long_one() {
    let mut record = cases("records.jsonl")[0]["record"].clone();
    for depth in 1..140 {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        record["metadata"] = json!({"deep": 0});
        let text = record.to_string().replace("\"deep\":0", &format!("\"deep\":{deep}"));
        let long: Result<Value, _> = serde_json::from_str(&text);
        let short = TelemetryEvent::from_json(text.as_bytes(), &Options::default());
        assert_eq!(short.is_ok(), long.is_ok(), "{depth}");
        if let (Ok(long), Ok(short)) = (long, short) {
            assert_eq!(TelemetryEvent::from_record(&long, &Options::default()), Ok(short));
        }
    }
}

#[test]
fn schema_4_is_told_in_schema_3_only_without_its_unknowns() {
    let case = |name: &str| {
        let case = cases("records.jsonl").into_iter().find(|case| case["name"] == name).unwrap();
        TelemetryEvent::from_record(&case["record"], &Options::default()).unwrap()
    };
    let full = case("v4_full").to_record(Schema::V3).unwrap();
    assert!(full["metadata"]["memory_capabilities"].is_object(), "what is known is kept");
    let partial = case("v4_null_core_counters");
    let refused = partial.to_record(Schema::V3).unwrap_err();
    assert_eq!(
        (refused.field(), refused.to_string().as_str()),
        (
            "allocator_allocated_bytes",
            "allocator_allocated_bytes is null, which schema 2 and 3 cannot say"
        )
    );
    let lossy = partial.to_record(events::Target::from(Schema::V3).lossy()).unwrap();
    assert_eq!(lossy["allocator_allocated_bytes"], 0);
    assert_eq!(lossy["metadata"].get("memory_capabilities"), None, "it would contradict the 0");
    events::validate(&lossy).unwrap();
}

/// A value that a field may be spoilt with, or its metadata filled.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ \\t\u{1c}a-z\u{e9}\"\\\\]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,4}|session_id|rank", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A record of the samples with fields taken out, spoilt or added.
fn any_record() -> impl Strategy<Value = Value> {
    let records: Vec<Value> =
        cases("records.jsonl").into_iter().map(|case| case["record"].clone()).collect();
    let fields: Vec<String> = records
        .iter()
        .filter_map(Value::as_object)
        .flat_map(Map::keys)
        .cloned()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let change = (prop::sample::select(fields), prop::option::of(any_value()));
    let changes = prop::collection::vec(change, 0..3);
    (prop::sample::select(records), changes).prop_map(|(mut record, changes)| {
        if let Some(record) = record.as_object_mut() {
            for (field, value) in changes {
                match value {
                    Some(value) => record.insert(field, value),
                    None => record.remove(&field),
                };
            }
        }
        record
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_short_way_and_the_long_way_agree(record in any_record()) {
        let text = record.to_string();
        // What the parser makes of the text, which may be other than what it was written from.
        let value: Value = serde_json::from_str(&text).unwrap();
        let long = TelemetryEvent::from_record(&value, &Options::default());
        let short = TelemetryEvent::from_json(text.as_bytes(), &Options::default());
        prop_assert_eq!(short.map_err(|error| error.to_string()), long.clone().map_err(|error| error.to_string()));
        if let Ok(event) = long {
            event.check().unwrap();
            let again = event.to_record(events::Target::from(Schema::V3).lossy()).unwrap();
            events::validate(&again).unwrap();
        }
    }
}
