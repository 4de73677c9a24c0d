//! Batches come out of a spool in order and complete, whatever was done to its files.

use super::left::Left;
use super::*;
use runlore_core::settings::Settings;
use runlore_core::store::MemoryStore;

fn spool(folder: &Path, limit: u64) -> Spool {
    let mut settings = Settings::default();
    settings.recorder.spool = Some(folder.to_owned());
    settings.recorder.spool_bytes = runlore_core::settings::Bytes::new(limit);
    let info = RunInfo::new("w".into(), "name".into(), 7, Box::leak(Box::new(settings)));
    Spool::new(&MemoryStore::new(), &info).unwrap()
}

fn batch(number: u64, records: u64) -> Lines {
    let line = |at: u64| format!("{{\"task_id\":\"{number}-{at}\"}}\n");
    let text: String = (0..records).map(line).collect();
    Lines { records: RecordLines::from_bytes(text.into_bytes()), ..Lines::default() }
}

/// Returns the text of the records.
fn text_of(lines: &Lines) -> Vec<u8> {
    lines.records.json_lines().to_vec()
}

fn all_left(folder: &Path) -> Vec<Left> {
    Left::all_in(folder, |_| true).unwrap().left
}

fn rest(mut left: Left) -> Vec<Vec<u8>> {
    let batches = std::iter::from_fn(|| left.next()).map(|frame| frame.bytes).collect();
    left.finish().unwrap();
    batches
}

/// A spool of three batches that its process has left, as one file.
struct Three {
    root: tempfile::TempDir,
    path: PathBuf,
    id: String,
    whole: Vec<u8>,
    /// Where the first batch begins, and the length of each.
    head: usize,
    frame: usize,
}

impl Three {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut spool = spool(&root.path().join("spool"), u64::MAX);
        (0..3).for_each(|number| spool.append(&batch(number, 1)).unwrap());
        let path = spool.files[0].path.clone();
        let whole = fs::read(&path).unwrap();
        let frame = frame::HEAD + text_of(&batch(0, 1)).len();
        let (id, head) = (spool.id.to_string(), whole.len() - 3 * frame);
        Self { root, path, id, whole, head, frame }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("spool")
    }

    fn damaged(&self) -> PathBuf {
        self.path.with_extension("damaged")
    }

    /// Replaces the file's content with these bytes, and returns what can be found.
    fn left_as(&self, bytes: &[u8]) -> left::Leftovers {
        _ = fs::remove_dir_all(self.folder());
        fs::create_dir(self.folder()).unwrap();
        fs::write(&self.path, bytes).unwrap();
        fs::write(left::lock_path(&self.folder(), &self.id), "").unwrap();
        Left::all_in(&self.folder(), |_| true).unwrap()
    }

    fn batches_as(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.left_as(bytes).left.into_iter().flat_map(rest).collect()
    }
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
        assert_eq!(text_of(&spool.first().unwrap().unwrap()), text_of(&batch(number, number + 1)));
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
    assert_eq!(text_of(&spool.first().unwrap().unwrap()), text_of(&batch(0, 1)));
}

#[test]
fn who_is_alive_keeps_its_spool_and_what_is_left_can_be_had_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = spool(folder.path(), u64::MAX);
    (0..3).for_each(|number| spool.append(&batch(number, 1)).unwrap());
    assert_eq!(all_left(folder.path()).len(), 0);
    drop(spool);
    let mut left = all_left(folder.path());
    assert_eq!(all_left(folder.path()).len(), 0, "another replays it");
    let left = left.remove(0);
    assert_eq!((left.head.workflow_id.as_str(), left.head.pid), ("w", 7));
    assert_eq!(rest(left), (0..3).map(|number| text_of(&batch(number, 1))).collect::<Vec<_>>());
}

#[test]
fn of_a_file_that_its_process_died_over_the_whole_batches_come_out() {
    let three = Three::new();
    for cut in 0..=three.whole.len() {
        let batches = three.batches_as(&three.whole[..cut]);
        assert_eq!(batches.len(), cut.saturating_sub(three.head) / three.frame, "cut at {cut}");
        assert!(!three.folder().exists(), "cut at {cut}: it is nothing to tell");
    }
}

#[test]
fn whichever_bit_is_flipped_the_other_batches_come_out_and_the_file_is_kept() {
    let three = Three::new();
    for bit in 0..three.whole.len() * 8 {
        let mut spoilt = three.whole.clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        let found = three.left_as(&spoilt);
        if !found.unreadable.is_empty() {
            assert!(bit / 8 < frame::MAGIC.len() && three.path.exists(), "bit {bit}");
            continue;
        }
        let is_head_lost = found.left[0].is_head_lost;
        let batches: Vec<_> = found.left.into_iter().flat_map(rest).collect();
        let mut expected: Vec<_> = (0..3).map(|number| text_of(&batch(number, 1))).collect();
        match (bit / 8).checked_sub(three.head) {
            Some(behind) => _ = expected.remove(behind / three.frame),
            None => assert_eq!(is_head_lost, bit / 8 >= frame::MAGIC.len(), "bit {bit}"),
        }
        assert_eq!(batches, expected, "bit {bit}");
        // The first bytes contain nothing but the version.
        let is_kept = bit / 8 >= frame::MAGIC.len();
        assert_eq!(three.damaged().exists(), is_kept, "bit {bit}: what was not understood is kept");
    }
}

#[test]
fn a_spool_that_lost_its_head_is_told_and_is_nobodys() {
    let three = Three::new();
    let mut spoilt = three.whole.clone();
    spoilt[frame::MAGIC.len() + frame::HEAD] ^= 1;
    drop(three.left_as(&spoilt));
    let told = spooled(three.folder()).unwrap();
    assert!(told[0].problem.as_ref().unwrap().contains("--from ''"), "{told:?}");
    assert_eq!((told[0].bytes, &told[0].store), (three.whole.len() as u64, &None));
    let to = three.root.path().join("records");
    let to = to.to_str().unwrap();
    assert_eq!(replay(three.folder(), to, |_| ()).unwrap().records, 0);
    assert_eq!(replay_from(three.folder(), "", to, |_| ()).unwrap().records, 3);
    assert!(three.damaged().exists());
}

#[test]
fn a_file_of_a_newer_version_and_a_spool_without_a_lock_are_told_and_left() {
    let three = Three::new();
    let mut newer = three.whole.clone();
    newer[7] = b'9';
    drop(three.left_as(&newer));
    let why = |three: &Three| spooled(three.folder()).unwrap()[0].problem.clone().unwrap();
    assert!(why(&three).contains("another version"), "{}", why(&three));
    drop(three.left_as(&three.whole));
    fs::remove_file(left::lock_path(&three.folder(), &three.id)).unwrap();
    assert!(why(&three).contains("has lost its lock"), "{}", why(&three));
    assert!(three.path.exists());
}

#[test]
fn a_file_of_before_is_read_and_kept_where_it_may_be_damaged() {
    let three = Three::new();
    let frames = [&three.whole[8..three.head], &three.whole[three.head..][..three.frame]];
    let of_before = |frame: &[u8]| [&frame[..frame::HEAD - 8], &frame[frame::HEAD..]].concat();
    let mut before = frame::MAGIC_BEFORE.to_vec();
    before.extend(frames.into_iter().flat_map(of_before));
    assert_eq!(three.batches_as(&before), [text_of(&batch(0, 1))]);
    assert!(!three.folder().exists());
    before.extend([0, 0, 1, 0].iter().chain(&[7; 30]));
    assert_eq!(three.batches_as(&before), [text_of(&batch(0, 1))]);
    assert!(three.damaged().exists());
}

#[test]
fn what_is_damaged_while_its_process_lives_costs_that_batch_only() {
    for at in [0, 4, 8, 24, frame::HEAD] {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(folder.path(), u64::MAX);
        (0..3).for_each(|number| spool.append(&batch(number, 2)).unwrap());
        let path = spool.files[0].path.clone();
        let mut bytes = fs::read(&path).unwrap();
        let second = bytes.len() - 2 * (frame::HEAD + text_of(&batch(0, 2)).len());
        bytes[second + at] ^= 0x80;
        fs::write(&path, bytes).unwrap();
        let mut out = Vec::new();
        while !spool.is_empty() {
            match spool.first() {
                Ok(lines) => out.push(text_of(&lines.unwrap())),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData),
            }
            let before = spool.records();
            spool.forget_first();
            assert_eq!(before - spool.records(), 2);
        }
        assert_eq!(out, [text_of(&batch(0, 2)), text_of(&batch(2, 2))], "{at}");
        assert!(path.with_extension("damaged").exists(), "{at}");
    }
}
