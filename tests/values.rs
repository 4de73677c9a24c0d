//! What becomes of the values that a task gets and gives: limits, secrets, and whatever a program may throw at us.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};

use runlore::record::{CaptureValue, Encoder, Status, TaskObject, hash_of};
use runlore::{task, telemetry_task};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::support::{record, the};

/// What a task recorded of one value that has a `Serialize`.
fn stored(value: &(impl Serialize + ?Sized)) -> TaskObject {
    the(&record(|| task("t").used("x", value).run(|| ())), "t")
}

fn used(task: &TaskObject) -> &Value {
    &task.used.as_ref().unwrap()["x"]
}

macro_rules! recorded {
    ($value:expr, $type:ty) => {{
        #[telemetry_task(name = "t")]
        #[allow(unused_variables, clippy::needless_pass_by_value, clippy::ptr_arg)]
        fn f(x: $type) {}
        the(&record(|| f($value)), "t")
    }};
}

#[derive(Serialize, Debug, Clone)]
struct Point {
    x: f64,
    y: i32,
}

#[derive(Debug)]
struct OnlyDebug {
    #[allow(dead_code)]
    size: usize,
}

struct Neither;

#[test]
fn a_type_is_recorded_by_the_best_it_offers() {
    assert_eq!(*used(&recorded!(5, i32)), json!(5));
    assert_eq!(*used(&recorded!(&mut 5, &mut i32)), json!(5));
    assert_eq!(*used(&recorded!("text", &str)), json!("text"));
    assert_eq!(*used(&recorded!(Point { x: 1.5, y: 2 }, Point)), json!({"x": 1.5, "y": 2}));
    assert_eq!(
        *used(&recorded!(Arc::new(Point { x: 1.5, y: 2 }), Arc<Point>)),
        json!({"x": 1.5, "y": 2})
    );
    assert_eq!(*used(&recorded!(OnlyDebug { size: 3 }, OnlyDebug)), json!("OnlyDebug { size: 3 }"));
    assert_eq!(*used(&recorded!(Neither, Neither)), json!("<suite::values::Neither>"));
    assert_eq!(*used(&recorded!(Some(1), Option<u8>)), json!(1));
    assert_eq!(*used(&recorded!((1, "a"), (u8, &str))), json!([1, "a"]));
    assert_eq!(*used(&recorded!(vec![1.5, 2.5], Vec<f64>)), json!([1.5, 2.5]));
    assert_eq!(*used(&recorded!([1_u16; 3], [u16; 3])), json!([1, 1, 1]));
    assert_eq!(*used(&recorded!(b"abc", &[u8; 3])), json!("YWJj"));
    assert_eq!(*used(&recorded!(0.1, f32)), json!(0.1));
}

#[test]
fn inside_a_generic_function_the_bounds_decide() {
    #[telemetry_task(name = "t")]
    fn by_serialize<T: Serialize>(x: T) {
        drop(x);
    }
    #[telemetry_task(name = "t")]
    fn by_debug<T: fmt::Debug>(x: T) {
        drop(x);
    }
    #[telemetry_task(name = "t")]
    fn by_name<T>(x: T) {
        drop(x);
    }
    let point = Point { x: 1.0, y: 2 };
    assert_eq!(*used(&the(&record(|| by_serialize(&point)), "t")), json!({"x": 1.0, "y": 2}));
    assert_eq!(*used(&the(&record(|| by_debug(&point)), "t")), json!("Point { x: 1.0, y: 2 }"));
    assert_eq!(*used(&the(&record(|| by_name(7)), "t")), json!("<i32>"));
}

#[test]
fn locks_are_looked_into_without_waiting() {
    let lock = Mutex::new(Point { x: 1.0, y: 2 });
    assert_eq!(*used(&recorded!(&lock, &Mutex<Point>)), json!({"x": 1.0, "y": 2}));
    let held = lock.lock().unwrap();
    let task = recorded!(&lock, &Mutex<Point>);
    assert_eq!(*used(&task), Value::Null);
    assert_eq!(task.unavailable.unwrap()["used.x"], "it was locked");
    drop(held);

    let shared = Arc::new(RwLock::new(3));
    let held = shared.write().unwrap();
    assert_eq!(*used(&recorded!(Arc::clone(&shared), Arc<RwLock<i32>>)), Value::Null);
    drop(held);
    assert_eq!(*used(&recorded!(shared, Arc<RwLock<i32>>)), json!(3));

    let cell = Rc::new(RefCell::new(OnlyDebug { size: 1 }));
    let borrowed = cell.borrow_mut();
    assert_eq!(*used(&recorded!(Rc::clone(&cell), Rc<RefCell<OnlyDebug>>)), Value::Null);
    drop(borrowed);
    assert_eq!(*used(&recorded!(cell, Rc<RefCell<OnlyDebug>>)), json!("OnlyDebug { size: 1 }"));
}

#[test]
fn what_is_too_long_is_told_with_its_length_and_its_beginning() {
    let list: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let task = stored(&list);
    assert_eq!(used(&task)["truncated"], "array");
    assert_eq!(used(&task)["len"], 1000);
    assert_eq!(used(&task)["first"].as_array().unwrap().len(), 64);
    assert_eq!(task.hashes.unwrap()["used"]["x"], hash_of(&json!(list)));

    let text = "é".repeat(50_000_000);
    let task = stored(&text);
    assert_eq!(used(&task)["truncated"], "string");
    assert_eq!(used(&task)["len"], 100_000_000);
    assert_eq!(used(&task)["first"].as_str().unwrap().len(), 4096);

    let bytes = vec![7_u8; 100_000];
    let task = recorded!(&bytes, &Vec<u8>);
    assert_eq!(
        (&used(&task)["truncated"], &used(&task)["len"]),
        (&json!("bytes"), &json!(100_000))
    );
    assert!(task.hashes.unwrap()["used"]["x"].as_str().unwrap().starts_with("xxh3-128:"));

    let map: BTreeMap<String, u32> = (0..100).map(|n| (format!("k{n:03}"), n)).collect();
    assert_eq!(used(&stored(&map))["len"], 100);
    assert_eq!(used(&stored(&map))["first"]["k063"], 63);
}

#[test]
fn fields_after_a_long_list_are_kept() {
    #[derive(Serialize)]
    struct Batch {
        rows: Vec<u32>,
        loss: f64,
    }
    for length in [1000, 1_000_000] {
        let task = stored(&Batch { rows: (0..length).collect(), loss: 0.5 });
        assert_eq!(used(&task)["rows"]["len"], length);
        assert_eq!(used(&task)["rows"]["first"].as_array().unwrap().len(), 64);
        assert_eq!(used(&task)["loss"], 0.5);
    }
}

#[test]
fn fields_after_a_long_map_are_kept() {
    let map: BTreeMap<u32, u32> = (0..100_000).map(|n| (n, n)).collect();
    let task = stored(&(map, 0.5));
    assert_eq!(used(&task)[0]["len"], 100_000);
    assert_eq!(used(&task)[0]["first"].as_object().unwrap().len(), 64);
    assert_eq!(used(&task)[1], 0.5);
}

#[test]
fn what_does_not_say_how_long_it_is_ends_the_walk() {
    #[derive(Serialize)]
    struct Batch {
        rows: Odd,
        loss: f64,
    }
    /// The odd numbers up to this one.
    struct Odd(u32);

    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq((0..self.0).filter(|n| n % 2 == 1))
        }
    }
    let task = stored(&Batch { rows: Odd(2000), loss: 0.5 });
    assert_eq!(used(&task)["rows"]["len"], 1000);
    assert_eq!(used(&task)["loss"], 0.5);
    // Past what a caller should have to pay for, the walk is given up as a whole.
    let task = stored(&Batch { rows: Odd(200_000), loss: 0.5 });
    assert_eq!(used(&task)["truncated"], "object");
    assert_eq!(used(&task)["first"]["rows"]["truncated"], "array");
}

#[test]
fn a_value_is_hashed_however_long_it_takes_where_that_is_asked_for() {
    #[telemetry_task(name = "t", summarise = "full")]
    fn f(x: &[String]) -> usize {
        x.len()
    }
    let list: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let task = the(&record(|| _ = f(&list)), "t");
    assert_eq!(used(&task)["first"].as_array().unwrap().len(), 64, "the record keeps its size");
    assert_eq!(task.hashes.unwrap()["used"]["x"], hash_of(&json!(list)));
}

#[test]
fn long_numeric_slices_are_summed_up() {
    let mut numbers: Vec<f64> = (0..1000).map(f64::from).collect();
    let task = recorded!(&numbers, &[f64]);
    let summary = used(&task);
    assert_eq!(summary["summary"], "f64");
    assert_eq!((&summary["len"], &summary["min"]), (&json!(1000), &json!(0.0)));
    assert_eq!((&summary["max"], &summary["mean"]), (&json!(999.0), &json!(499.5)));
    assert_eq!(summary["first"], json!([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
    let hash = task.hashes.unwrap()["used"]["x"].clone();
    assert_eq!(recorded!(numbers.clone(), Vec<f64>).hashes.unwrap()["used"]["x"], hash);
    numbers[999] = f64::NAN;
    let task = recorded!(&numbers, &[f64]);
    assert_eq!((&used(&task)["max"], &used(&task)["nan"]), (&json!(998.0), &json!(1)));
    assert_ne!(task.hashes.unwrap()["used"]["x"], hash);

    let integers: Vec<i32> = (-500..500).collect();
    assert_eq!(used(&recorded!(&integers, &[i32]))["min"], -500);
    let all_nan = vec![f32::NAN; 100];
    let task = recorded!(&all_nan, &[f32]);
    assert_eq!((&used(&task)["nan"], &used(&task)["mean"]), (&json!(100), &Value::Null));
}

#[test]
fn secrets_are_hidden() {
    #[derive(Serialize, Debug)]
    struct Login {
        user: String,
        password: String,
        nested: BTreeMap<String, Option<String>>,
        tokens_per_sec: f64,
        private_key: Vec<u8>,
    }
    let login = || Login {
        user: "ann".into(),
        password: "hunter2".into(),
        nested: BTreeMap::from([
            ("apiKey".into(), Some("hunter2".into())),
            ("url".into(), Some("pg://ann:hunter2@db/x".into())),
        ]),
        tokens_per_sec: 3.0,
        private_key: b"hunter2".to_vec(),
    };
    #[telemetry_task]
    fn connect(api_token: &str, login: &Login, secret: Login, url: &str) -> Result<(), String> {
        _ = (api_token, login, secret);
        Err(format!("cannot reach {url} with password=hunter2"))
    }
    #[telemetry_task]
    fn by_debug(login: &dyn fmt::Debug) {
        _ = login;
    }
    let store = record(|| {
        _ = connect("hunter2", &login(), login(), "https://ann:hunter2@host/");
        by_debug(&login());
        task("block").used("DB_PASSWORD", "hunter2").run(|| ());
        _ = std::panic::catch_unwind(|| {
            task("panics").run(|| panic!("token: \"hunter2\" is wrong"))
        });
    });
    let everything = serde_json::to_string(&store.records()).unwrap();
    assert!(!everything.contains("hunter2"), "{everything}");
    let task = the(&store, "connect");
    let values = task.used.as_ref().unwrap();
    assert_eq!(values["api_token"], "[redacted]");
    assert_eq!(values["login"]["user"], "ann");
    assert_eq!(values["login"]["tokens_per_sec"], 3.0);
    assert_eq!(values["login"]["private_key"], "[redacted]");
    assert_eq!(values["login"]["nested"]["url"], "pg://ann:[redacted]@db/x");
    assert_eq!(values["secret"]["user"], "[redacted]", "everything under a secret name is one");
    let hashes = task.hashes.unwrap_or_default();
    assert!(
        hashes.get("used").is_none_or(|used| used.get("login").is_none()),
        "no hash of a secret"
    );
}

#[test]
fn a_key_that_refuses_does_not_open_the_secret_around_it() {
    struct KeyRefuses;
    impl Serialize for KeyRefuses {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([(Refuses, 1)])
        }
    }
    struct Keys;
    impl CaptureValue for Keys {
        fn capture(&self, to: &mut Encoder<'_>) {
            to.map(|fields| {
                fields.field_with("first", |to| to.serialize(&KeyRefuses));
                fields.field_with("second", |to| {
                    to.seq(|items| {
                        items.item(&One(&KeyRefuses));
                        items.item(&One("hunter2"));
                    });
                });
            });
        }
    }
    struct One<'a, T: ?Sized>(&'a T);
    impl<T: Serialize + ?Sized> CaptureValue for One<'_, T> {
        fn capture(&self, to: &mut Encoder<'_>) {
            to.serialize(self.0);
        }
    }
    #[telemetry_task]
    fn unlock(password: &Keys) {
        _ = password;
    }
    let store = record(|| unlock(&Keys));
    let everything = serde_json::to_string(&store.records()).unwrap();
    assert!(!everything.contains("hunter2"), "{everything}");
    assert!(everything.contains("[redacted]"), "{everything}");
}

struct Panics;

impl Serialize for Panics {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("a value that panics");
    }
}

struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a value that refuses"))
    }
}

#[test]
fn one_bad_value_costs_no_other() {
    #[telemetry_task(name = "t")]
    fn f(a: i32, x: Panics, y: Refuses, z: i32) -> i32 {
        _ = (x, y);
        a + z
    }
    let store = record(|| assert_eq!(f(1, Panics, Refuses, 2), 3));
    let task = the(&store, "t");
    let values = task.used.as_ref().unwrap();
    assert_eq!(
        (&values["a"], &values["x"], &values["y"], &values["z"]),
        (&json!(1), &Value::Null, &Value::Null, &json!(2))
    );
    let why = task.unavailable.unwrap();
    assert_eq!(why["used.x"], "its own Serialize or Debug panicked");
    assert_eq!(why["used.y"], "its own Serialize returned an error");
}

struct PanicsInDebug;

impl fmt::Debug for PanicsInDebug {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a value that panics");
    }
}

#[test]
fn a_panic_in_debug_or_in_what_a_task_gives_costs_that_value_only() {
    #[telemetry_task(name = "t")]
    fn f(a: i32, x: &dyn fmt::Debug, z: i32) -> Panics {
        _ = (x, a, z);
        Panics
    }
    let store = record(|| _ = f(1, &PanicsInDebug, 2));
    let task = the(&store, "t");
    assert_eq!(task.status, Some(Status::Finished), "the value panicked, not the task");
    assert_eq!(serde_json::to_value(&task.used).unwrap(), json!({"a": 1, "x": null, "z": 2}));
    let why = task.unavailable.unwrap();
    assert_eq!(why["used.x"], "its own Serialize or Debug panicked");
    assert_eq!(why["generated.value"], "its own Serialize or Debug panicked");
}

#[test]
fn a_value_may_call_annotated_functions_itself() {
    #[telemetry_task]
    fn inner() -> i32 {
        1
    }
    struct Busy;
    impl Serialize for Busy {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_i32(inner())
        }
    }
    #[telemetry_task(name = "t")]
    fn f(x: Busy, y: &str) {
        _ = (x, y);
    }
    let store = record(|| f(Busy, "after"));
    let task = the(&store, "t");
    assert_eq!(task.used.unwrap(), json!({"x": 1, "y": "after"}).as_object().unwrap().clone());
    the(&store, "inner");
}

#[test]
fn hostile_values_are_stored_as_data() {
    let keys = HashMap::from([
        ("$where", "1"),
        ("a.b", "2"),
        ("", "3"),
        ("nul\0", "4"),
        ("\u{2028}", "5"),
    ]);
    let task = stored(&keys);
    assert_eq!(
        used(&task),
        &json!({"$where": "1", "a.b": "2", "": "3", "nul\0": "4", "\u{2028}": "5"})
    );

    assert_eq!(*used(&stored(&u64::MAX)), json!(u64::MAX));
    assert_eq!(*used(&stored(&i64::MIN)), json!(i64::MIN));
    assert_eq!(*used(&stored(&(1_u64 << 63))), json!(1_u64 << 63));
    assert_eq!(*used(&stored(&i128::MIN)), json!(i128::MIN.to_string()));
    assert_eq!(*used(&stored(&u128::MAX)), json!(u128::MAX.to_string()));
    assert_eq!(*used(&stored(&5_i128)), json!(5));

    let task = stored(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0]);
    assert_eq!(*used(&task), json!([null, null, null, 1.0]));
    let why = task.unavailable.unwrap();
    assert_eq!(why["used.x.0"], "not a number");
    assert_eq!(
        (&why["used.x.1"], &why["used.x.2"]),
        (&json!("infinite"), &json!("minus infinity"))
    );

    let map = BTreeMap::from([((1, 'a'), "tuple"), ((2, 'b'), "keys")]);
    assert_eq!(*used(&stored(&map)), json!({"[1,\"a\"]": "tuple", "[2,\"b\"]": "keys"}));
    assert_eq!(*used(&stored(&BTreeMap::from([(5, true)]))), json!({"5": true}));
    assert_eq!(*used(&stored(&Ok::<i32, String>(1))), json!({"Ok": 1}));
}

#[test]
fn depth_has_an_end() {
    #[derive(Serialize)]
    struct Nested(Option<Box<Nested>>, u32);
    let mut value = Nested(None, 0);
    for n in 1..10_000 {
        value = Nested(Some(Box::new(value)), n);
    }
    let task = stored(&value);
    let mut level = used(&task);
    let mut depth = 0;
    while let Some(inner) = level.as_array().map(|pair| &pair[0]) {
        level = inner;
        depth += 1;
    }
    assert_eq!(depth, 8);
    assert!(task.unavailable.unwrap().values().any(|why| why == "nested deeper than the limit"));
    // A derived drop of 10,000 levels is the test's own affair.
    std::mem::forget(value);

    #[derive(Default)]
    struct Circle(RefCell<Option<Rc<Circle>>>);
    impl fmt::Debug for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Circle").field(&self.0.borrow()).finish()
        }
    }
    let circle = Rc::new(Circle::default());
    *circle.0.borrow_mut() = Some(Rc::clone(&circle));
    let task = recorded!(&circle, &Rc<Circle>);
    assert_eq!(used(&task)["truncated"], "string");
    circle.0.borrow_mut().take();
}

#[test]
fn equal_values_have_equal_hashes_whatever_their_type() {
    let ordered: BTreeMap<String, u32> = (0..20).map(|n| (format!("key {n}"), n)).collect();
    let unordered: HashMap<String, i64> =
        (0..20).map(|n| (format!("key {n}"), i64::from(n))).collect();
    let hash = |task: TaskObject| task.hashes.unwrap()["used"]["x"].as_str().unwrap().to_owned();
    let stored_hash = hash(stored(&ordered));
    assert_eq!(stored_hash, hash(stored(&unordered)));
    assert_eq!(
        stored_hash,
        hash_of(&serde_json::to_value(&ordered).unwrap()),
        "anyone can compute it"
    );
    assert_eq!(stored(&5).hashes, None, "small values are equal by chance");
}

#[test]
fn the_arguments_of_the_attribute_do_what_they_say() {
    struct Model {
        name: &'static str,
    }
    #[derive(Serialize)]
    struct Metrics {
        loss: f64,
        accuracy: f64,
    }
    impl Model {
        #[telemetry_task(
            name = "fit",
            skip(data),
            used(rows = data.len(), model = self.name),
            generated(loss = ret.loss),
            tags("ml", "test"),
            subtype = "learning",
            metadata(version = 2),
            telemetry = "none"
        )]
        fn train(&self, data: &[f64], epochs: u32) -> Result<Metrics, String> {
            _ = epochs;
            Ok(Metrics { loss: 0.25, accuracy: data.len() as f64 })
        }
    }
    #[telemetry_task(outputs("q", "r"))]
    fn divide(a: i32, b: i32) -> (i32, i32) {
        (a / b, a % b)
    }
    #[telemetry_task(spread)]
    fn spread() -> Metrics {
        Metrics { loss: 1.0, accuracy: 2.0 }
    }
    let store = record(|| {
        _ = Model { name: "small" }.train(&[1.0, 2.0], 3).map(|metrics| metrics.accuracy);
        divide(7, 2);
        spread();
    });
    let fit = the(&store, "fit");
    assert_eq!(Value::Object(fit.used.unwrap()), json!({"epochs": 3, "rows": 2, "model": "small"}));
    assert_eq!(Value::Object(fit.generated.unwrap()), json!({"loss": 0.25}));
    assert_eq!(fit.tags.unwrap(), ["ml", "test"]);
    assert_eq!(fit.subtype.unwrap(), "learning");
    assert_eq!(Value::Object(fit.custom_metadata.unwrap()), json!({"version": 2}));
    let code = fit.code.unwrap();
    assert_eq!(
        (code.krate.unwrap().as_str(), code.module.unwrap().as_str()),
        ("runlore-tests", "suite::values")
    );
    assert_eq!(Value::Object(the(&store, "divide").generated.unwrap()), json!({"q": 3, "r": 1}));
    assert_eq!(
        Value::Object(the(&store, "spread").generated.unwrap()),
        json!({"loss": 1.0, "accuracy": 2.0})
    );
}

#[test]
fn limits_of_any_size_and_chains_of_any_length_hold() {
    #[derive(Serialize)]
    struct Chain(Option<Box<Chain>>);
    let mut chain = Chain(None);
    for _ in 0..100_000 {
        chain = Chain(Some(Box::new(chain)));
    }
    let task = stored(&chain);
    assert_eq!(*used(&task), Value::Null);
    // A derived drop of so many levels is the test's own affair.
    std::mem::forget(chain);

    let store = runlore::store::MemoryStore::new();
    let run = runlore::workflow("odd").store(store.clone()).used("x", Panics).used("y", 1);
    run.start().unwrap().finish().unwrap();
    let used = store.workflows()[0].used.clone().unwrap();
    assert_eq!((&used["x"], &used["y"]), (&Value::Null, &json!(1)));
}

#[test]
fn short_floats_hash_as_they_are_stored() {
    let values = vec![0.1_f32, 2.5];
    let task = stored(&values);
    assert_eq!(*used(&task), json!([0.1, 2.5]));
    assert_eq!(task.hashes.as_ref().unwrap()["used"]["x"], hash_of(used(&task)));
}
