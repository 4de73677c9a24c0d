//! What goes into a spool comes out of it, in order and whole, whatever was done to its files.

use super::*;
use crate::settings::Settings;
use crate::store::MemoryStore;

fn spool(folder: &Path, limit: u64) -> Spool {
    let mut settings = Settings::default();
    settings.recorder.spool = Some(folder.to_owned());
    settings.recorder.spool_bytes = crate::settings::Bytes::new(limit);
    let info = RunInfo::new("w".into(), "name".into(), 7, Box::leak(Box::new(settings)));
    Spool::new(&MemoryStore::new(), &info).unwrap()
}

fn batch(number: u64, records: u64) -> Lines {
    let line = |at: u64| format!("{{\"task_id\":\"{number}-{at}\"}}\n");
    Lines::from_bytes((0..records).map(line).collect::<String>().into_bytes())
}

fn rest(mut left: Left) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| left.next().unwrap()).map(|frame| frame.bytes).collect()
}

#[test]
fn batches_come_out_in_order_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = spool(&folder.path().join("spool"), u64::MAX);
    for number in 0..5 {
        spool.append(&batch(number, number + 1)).unwrap();
    }
    assert_eq!(spool.records(), 15);
    for number in 0..5 {
        assert_eq!(spool.first().unwrap().unwrap().bytes, batch(number, number + 1).bytes);
        spool.forget_first();
    }
    assert!(spool.is_empty() && spool.first().unwrap().is_none());
    assert_eq!((spool.records(), spool.bytes), (0, 0));
    assert!(!folder.path().join("spool").exists());
}

#[test]
fn a_full_spool_refuses_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = spool(folder.path(), 1000);
    let taken = (0..100).take_while(|number| spool.append(&batch(*number, 1)).is_ok()).count();
    assert!((10..40).contains(&taken), "{taken}");
    assert!(matches!(spool.append(&batch(0, 1)), Err(Refused::Full)));
    assert_eq!(spool.first().unwrap().unwrap().bytes, batch(0, 1).bytes);
}

#[test]
fn who_is_alive_keeps_its_spool_and_what_is_left_can_be_had_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = spool(folder.path(), u64::MAX);
    (0..3).for_each(|number| spool.append(&batch(number, 1)).unwrap());
    assert_eq!(Left::all_in(folder.path()).unwrap().len(), 0);
    drop(spool);
    let mut left = Left::all_in(folder.path()).unwrap();
    assert_eq!(Left::all_in(folder.path()).unwrap().len(), 0, "another replays it");
    let left = left.remove(0);
    assert_eq!((left.head.workflow_id.as_str(), left.head.pid), ("w", 7));
    assert_eq!(rest(left), (0..3).map(|number| batch(number, 1).bytes).collect::<Vec<_>>());
}

#[test]
fn of_a_torn_or_spoilt_file_the_whole_batches_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = spool(folder.path(), u64::MAX);
    (0..3).for_each(|number| spool.append(&batch(number, 1)).unwrap());
    let path = spool.files[0].path.clone();
    let (id, whole) = (spool.id.to_string(), fs::read(&path).unwrap());
    drop(spool);
    let frame = frame::HEAD + batch(0, 1).bytes.len();
    let head = whole.len() - 3 * frame;
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        fs::write(left::lock_path(folder.path(), &id), "").unwrap();
        let found = Left::all_in(folder.path()).unwrap();
        let batches: Vec<_> = found.into_iter().flat_map(rest).collect();
        assert_eq!(batches.len(), cut.saturating_sub(head) / frame, "cut at {cut}");
    }
    let mut spoilt = whole.clone();
    spoilt[head + frame + frame::HEAD] ^= 1;
    fs::write(&path, &spoilt).unwrap();
    let batches: Vec<_> = Left::all_in(folder.path()).unwrap().into_iter().flat_map(rest).collect();
    assert_eq!(batches, [batch(0, 1).bytes, batch(2, 1).bytes]);
    assert!(path.with_extension("damaged").exists(), "what was not understood is kept");
}
