//! Values that are slow, deaf, locked or not UTF-8.

use std::fmt;
use std::sync::{Mutex, RwLock};
use std::thread::sleep;
use std::time::Duration;

use runlore::record::TaskObject;
use runlore::{TryLock, task, telemetry_task};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::support::{record, the};

fn why(task: &TaskObject) -> Value {
    serde_json::to_value(&task.unavailable).unwrap()
}

/// Writes on and on, whatever it is told.
struct Deaf;

impl fmt::Debug for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..20_000).for_each(|_| _ = f.write_str("0123456789abcdef"));
        Ok(())
    }
}

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for Deaf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::error::Error for Deaf {}

#[test]
fn a_text_that_ignores_errors_is_cut() {
    #[telemetry_task(name = "t")]
    fn f(x: &dyn fmt::Debug) -> Result<(), Deaf> {
        _ = x;
        Err(Deaf)
    }
    let store = record(|| {
        f(&Deaf).unwrap_err();
        task("by serialize").used("x", [Deaf]).run(|| ());
    });
    let task = the(&store, "t");
    let shown = &task.used.as_ref().unwrap()["x"];
    assert_eq!(shown["truncated"], "string");
    assert!(shown["first"].as_str().unwrap().starts_with("0123456789abcdef"));
    assert!(task.stderr.unwrap().len() < 5000);
    let task = the(&store, "by serialize");
    assert_eq!(task.used.unwrap()["x"]["first"][0]["truncated"], "string");
}

#[derive(Serialize)]
struct Cache {
    name: &'static str,
    #[serde(serialize_with = "runlore::try_lock")]
    entries: Mutex<Vec<u32>>,
}

#[test]
fn a_field_that_the_caller_has_locked_is_not_waited_for() {
    #[telemetry_task(name = "held")]
    fn held(cache: &Cache) {
        _ = cache;
    }
    #[telemetry_task(name = "free")]
    fn free(cache: &Cache) {
        _ = cache;
    }
    let cache = Cache { name: "rates of all the years", entries: Mutex::new(vec![1, 2]) };
    let store = record(|| {
        let guard = cache.entries.lock().unwrap();
        held(&cache);
        drop(guard);
        free(&cache);
    });
    let task = the(&store, "held");
    let shown = json!({"name": "rates of all the years", "entries": null});
    assert_eq!(task.used.as_ref().unwrap()["cache"], shown);
    assert_eq!(why(&task)["used.cache.entries"], "it was locked");
    assert_eq!(task.hashes, None, "all that are locked would share it");
    let task = the(&store, "free");
    assert_eq!(task.used.unwrap()["cache"]["entries"], json!([1, 2]));
    assert!(task.hashes.is_some());
}

#[test]
fn the_wrapper_shows_what_is_inside_or_that_it_is_locked() {
    let lock = RwLock::new(vec![1]);
    assert_eq!(serde_json::to_value(TryLock(&lock)).unwrap(), json!([1]));
    assert_eq!(format!("{:?}", TryLock(&lock)), "[1]");
    let _guard = lock.write().unwrap();
    assert_eq!(serde_json::to_value(TryLock(&lock)).unwrap(), "<locked>");
    assert_eq!(format!("{:?}", TryLock(&lock)), "<locked>");
}

/// Never ends, and takes long once it is past the limits.
struct Endless;

impl Serialize for Endless {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0_u64..).inspect(|number| {
            if *number > 5000 && number.is_multiple_of(500) {
                sleep(Duration::from_millis(100));
            }
        }))
    }
}

#[test]
fn the_values_of_a_call_share_their_time() {
    #[telemetry_task(name = "t")]
    fn f(first: &Endless, text: &str, floats: &[f64], short: &str) {
        _ = (first, text, floats, short);
    }
    let (text, floats) = ("x".repeat(300_000), vec![1.0; 100_000]);
    let store = record(|| f(&Endless, &text, &floats, &text[..5000]));
    let task = the(&store, "t");
    let why = why(&task);
    let slow = "hashing all of the value took too long";
    for name in ["first", "text", "floats"] {
        assert_eq!(why[&format!("hashes.used.{name}")], slow, "{name}: {why}");
    }
    assert_eq!(why["used.floats.mean"], "reading all of the value took too long");
    let hashes = serde_json::to_value(&task.hashes).unwrap();
    assert!(hashes["used"]["short"].is_string(), "what is short takes no time: {hashes}");
}

#[cfg(unix)]
mod not_utf8 {
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use super::*;

    const LOSSY: &str = "not UTF-8: shown lossily";

    fn name() -> &'static OsStr {
        OsStr::from_bytes(b"/data/caf\xe9")
    }

    #[test]
    fn paths_and_other_texts_of_the_system_are_shown_lossily() {
        #[telemetry_task(name = "t")]
        fn f(a: &Path, b: PathBuf, c: &OsStr, d: OsString, e: Option<PathBuf>) -> Vec<PathBuf> {
            _ = (a, c, d, e);
            vec!["plain".into(), b]
        }
        let path = || PathBuf::from(name());
        let store = record(|| _ = f(&path(), path(), name(), name().to_owned(), Some(path())));
        let task = the(&store, "t");
        let why = why(&task);
        for argument in ["a", "b", "c", "d", "e"] {
            assert_eq!(task.used.as_ref().unwrap()[argument], "/data/caf\u{fffd}", "{argument}");
            assert_eq!(why[&format!("used.{argument}")], LOSSY, "{why}");
        }
        assert_eq!(task.generated.unwrap()["value"], json!(["plain", "/data/caf\u{fffd}"]));
        assert_eq!(why["generated.value.1"], LOSSY);
        assert_eq!(task.hashes, None);
    }

    #[derive(Serialize)]
    struct Job<'a> {
        number: u32,
        input: PathBuf,
        borrowed: &'a Path,
        shared: Cow<'a, Path>,
        program: OsString,
        by_path: BTreeMap<PathBuf, PathBuf>,
        last: &'static str,
    }

    fn job(path: &Path) -> Job<'_> {
        Job {
            number: 7,
            input: path.to_owned(),
            borrowed: path,
            shared: path.into(),
            program: path.into(),
            by_path: BTreeMap::from([(path.to_owned(), path.to_owned())]),
            last: "what follows is there",
        }
    }

    #[test]
    fn a_path_inside_a_value_costs_nothing_around_it() {
        let store = record(|| task("t").used("job", job(Path::new(name()))).run(|| ()));
        let task = the(&store, "t");
        let shown = "/data/caf\u{fffd}";
        let wanted = json!({
            "number": 7, "input": shown, "borrowed": shown, "shared": shown, "program": shown,
            "by_path": {shown: shown}, "last": "what follows is there"
        });
        assert_eq!(task.used.as_ref().unwrap()["job"], wanted);
        let why = why(&task);
        for field in ["input", "borrowed", "shared", "program"] {
            assert_eq!(why[&format!("used.job.{field}")], LOSSY, "{why}");
        }
        assert_eq!(task.hashes, None, "others may show the same");
    }

    #[test]
    fn texts_of_the_system_that_are_utf8_are_texts() {
        #[telemetry_task(name = "t")]
        fn f(x: &OsStr) {
            _ = x;
        }
        let path = Path::new("a name of some length");
        let store = record(|| {
            f(path.as_os_str());
            task("nested").used("job", job(path)).run(|| ());
        });
        let task = the(&store, "t");
        assert_eq!(task.used.as_ref().unwrap()["x"], "a name of some length");
        assert!(task.hashes.is_some() && task.unavailable.is_none());
        let nested = the(&store, "nested");
        assert_eq!(nested.used.as_ref().unwrap()["job"]["program"], "a name of some length");
        assert!(nested.hashes.is_some());
    }
}
