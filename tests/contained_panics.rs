//! Panics whose payload panics again when it is dropped: they end where the first one was caught.

use std::fmt;
use std::panic::panic_any;

use runlore::record::{CaptureValue, Encoder, Status};
use runlore::store::{Batch, MemoryStore, Store};
use runlore::{task, telemetry_task};
use serde::{Serialize, Serializer};

use crate::support::{record, the};

/// A payload that panics when it is dropped, with another of its kind.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic_any(Self);
    }
}

struct Hostile;

impl Serialize for Hostile {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic_any(Payload)
    }
}

fn hostile(_: i32) -> bool {
    panic_any(Payload)
}

struct HostileDebug;

impl fmt::Debug for HostileDebug {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic_any(Payload)
    }
}

struct HostileFacts;

impl CaptureValue for HostileFacts {
    fn capture(&self, _: &mut Encoder<'_>) {
        panic_any(Payload)
    }
}

/// Panics past the limits only, where it is hashed.
struct HostileWhenHashed;

impl Serialize for HostileWhenHashed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items = (0..5000).map(|number| if number < 4500 { number } else { panic_any(Payload) });
        serializer.collect_seq(items)
    }
}

#[derive(Debug)]
struct HostileError;

impl fmt::Display for HostileError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic_any(Payload)
    }
}

impl std::error::Error for HostileError {}

#[test]
fn values_cost_themselves_only() {
    #[telemetry_task(name = "t")]
    fn f(
        a: &Hostile,
        b: &HostileDebug,
        c: &HostileFacts,
        d: &HostileWhenHashed,
        e: i32,
    ) -> Hostile {
        _ = (a, b, c, d, e);
        Hostile
    }
    let store = record(|| _ = f(&Hostile, &HostileDebug, &HostileFacts, &HostileWhenHashed, 5));
    let task = the(&store, "t");
    assert_eq!(task.status, Some(Status::Finished));
    assert_eq!(task.used.unwrap()["e"], 5);
    let why = task.unavailable.unwrap();
    for value in ["used.a", "used.b", "used.c", "generated.value"] {
        assert_eq!(why[value], "its own Serialize or Debug panicked", "{value}");
    }
    assert_eq!(why["hashes.used.d"], "its own Serialize failed past the limits");
}

#[test]
fn errors_and_expressions_of_the_attribute_cost_themselves_only() {
    #[telemetry_task(name = "fails")]
    fn fails() -> Result<(), HostileError> {
        Err(HostileError)
    }
    #[telemetry_task(name = "judged", fail_if = hostile(*ret))]
    fn judged() -> i32 {
        1
    }
    let store = record(|| {
        assert!(fails().is_err());
        assert_eq!(judged(), 1);
        assert!(task("by hand").try_run(|| Err::<(), _>(HostileError)).is_err());
        task("with values").used("x", Hostile).run(|| ());
    });
    assert_eq!(the(&store, "fails").status, Some(Status::Error));
    assert_eq!(the(&store, "by hand").status, Some(Status::Error));
    assert_eq!(the(&store, "judged").status, Some(Status::Finished));
    let run = runlore::workflow("w").used("x", Hostile).store(MemoryStore::new()).start();
    run.unwrap().finish().unwrap();
}

/// A store that panics once in each method.
#[derive(Debug, Default)]
struct HostileStore(MemoryStore, bool);

impl Store for HostileStore {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        if !std::mem::replace(&mut self.1, true) {
            panic_any(Payload)
        }
        self.0.write(batch)
    }

    fn write_open(&mut self, _: &Batch<'_>) -> runlore::Result<()> {
        panic_any(Payload)
    }

    fn close(&mut self) -> runlore::Result<()> {
        panic_any(Payload)
    }
}

#[test]
fn a_store_gets_its_records_again() {
    let store = MemoryStore::new();
    let hostile = HostileStore(store.clone(), false);
    let run = runlore::workflow("test").store(runlore::store::StoreChoice::custom(hostile)).start();
    let run = run.unwrap();
    (0..3).for_each(|_| task("t").run(|| ()));
    let told = run.finish().unwrap_err().to_string();
    assert!(told.contains("the store panicked"), "{told}");
    assert_eq!(store.tasks().len(), 3);
}

#[cfg(feature = "events")]
mod with_events {
    use runlore::emit::{Backend, Emitted, Telemetry};
    use std::time::Duration;

    use runlore::tracker::{About, Alerts, Collector, Reading, Supported, Tracker};

    use super::*;

    struct HostileBackend;

    impl Backend for HostileBackend {
        fn write(&mut self, _: &Emitted) -> runlore::Result<()> {
            panic_any(Payload)
        }
    }

    #[test]
    fn a_backend_and_tracked_work_cost_themselves_only() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.jsonl");
        let telemetry = Telemetry::new().path(path).and(HostileBackend);
        let error = telemetry.emit().metric("number", 1).send().unwrap_err();
        assert_eq!(error.to_string(), "a backend panicked");
        assert!(telemetry.track().try_run(|| Err::<(), _>(HostileError)).is_err());
    }

    /// A device that is nearly full, and panics after its first sample.
    #[derive(Default)]
    struct HostileDevice(bool);

    impl Collector for HostileDevice {
        fn about(&self) -> About {
            let supported = Supported { used: true, total: true, ..Supported::default() };
            About::new(0, "cuda", "hostile", supported)
        }

        fn collect(&mut self) -> Result<Reading, String> {
            if std::mem::replace(&mut self.0, true) {
                panic_any(Payload)
            }
            Ok(Reading { used: Some(97), total: Some(100), ..Reading::default() })
        }
    }

    #[test]
    fn collectors_callbacks_and_cleanups_cost_themselves_only() {
        let tracker = Tracker::builder()
            .interval(Duration::from_secs(3600))
            .collector(HostileDevice::default())
            .alerts(Alerts::default().memory(80.0, 95.0))
            .on_alert(|_| panic_any(Payload))
            .cleanup(|| panic_any(Payload))
            .start()
            .unwrap();
        tracker.sample_now();
        tracker.sample_now();
        tracker.sample_now();
        let statistics = tracker.statistics();
        assert_eq!(statistics.collector_last_error.as_deref(), Some("the collector panicked"));
        assert!(tracker.stop().problem.is_none());
    }
}
