//! A store of one's own, and its scheme.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use runlore::store::{Batch, Known, RunInfo, Sink, Store, StoreChoice, StoreEntry, default_uri};
use runlore::{ErrorKind, Result, task};

static RECORDS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

impl Store for Counting {
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        assert_eq!(batch.records().count(), batch.len());
        assert_eq!(batch.json_lines().last(), Some(&b'\n'));
        assert!(!batch.is_empty());
        RECORDS.fetch_add(batch.len(), Ordering::Relaxed);
        Ok(())
    }

    fn write_open(&mut self, _: &Batch<'_>) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn uri(&self) -> Option<String> {
        Some("counting://".to_owned())
    }

    fn known(&mut self, _: &RunInfo, tasks: &HashSet<String>) -> Result<Known> {
        let mut known = Known::default();
        known.ended.clone_from(tasks);
        Ok(known)
    }
}

fn open(_: &str, run: &RunInfo) -> Result<Box<dyn Store>> {
    assert_eq!(run.name, "counted");
    assert_eq!(run.pid, std::process::id());
    Ok(Box::new(Counting))
}

inventory::submit! {
    StoreEntry::new("counting", open).recovers(|uri, _| Ok(uri.to_owned()))
}

#[test]
fn it_gets_every_record() {
    let count = |store: StoreChoice| {
        let before = RECORDS.load(Ordering::Relaxed);
        let run = runlore::workflow("counted").store(store).start().unwrap();
        task("one").run(|| ());
        run.finish().unwrap();
        RECORDS.load(Ordering::Relaxed) - before
    };
    // The workflow's start, the task, the workflow's end.
    assert_eq!(count("counting://".into()), 3);
    assert_eq!(count(StoreChoice::custom(Counting)), 3);
}

#[test]
fn an_unknown_scheme_is_an_error_that_names_the_known_ones() {
    let error = runlore::workflow("nowhere").store("nowhere://x").start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    let text = error.to_string();
    assert!(text.contains("counting://") && text.contains("jsonl://"), "{text}");
}

#[test]
fn a_store_of_another_feature_is_told() {
    let error = runlore::workflow("nowhere").store("sqlite://x.db").start().unwrap_err();
    let expected = "this program is built without `sqlite://`: add the feature `sqlite` of the crate `runlore`";
    assert_eq!(error.to_string(), expected);
    assert!(error.to_string() == Sink::open("sqlite://x.db", "x").unwrap_err().to_string());
    // One that the settings ask for does not keep the program from running.
    let mut settings = runlore::settings::Settings::default();
    settings.databases.sqlite.enabled = true;
    assert_eq!(default_uri(&settings), "runlore");
}
