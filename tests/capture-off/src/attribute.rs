//! Annotated functions are as if they were not annotated.

use runlore::store::MemoryStore;

use crate::annotated::{Counter, Greet, *};
use crate::block_on;

fn call_all() {
    assert_eq!(add(1, 2), 3);
    assert_eq!(train(&[1.0, 2.0], 3).ok().map(|model| model.loss), Some(1.0));
    assert_eq!(train(&[], 3).err().as_deref(), Some("no data"));
    assert_eq!(divide(7, 2), (3, 1));
    assert_eq!(letters("aab")[&'a'], 2);
    assert_eq!(find(&[1, 2], 2), Some(1));
    assert_eq!(find(&[1, 2], 3), None);
    measured();
    assert_eq!(first(&[5, 6], &7, "more"), &5);
    assert_eq!(between((2, 5)).sum::<u32>(), 9);
    #[allow(unsafe_code)]
    // SAFETY: a reference points to a readable number.
    let seven = unsafe { read(&7) };
    assert_eq!(seven, 7);
    assert_eq!(called_from_c(1), 2);
    assert!(std::panic::catch_unwind(panics).is_err());

    let mut counter = Counter::starting_at(1);
    counter.increase(2);
    assert_eq!(counter.get(), 3);
    assert_eq!(counter.into_inner(), 3);
    assert_eq!("you".greet(), "hello you");

    assert_eq!(block_on(length("four")), Ok(4));
    assert!(block_on(length("")).is_err());
    drop(length("never polled"));
    assert_eq!(block_on(ends_in_a_block(1)), 2);
    assert_eq!(block_on(boxed(1)), 3);
    assert_eq!(block_on(made_elsewhere(1)), 3);
}

#[test]
fn they_return_what_they_should_without_a_workflow() {
    call_all();
}

#[test]
fn they_leave_no_record_in_a_workflow() {
    let store = MemoryStore::new();
    let run = runlore::workflow("off").store(store.clone()).start().unwrap();
    call_all();
    let totals = run.finish().unwrap();
    assert_eq!(totals.tasks, 0, "is the feature on? build this crate alone: -p capture-off");
    assert!(store.tasks().is_empty());
}

#[test]
fn they_are_not_in_the_catalogue() {
    assert_eq!(runlore::catalogue(), []);
    let store = MemoryStore::new();
    runlore::workflow("off").store(store.clone()).run(|| ()).unwrap();
    let last = store.workflows().pop().unwrap();
    assert_eq!(last.catalogue.unwrap_or_default(), serde_json::json!([]));
}
