//! A store elsewhere that is slow but gets on: the end of a run waits for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use runlore::store::{Batch, MemoryStore, Store, StoreChoice};
use runlore::task;
use tempfile::TempDir;

/// Takes longer for a batch than the end of a run waits for one that fails.
#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    folder: PathBuf,
}

impl Store for Slow {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        std::thread::sleep(Duration::from_millis(1200));
        self.inner.write(batch)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

#[test]
fn the_end_of_a_run_waits_for_all_of_its_batches() {
    let folder = TempDir::new().unwrap();
    let store = MemoryStore::new();
    let slow = Slow { inner: store.clone(), folder: folder.path().to_owned() };
    let run = runlore::workflow("test").without_catalogue().store(StoreChoice::custom(slow));
    let run = run.start().unwrap();
    (0..1100).for_each(|_| task("t").run(|| ()));
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.spooled, totals.dropped), (1100, 0, 0));
    assert_eq!(store.tasks().len(), 1100);
    assert!(!folder.path().join(".spool").exists());
}
