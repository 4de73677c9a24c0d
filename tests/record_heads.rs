//! The head of a record says what its text says, so that a store need not parse the text.

use std::sync::{Arc, Mutex};

use runlore::store::{Batch, RecordHead, RecordKind, Store, StoreChoice};
use runlore::{task, telemetry_task};

type Heads = Arc<Mutex<Vec<RecordHead<'static>>>>;

/// Compares each head with the one that its text has.
#[derive(Debug)]
struct Comparing(Heads);

impl Comparing {
    fn compare(&self, batch: &Batch<'_>) {
        assert_eq!(batch.heads().count(), batch.len());
        for (head, text) in batch.heads().zip(batch.records()) {
            let mut read = RecordHead::read(text).unwrap().into_owned();
            // The order of the hashes has no meaning.
            read.hashes.sort_by(|one, other| (one.side, &one.name).cmp(&(other.side, &other.name)));
            let mut head = head.clone();
            head.hashes.sort_by(|one, other| (one.side, &one.name).cmp(&(other.side, &other.name)));
            assert_eq!(head, read, "{text}");
            self.0.lock().unwrap().push(head);
        }
    }
}

impl Store for Comparing {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        self.compare(batch);
        Ok(())
    }

    fn write_open(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        self.compare(batch);
        Ok(())
    }
}

#[telemetry_task(output = "mean")]
fn mean(values: &[f64], name: &str) -> Result<f64, String> {
    if values.is_empty() {
        return Err(format!("no values in {name}"));
    }
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

#[telemetry_task]
fn outer(name: String) -> usize {
    _ = mean(&[1.0, 2.5], &name);
    _ = mean(&[], "nothing");
    task("by \"hand\" \u{1} é").run(|| name.len())
}

#[test]
fn heads_say_what_the_texts_say() {
    let heads = Heads::default();
    let store = StoreChoice::custom(Comparing(Arc::clone(&heads)));
    let run = runlore::workflow("heads").without_catalogue().store(store).start().unwrap();
    outer("a \"quoted\" text".to_owned());
    outer(String::new());
    let totals = run.finish().unwrap();
    assert_eq!(totals.dropped, 0);

    let heads = heads.lock().unwrap();
    let tasks: Vec<_> = heads.iter().filter(|head| head.kind == RecordKind::Task).collect();
    assert_eq!(tasks.len(), 8);
    assert!(heads.iter().all(|head| head.is_exact));
    assert!(tasks.iter().all(|head| head.duration_ns.is_some() && head.started_at.is_some()));
    assert!(tasks.iter().filter(|head| head.parent_task_id.is_some()).count() == 6);
    assert!(tasks.iter().any(|head| !head.hashes.is_empty() && head.capture_ns > 0));
    assert!(heads.iter().any(|head| head.kind == RecordKind::Workflow));
}
