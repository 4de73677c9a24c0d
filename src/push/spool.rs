//! Stores batches on disk until an endpoint has accepted them.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::batch::Parcel;
use crate::pipeline::frame;
use crate::pipeline::frame::{Form, Frame, Next};
use runlore_core::store::{open_plain, open_private, private_folders, replace_private};

/// A folder of batches, oldest first by name. Each file contains one frame, whose checksum shows
/// whether it is complete.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    limit: u64,
    /// Locked as long as this is alive: two processes would send the same batches twice.
    _lock: File,
    waiting: Vec<Stored>,
}

#[derive(Debug)]
struct Stored {
    name: String,
    count: u64,
    bytes: u64,
}

impl Stored {
    fn is(&self, key: &str) -> bool {
        parse(&self.name).is_some_and(|(own, _)| own == key)
    }
}

impl Spool {
    /// Opens a folder, with the batches that an earlier process left there.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        private_folders(folder)?;
        let lock = open_private(&folder.join("spool.lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another process uses it"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut waiting = Vec::new();
        for entry in fs::read_dir(folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((_, count)) = parse(&name) else { continue };
            let bytes = entry.metadata().map_or(0, |facts| facts.len());
            waiting.push(Stored { name, count, bytes });
        }
        waiting.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { folder: folder.to_owned(), limit, _lock: lock, waiting })
    }

    /// Appends a batch. Drops the oldest ones to make room, and adds their events to `dropped` even
    /// if the new batch cannot be written afterwards.
    pub(super) fn put(&mut self, parcel: &Parcel, dropped: &mut u64) -> io::Result<()> {
        let frame = frame::of(&parcel.body, parcel.count as usize);
        let bytes = frame.len() as u64;
        let sum = |waiting: &[Stored]| waiting.iter().map(|one| one.bytes).sum::<u64>();
        while !self.waiting.is_empty() && sum(&self.waiting) + bytes > self.limit {
            *dropped += self.waiting[0].count;
            self.remove_at(0);
        }
        let name = format!("batch-{}-{}.spool", parcel.key, parcel.count);
        let part = self.folder.join("batch.part");
        replace_private(&part)?.write_all(&frame)?;
        fs::rename(&part, self.folder.join(&name))?;
        self.waiting.push(Stored { name, count: parcel.count, bytes });
        Ok(())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.waiting.iter().any(|one| one.is(key))
    }

    /// Removes a batch. Returns whether it was still there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let at = self.waiting.iter().position(|one| one.is(key));
        at.inspect(|at| self.remove_at(*at)).is_some()
    }

    /// Returns the oldest batch. Unreadable or damaged batches are removed and added to `dropped`.
    pub(super) fn first(&mut self, dropped: &mut u64) -> Option<Parcel> {
        while let Some(first) = self.waiting.first() {
            let key = parse(&first.name).map(|(key, _)| key.to_owned()).unwrap_or_default();
            let read = read(&self.folder.join(&first.name));
            if let Ok(Next::Frame(Frame { bytes: body, records })) = read
                && u64::from(records) == first.count
            {
                return Some(Parcel { key, count: first.count, body });
            }
            *dropped += first.count;
            self.remove_at(0);
        }
        None
    }

    fn remove_at(&mut self, at: usize) {
        let stored = self.waiting.remove(at);
        _ = fs::remove_file(self.folder.join(stored.name));
    }
}

fn read(path: &Path) -> io::Result<Next> {
    let mut file = open_plain(path, false)?;
    let mut left = file.metadata()?.len();
    frame::read(&mut file, &mut left, Form::Now)
}

/// Parses the key and the number of events from a batch's file name. Keys sort by time.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (key, count) = name.strip_prefix("batch-")?.strip_suffix(".spool")?.rsplit_once('-')?;
    Some((key, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(count: u64) -> Parcel {
        Parcel { key: runlore_core::record::Id::new().to_string(), count, body: vec![b'x'; 100] }
    }

    #[test]
    fn batches_come_back_in_order_and_no_more_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let parcels: Vec<Parcel> = (1..=4).map(parcel).collect();
        let mut spool = Spool::open(folder.path(), 400).unwrap();
        let mut dropped = 0;
        for (parcel, expected) in parcels.iter().zip([0, 0, 0, 1]) {
            spool.put(parcel, &mut dropped).unwrap();
            assert_eq!(dropped, expected, "the oldest has to go");
        }
        assert!(Spool::open(folder.path(), 400).is_err(), "it is in use");
        drop(spool);

        let mut spool = Spool::open(folder.path(), 400).unwrap();
        let mut dropped = 0;
        for expected in &parcels[1..] {
            assert_eq!(spool.first(&mut dropped).as_ref(), Some(expected));
            assert!(spool.has(&expected.key) && spool.remove(&expected.key));
            assert!(!spool.has(&expected.key) && !spool.remove(&expected.key));
        }
        assert!(spool.first(&mut dropped).is_none() && dropped == 0);
    }

    #[test]
    fn what_had_to_go_is_counted_also_where_the_next_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 200).unwrap();
        let mut dropped = 0;
        spool.put(&parcel(7), &mut dropped).unwrap();
        // A non-empty folder at this path makes the write fail.
        fs::create_dir_all(folder.path().join("batch.part/full")).unwrap();
        assert!(spool.put(&parcel(1), &mut dropped).is_err());
        assert_eq!((dropped, spool.waiting.len()), (7, 0));
    }

    #[test]
    fn a_batch_that_is_not_as_it_was_written_is_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let parcels: Vec<Parcel> = (1..=4).map(parcel).collect();
        let mut spool = Spool::open(folder.path(), u64::MAX).unwrap();
        for parcel in &parcels {
            spool.put(parcel, &mut 0).unwrap();
        }
        let path = |at: usize| folder.path().join(&spool.waiting[at].name);
        let mut spoilt = fs::read(path(0)).unwrap();
        *spoilt.last_mut().unwrap() ^= 1;
        fs::write(path(0), &spoilt).unwrap();
        let whole = fs::read(path(1)).unwrap();
        fs::write(path(1), &whole[..whole.len() - 1]).unwrap();
        fs::rename(path(2), folder.path().join(format!("batch-{}-9.spool", parcels[2].key)))
            .unwrap();
        drop(spool);

        let mut spool = Spool::open(folder.path(), u64::MAX).unwrap();
        let mut dropped = 0;
        assert_eq!(spool.first(&mut dropped).as_ref(), Some(&parcels[3]));
        assert_eq!(dropped, 1 + 2 + 9);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_neither_followed_nor_waited_for() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (spool, theirs) = (folder.path().join("spool"), folder.path().join("theirs"));
        fs::create_dir(&spool).unwrap();
        fs::write(&theirs, "theirs").unwrap();
        symlink(&theirs, spool.join("batch.part")).unwrap();
        let mut opened = Spool::open(&spool, u64::MAX).unwrap();
        opened.put(&parcel(1), &mut 0).unwrap();
        for name in ["spool.lock", &opened.waiting[0].name] {
            let mode = fs::metadata(spool.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        drop(opened);
        fs::remove_file(spool.join("spool.lock")).unwrap();
        symlink(&theirs, spool.join("spool.lock")).unwrap();
        assert!(Spool::open(&spool, u64::MAX).is_err(), "a lock that is a link");
        fs::remove_file(spool.join("spool.lock")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(spool.join("spool.lock")).status();
        assert!(pipe.unwrap().success());
        assert!(Spool::open(&spool, u64::MAX).is_err(), "a lock that is a pipe");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    }
}
