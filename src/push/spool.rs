//! Batches that wait on disk for an endpoint that is away.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::batch::Parcel;
use crate::store::open_plain;

/// A folder of batches, oldest first by name.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    limit: u64,
    /// Held as long as this lives: what two processes sent would be sent twice.
    _lock: File,
    waiting: Vec<Stored>,
}

#[derive(Debug)]
struct Stored {
    name: String,
    count: u64,
    bytes: u64,
}

impl Spool {
    /// Takes over a folder, with what an earlier process left there.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("spool.lock"))?;
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

    /// Puts a batch behind the others. How many events had to go for it, or that it could not be written.
    pub(super) fn put(&mut self, parcel: &Parcel) -> io::Result<u64> {
        let bytes = parcel.body.len() as u64;
        let mut dropped = 0;
        let sum = |waiting: &[Stored]| waiting.iter().map(|one| one.bytes).sum::<u64>();
        while !self.waiting.is_empty() && sum(&self.waiting) + bytes > self.limit {
            dropped += self.waiting[0].count;
            self.remove_first();
        }
        let name = format!("batch-{}-{}.json", parcel.key, parcel.count);
        let part = self.folder.join("batch.part");
        fs::write(&part, &parcel.body)?;
        fs::rename(&part, self.folder.join(&name))?;
        self.waiting.push(Stored { name, count: parcel.count, bytes });
        Ok(dropped)
    }

    /// The oldest batch; one that cannot be read is left out, and counted as dropped.
    pub(super) fn first(&mut self, dropped: &mut u64) -> Option<Parcel> {
        while let Some(first) = self.waiting.first() {
            let key = parse(&first.name).map(|(key, _)| key.to_owned()).unwrap_or_default();
            let mut body = Vec::new();
            let read = open_plain(&self.folder.join(&first.name), false)
                .and_then(|mut file| file.read_to_end(&mut body));
            if read.is_ok() {
                return Some(Parcel { key, count: first.count, body });
            }
            *dropped += first.count;
            self.remove_first();
        }
        None
    }

    pub(super) fn remove_first(&mut self) {
        if !self.waiting.is_empty() {
            let first = self.waiting.remove(0);
            _ = fs::remove_file(self.folder.join(first.name));
        }
    }
}

/// The key and the number of events that a batch's name tells. Keys sort by time.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (key, count) = name.strip_prefix("batch-")?.strip_suffix(".json")?.rsplit_once('-')?;
    Some((key, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(count: u64) -> Parcel {
        Parcel { key: crate::Id::new().to_string(), count, body: vec![b'x'; 100] }
    }

    #[test]
    fn batches_come_back_in_order_and_no_more_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let parcels: Vec<Parcel> = (1..=4).map(parcel).collect();
        let mut spool = Spool::open(folder.path(), 300).unwrap();
        let dropped: Vec<u64> = parcels.iter().map(|parcel| spool.put(parcel).unwrap()).collect();
        assert_eq!(dropped, [0, 0, 0, 1], "the oldest has to go");
        assert!(Spool::open(folder.path(), 300).is_err(), "it is in use");
        drop(spool);

        let mut spool = Spool::open(folder.path(), 300).unwrap();
        let mut dropped = 0;
        for expected in &parcels[1..] {
            assert_eq!(spool.first(&mut dropped).as_ref(), Some(expected));
            spool.remove_first();
        }
        assert!(spool.first(&mut dropped).is_none() && dropped == 0);
    }
}
