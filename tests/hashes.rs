//! Which values have a hash, and that no two different values share one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use runlore::ml::{Inspect, TensorFacts};
use runlore::provenance::Subject;
use runlore::record::{CaptureValue, Encoder, TaskObject, hash_of};
use runlore::store::{MemoryStore, Sink};
use runlore::{Provenance, task, telemetry_task};
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::support::{record, the};

/// The hash that a task has of the value `x` that it used.
fn hash_in(task: &TaskObject) -> Option<String> {
    let used = task.hashes.as_ref()?.get("used")?;
    used.get("x")?.as_str().map(str::to_owned)
}

fn stored(value: &(impl Serialize + ?Sized)) -> TaskObject {
    the(&record(|| task("t").used("x", value).run(|| ())), "t")
}

/// The hash of a value that has a `Serialize`.
fn hash(value: &(impl Serialize + ?Sized)) -> Option<String> {
    hash_in(&stored(value))
}

/// Why such a value has no hash.
fn why_not(value: &(impl Serialize + ?Sized)) -> String {
    let task = stored(value);
    assert_eq!(hash_in(&task), None);
    task.unavailable.unwrap()["hashes.used.x"].as_str().unwrap().to_owned()
}

/// The hash of an argument of this type.
macro_rules! argument {
    ($value:expr, $type:ty) => {{
        #[telemetry_task(name = "t")]
        #[allow(unused_variables, clippy::needless_pass_by_value, clippy::ptr_arg)]
        fn f(x: $type) {}
        hash_in(&the(&record(|| f($value)), "t"))
    }};
}

fn traces(store: &MemoryStore, task: &str) -> usize {
    let id = the(store, task).task_id;
    Provenance::of(store.clone()).lineage_of(Subject::Task(id)).unwrap().values.len()
}

// Tensors and others that are known by facts.

#[derive(Clone)]
struct Tensor {
    data: Vec<f32>,
}

impl Inspect for Tensor {
    fn facts(&self) -> TensorFacts {
        TensorFacts::new(&[self.data.len()], "f32", 4).on("cpu")
    }
}

#[test]
fn tensors_known_by_their_facts_have_no_hash() {
    #[telemetry_task(output = "y")]
    fn act(x: &Tensor) -> Tensor {
        Tensor { data: x.data.iter().map(|value| value.max(0.0)).collect() }
    }
    #[telemetry_task(outputs("a", "b"))]
    fn split(x: (Tensor, Option<Tensor>), all: &[Tensor]) -> (Tensor, Tensor) {
        (x.0, all[0].clone())
    }
    let x = Tensor { data: vec![-1.0, 1.0, 2.0] };
    let store = record(|| {
        let y = act(&x);
        split((y.clone(), Some(y.clone())), &[x.clone(), y]);
        task("by hand").used("x", x.facts()).used("all", [Some(x.facts())]).run(|| ());
    });
    for name in ["act", "split", "by hand"] {
        assert_eq!(the(&store, name).hashes, None, "{name}");
        assert_eq!(traces(&store, name), 0, "{name}");
    }
}

#[test]
fn what_a_type_says_of_itself_has_no_hash() {
    struct Handle(u64);
    impl CaptureValue for Handle {
        fn capture(&self, to: &mut Encoder<'_>) {
            to.map(|facts| facts.field("kind", "a handle of the device, whichever it is"));
            _ = self.0;
        }
    }
    assert_eq!(argument!(&Handle(1), &Handle), None);
    assert_eq!(argument!(Arc::new(Handle(2)), Arc<Handle>), None);
}

// Values beyond the limits.

/// Values that differ behind every limit, each with another that is equal up to there.
fn pairs() -> Vec<(Value, Value)> {
    let deep = |end: &str| (0..40).fold(json!(end), |inner, _| json!([inner]));
    let list = |last: u32| (0..500).map(|n| json!(n)).chain([json!(last)]).collect::<Value>();
    let map = |last: u32| {
        let fields = (0..100).map(|n| (format!("k{n:03}"), json!(n)));
        fields.chain([("last".to_owned(), json!(last))]).collect::<Value>()
    };
    vec![
        (json!("a".repeat(5000) + "b"), json!("a".repeat(5000) + "c")),
        (list(1), list(2)),
        (map(1), map(2)),
        (deep("a text"), deep("b text")),
        (json!({"rows": list(1), "loss": 0.5}), json!({"rows": list(2), "loss": 0.5})),
        (json!(["a".repeat(5000) + "b", 1]), json!(["a".repeat(5000) + "c", 1])),
    ]
}

#[test]
fn whole_values_are_hashed_whatever_a_record_keeps_of_them() {
    for (one, other) in pairs() {
        let (first, second) = (hash(&one), hash(&other));
        assert!(first != second, "values that begin as {one:.100} does");
        // Anybody who has the value can compute the hash.
        assert_eq!(first.as_deref(), Some(&*hash_of(&one)));
        assert_eq!(second.as_deref(), Some(&*hash_of(&other)));
    }
}

#[test]
fn a_long_text_has_one_hash_however_it_is_given() {
    let text = "grün ".repeat(5000);
    let wanted = Some(hash_of(&json!(text)));
    assert_eq!(argument!(&text, &str), wanted);
    assert_eq!(argument!(text.clone(), String), wanted);
    assert_eq!(hash(&text), wanted);
    assert_eq!(hash(&Some(Box::new(&*text))), wanted);
}

#[test]
fn shapes_of_serde_hash_as_the_json_that_they_are_stored_as() {
    #[derive(Serialize)]
    struct All {
        unit: (),
        newtype: Newtype,
        variants: Vec<Variant>,
        by_number: BTreeMap<i64, u8>,
        by_truth: BTreeMap<bool, u8>,
        by_pair: BTreeMap<Variant, u8>,
        short: f32,
        letter: char,
        large: (i128, u128, i128),
        rest: Vec<u16>,
    }
    #[derive(Serialize)]
    struct Newtype(Option<u8>);
    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Variant {
        Unit,
        Newtype(u8),
        Tuple(u8, u8),
        Struct { z: u8, a: u8 },
    }
    fn all(rest: usize) -> (All, Value) {
        let variants = vec![
            Variant::Unit,
            Variant::Newtype(1),
            Variant::Tuple(1, 2),
            Variant::Struct { z: 1, a: 2 },
        ];
        let value = All {
            unit: (),
            newtype: Newtype(Some(7)),
            variants,
            by_number: BTreeMap::from([(-5, 1), (10, 2)]),
            by_truth: BTreeMap::from([(true, 1)]),
            by_pair: BTreeMap::from([(Variant::Tuple(1, 2), 1), (Variant::Unit, 2)]),
            short: 0.1,
            letter: 'ü',
            large: (i128::MAX, u128::from(u64::MAX), -3),
            rest: vec![3; rest],
        };
        let json = json!({
            "unit": null, "newtype": 7,
            "variants": ["Unit", {"Newtype": 1}, {"Tuple": [1, 2]}, {"Struct": {"a": 2, "z": 1}}],
            "by_number": {"-5": 1, "10": 2}, "by_truth": {"true": 1},
            "by_pair": {"{\"Tuple\":[1,2]}": 1, "Unit": 2},
            "short": 0.1, "letter": "ü", "large": [i128::MAX.to_string(), u64::MAX, -3], "rest": vec![3; rest],
        });
        (value, json)
    }
    for rest in [0, 1000] {
        let (value, json) = all(rest);
        assert_eq!(hash(&value), Some(hash_of(&json)), "with {rest} more");
    }
}

#[test]
fn bytes_inside_a_value_are_hashed_to_their_end() {
    struct Bytes(Vec<u8>);
    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }
    let of = |last: u8| {
        let mut bytes = vec![7; 20_000];
        bytes.push(last);
        bytes
    };
    assert_ne!(hash(&[Bytes(of(1))]), hash(&[Bytes(of(2))]));
    assert!(hash(&[Bytes(of(1))]).is_some());
    // Bytes alone are hashed as such, in any type that holds them.
    assert_eq!(hash(&Bytes(of(1))), argument!(&of(1), &[u8]));
    assert_ne!(hash(&Bytes(of(1))), hash(&Bytes(of(2))));
}

#[test]
fn numbers_that_json_does_not_have_are_told_apart() {
    let of = |last: f64| vec![1.0, 2.0, last];
    let hashes: BTreeSet<_> = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0]
        .map(|last| argument!(of(last), Vec<f64>).unwrap())
        .into();
    assert_eq!(hashes.len(), 4);
    assert_eq!(hash(&of(f64::NAN)), argument!(of(f64::NAN), Vec<f64>));
    assert_ne!(hash(&of(f64::NAN)), hash(&json!([1.0, 2.0, null])));
}

#[test]
fn long_debug_texts_are_hashed_to_their_end() {
    #[derive(Debug)]
    #[allow(dead_code)]
    struct Only(Vec<u32>, &'static str);
    let of = |end| Only((0..5000).collect(), end);
    assert!(argument!(of("a"), Only).is_some());
    assert_eq!(argument!(of("a"), Only), argument!(of("a"), Only));
    assert_ne!(argument!(of("a"), Only), argument!(of("b"), Only));
}

#[test]
fn a_debug_text_that_leaves_something_out_has_no_hash() {
    struct Partly(#[allow(dead_code)] u32);
    impl Debug for Partly {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Partly")
                .field("kind", &"such as there are many")
                .finish_non_exhaustive()
        }
    }
    struct Says(&'static str);
    impl Debug for Says {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }
    assert_eq!(argument!(Partly(1), Partly), None);
    // As `ndarray`, `tch` and `candle` do.
    let array = "[0.0, 1.0, 2.0, ..., 997.0, 998.0, 999.0], shape=[1000]";
    for text in
        [array, "Batch { x: Tensor[[64, 10], Float] }", "Batch { x: Tensor[dims 64, 10; f32] }"]
    {
        assert_eq!(argument!(Says(text), Says), None, "{text}");
    }
    assert!(
        argument!((0..5, "a text", 'x'..'z'), (std::ops::Range<u8>, &str, std::ops::Range<char>))
            .is_some()
    );
}

/// A list that never ends.
struct Endless;

impl Serialize for Endless {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        loop {
            list.serialize_element("an item")?;
        }
    }
}

#[test]
fn a_value_that_takes_too_long_has_no_hash_and_a_reason() {
    assert_eq!(why_not(&Endless), "hashing all of the value took too long");
    struct Prints;
    impl Debug for Prints {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            loop {
                f.write_str("without end ")?;
            }
        }
    }
    #[telemetry_task(name = "t")]
    fn f(x: Prints) {
        _ = x;
    }
    let task = the(&record(|| f(Prints)), "t");
    assert_eq!(hash_in(&task), None);
    assert_eq!(task.used.unwrap()["x"]["truncated"], "string");
    assert_eq!(
        task.unavailable.unwrap()["hashes.used.x"],
        "hashing all of the value took too long"
    );
}

#[test]
fn a_value_that_fails_beyond_the_limits_keeps_its_beginning() {
    struct Item(u32);
    impl Serialize for Item {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                300 => panic!("an item that panics"),
                600 => Err(S::Error::custom("an item that refuses")),
                n => serializer.serialize_u32(n),
            }
        }
    }
    for range in [200..400, 500..700] {
        let items: Vec<Item> = range.map(Item).collect();
        assert_eq!(why_not(&items), "its own Serialize failed past the limits");
        assert_eq!(stored(&items).used.unwrap()["x"]["first"].as_array().unwrap().len(), 64);
    }
}

#[test]
fn a_value_that_is_nested_without_end_has_no_hash_and_a_reason() {
    struct Nested;
    impl Serialize for Nested {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq([Nested])
        }
    }
    struct Some_;
    impl Serialize for Some_ {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_some(&Some_)
        }
    }
    assert_eq!(why_not(&Nested), "it is nested too deeply to be hashed");
    assert_eq!(hash(&Some_), None);
}

#[test]
fn a_secret_beyond_the_limits_leaves_no_hash() {
    let many = |last: Value| (0..100).map(|n| json!(n)).chain([last]).collect::<Value>();
    let secrets = [
        json!({"password": "hunter2"}),
        json!({"auth": {"api_key": [1, 2, 3]}}),
        json!("pg://ann:hunter2@db/x"),
        json!("a".repeat(50_000) + " pg://ann:hunter2@db/x " + &"b".repeat(50_000)),
    ];
    for secret in secrets {
        assert_eq!(hash(&many(secret.clone())), None, "{secret}");
    }
    let text = "a".repeat(50_000) + " pg://ann:hunter2@db/x " + &"b".repeat(50_000);
    assert_eq!(argument!(&text, &str), None);
    assert_eq!(
        hash(&"pg://ann:hunter2@db/x"),
        None,
        "the password is no part of what would be hashed"
    );
    #[derive(Debug)]
    #[allow(dead_code)]
    struct Only(Vec<u32>, Login);
    #[derive(Debug)]
    #[allow(dead_code)]
    struct Login {
        password: &'static str,
    }
    assert_eq!(argument!(Only((0..5000).collect(), Login { password: "hunter2" }), Only), None);
    assert_eq!(argument!(Only(vec![], Login { password: "hunter2" }), Only), None);
    // What is no secret does not cost the hash.
    assert!(hash(&many(json!({"tokens_per_sec": 5, "token": 7}))).is_some());
    assert_eq!(hash(&many(json!({"password": 7}))), None, "a number can be a password");
}

#[test]
fn fields_that_are_spread_have_hashes_of_their_own() {
    #[derive(Serialize)]
    struct Out {
        short: &'static str,
        long: Vec<String>,
    }
    #[telemetry_task(spread)]
    fn split(count: usize) -> Out {
        Out {
            short: "a text that is kept as a whole",
            long: (0..count).map(|n| n.to_string()).collect(),
        }
    }
    let task = the(&record(|| _ = split(1000)), "split");
    let hashes = task.hashes.unwrap();
    assert_eq!(hashes["generated"]["short"], hash_of(&json!("a text that is kept as a whole")));
    assert_eq!(hashes["generated"].get("long"), None);
    assert_eq!(task.unavailable.unwrap()["hashes.generated.long"], "only its beginning was kept");
}

// Paths.

#[test]
fn paths_have_no_hash() {
    let path = PathBuf::from("/data/runs/checkpoint.safetensors");
    let none = [
        argument!(&path, &Path),
        argument!(path.clone(), PathBuf),
        argument!(&mut path.clone(), &mut PathBuf),
        argument!(Box::from(&*path), Box<Path>),
        argument!(Arc::from(&*path), Arc<Path>),
        argument!(Cow::Borrowed(&path), Cow<'_, Path>),
        argument!(Some(path.clone()), Option<PathBuf>),
        argument!(vec![path.clone(), path.clone()], Vec<PathBuf>),
        argument!(&[&path, &path], &[&Path; 2]),
        argument!((path.clone(), path.clone()), (PathBuf, PathBuf)),
        argument!(BTreeSet::from([path.clone()]), BTreeSet<PathBuf>),
        argument!(&Mutex::new(path.clone()), &Mutex<PathBuf>),
        hash(&path),
        hash(&[&*path]),
    ];
    assert_eq!(none, [const { None }; 14]);

    #[telemetry_task(name = "t")]
    fn generic<P: AsRef<Path> + Debug>(x: P) {
        drop(x);
    }
    assert_eq!(hash_in(&the(&record(|| generic(&path)), "t")), None);
    let file = tempfile::tempfile().unwrap();
    assert_eq!(argument!(&file, &std::fs::File), None);
}

#[test]
fn texts_and_values_that_have_paths_among_others_are_still_hashed() {
    let path = "/data/runs/checkpoint.safetensors";
    assert_eq!(argument!(path, &str), Some(hash_of(&json!(path))));
    #[derive(Serialize)]
    struct Settings {
        path: PathBuf,
        rate: f64,
    }
    assert_eq!(
        hash(&Settings { path: path.into(), rate: 0.1 }),
        Some(hash_of(&json!({"path": path, "rate": 0.1})))
    );
    assert!(hash(&(PathBuf::from(path), 5)).is_some());
}

#[test]
fn checkpoints_under_one_path_are_not_joined() {
    #[telemetry_task(output = "checkpoint")]
    fn save(folder: &Path, _epoch: u32) -> PathBuf {
        folder.join("model.safetensors")
    }
    #[telemetry_task]
    fn evaluate(checkpoint: &Path) {
        _ = checkpoint;
    }
    let store = record(|| {
        let folder = Path::new("/data/runs/of/today");
        (0..3).for_each(|epoch| evaluate(&save(folder, epoch)));
    });
    let records = Provenance::of(store);
    for task in records.tasks().to_vec().unwrap() {
        let lineage = records.lineage_of(Subject::Task(task.task_id)).unwrap();
        assert!(lineage.values.is_empty(), "{lineage:?}");
    }
    let lineage = records.lineage_of(json!("/data/runs/of/today/model.safetensors")).unwrap();
    assert!(lineage.values[0].generated_by.is_empty() && lineage.values[0].used_by.is_empty());
}

// Hashes that older versions wrote.

#[test]
fn hashes_of_a_beginning_are_read_and_join_nothing() {
    let prefix = "xxh3-128/prefix:48764c0ff8b8770da79bc46c68e79d4d";
    let whole = "xxh3-128:48764c0ff8b8770da79bc46c68e79d4d";
    let record = |id: &str, hashes: Value| {
        let json = json!({"type": "task", "task_id": id, "activity_id": id, "workflow_id": "w", "hashes": hashes});
        runlore::record::Record::from_json(json).unwrap()
    };
    let store = MemoryStore::new();
    let mut sink = Sink::open(store.clone(), "w").unwrap();
    sink.add(&record("make", json!({"generated": {"x": prefix, "y": whole}}))).unwrap();
    sink.add(&record("use", json!({"used": {"x": prefix, "y": whole}}))).unwrap();
    sink.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut stores = vec![folder.path().join("lines")];
    if cfg!(feature = "sqlite") {
        stores.push(folder.path().join("x.db"));
    }
    let memory = Provenance::of(store);
    let mut all = vec![];
    for path in &stores {
        memory.copy_to(&**path, |_| ()).unwrap();
        all.push(Provenance::open(path).unwrap());
    }
    all.push(memory);
    for records in all {
        let task = records.task("make").unwrap().unwrap();
        assert_eq!(task.hashes.unwrap()["generated"]["x"], prefix);
        let of_task = records.lineage_of(Subject::Task("make".into())).unwrap();
        assert_eq!(of_task.values.len(), 1, "{of_task:?}");
        assert_eq!(of_task.values[0].hash, whole);
        assert_eq!(of_task.values[0].used_by.len(), 1);
        let by_prefix = records.lineage_of(Subject::Hash(prefix.into())).unwrap();
        assert!(
            by_prefix.values.iter().all(|it| it.generated_by.is_empty() && it.used_by.is_empty())
        );
    }
}

// What holds for all values.

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "[a-c]{0,6}".prop_map(Value::from),
        (4000..5000_usize).prop_map(|length| Value::from("é".repeat(length))),
        (60..90_usize).prop_map(|length| Value::from(vec![1; length])),
    ];
    leaf.prop_recursive(12, 120, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..8)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Changes the last leaf of a value, which most limits leave out.
fn change_last(value: &mut Value) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.last_mut().into_iter().for_each(change_last);
        }
        Value::Object(fields) if !fields.is_empty() => {
            fields.values_mut().last().into_iter().for_each(change_last);
        }
        Value::String(text) => text.push('x'),
        other => *other = json!([other.take()]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn different_values_have_different_hashes(
        one in any_value(), other in any_value(), padding in (0..200_usize, 0..20_usize)
    ) {
        // Beyond the limits of items and depth.
        let pad = |value: Value| {
            let list = (0..padding.0).map(Value::from).chain([value]).collect::<Value>();
            (0..padding.1).fold(list, |inner, _| json!([inner]))
        };
        let mut changed = one.clone();
        change_last(&mut changed);
        let values = [one, other, changed].map(pad);
        let store = record(|| {
            for (at, value) in values.iter().enumerate() {
                task(&at.to_string()).used("x", value).run(|| ());
            }
        });
        let hashes: Vec<_> = (0..3).map(|at| hash_in(&the(&store, &at.to_string()))).collect();
        for (value, hash) in values.iter().zip(&hashes) {
            if let Some(hash) = hash {
                prop_assert_eq!(hash, &hash_of(value));
            }
        }
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let is_same = hashes[one].is_some() && hashes[one] == hashes[other];
            prop_assert!(!is_same || values[one] == values[other], "{} and {}", values[one], values[other]);
        }
    }
}
