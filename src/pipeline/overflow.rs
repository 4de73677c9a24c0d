//! A session's overflow: a file for the events that do not fit into a thread's ring.
//!
//! A thread whose ring is full, or that cannot get one, appends its events here and continues at
//! once. It returns to its ring when the writer has read them, so that the events of one thread
//! stay in order. The file is not mapped: it needs no address space, and a write to it survives the
//! process as a write to a ring does. The file also contains the number of dropped tasks per run,
//! so that recovery can report it.
//!
//! The file begins with a header of one block, which is written when the session is created.
//! Updating the position and the counts in it therefore works even on a full disk. Frames follow,
//! see [`Frame`].

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::event::{Kind, u32_at, u64_at};
use super::session::Home;
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::file_size;
use runlore_core::fork::PerProcess;
use runlore_core::record::Id;
use runlore_core::store::{OwnFile, create_private};

/// The offset of the first frame.
const DATA: u64 = 4096;
/// Identifies the file as an overflow, and its format.
const MAGIC: u64 = u64::from_le_bytes(*b"RUNLOREO");
/// The offset of the header field with the position in the file of the first frame that is still
/// needed.
const START: u64 = 8;
/// The offset of the table of dropped tasks in the header: a run's number and a count, 8 bytes
/// each.
const COUNTS: u64 = 16;
const MOST_COUNTS: usize = (DATA - COUNTS) as usize / 16;

/// The minimum amount of disk space to free at once.
const GIVE_BACK: u64 = 1 << 20;

/// The total size of this process's overflows in bytes.
static HELD: PerProcess<AtomicU64> = PerProcess::new();

/// The file for events that found no room in a ring.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) home: Home,
    /// The number of bytes that were appended, that the writer has read, and that are no longer
    /// needed. All only grow.
    written: AtomicU64,
    read: AtomicU64,
    released: AtomicU64,
    /// Whether its session is gone.
    abandoned: AtomicBool,
    file: Mutex<OverflowFile>,
}

#[derive(Debug)]
struct OverflowFile {
    /// `None` for runs without a folder, until the first event is appended.
    file: Option<OwnFile>,
    /// The stream position of the byte at [`DATA`] in the file.
    base: u64,
    /// The stream position up to which the disk space was freed.
    given_back: u64,
    /// The runs in the header's table, in order. The number of a free entry is 0.
    counts: Vec<(Number, u64)>,
}

/// The error of an event that could not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl Overflow {
    /// Creates the overflow of a session, in its folder.
    pub(super) fn create(home: Home, path: &Path) -> io::Result<Self> {
        let file = prepared(create_private(path)?)?;
        Ok(Self::new(home, Some(OwnFile::new(file, path)?)))
    }

    /// Creates the overflow of runs without a session: an unnamed temporary file, created on first
    /// use.
    pub(super) fn without_folder(home: Home) -> Self {
        Self::new(home, None)
    }

    fn new(home: Home, file: Option<OwnFile>) -> Self {
        let file = OverflowFile { file, base: 0, given_back: 0, counts: Vec::new() };
        Self {
            home,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            released: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            file: Mutex::new(file),
        }
    }

    fn file(&self) -> MutexGuard<'_, OverflowFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event of a thread. Returns the position after it.
    pub(super) fn append(&self, frame: Frame<'_>) -> Result<u64, Refused> {
        let bytes = frame.to_bytes();
        let length = bytes.len() as u64;
        let most = settings().recorder.overflow_bytes.get();
        let more = |held: u64| Some(held + length).filter(|held| *held <= most);
        if HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(Refused);
        }
        let mut file = self.file();
        let written = self.written.load(Ordering::Relaxed);
        let appended = file_size::without_signal(|| file.append(written, &bytes));
        if appended.is_err() {
            HELD.fetch_sub(length, Ordering::Relaxed);
            return Err(Refused);
        }
        // Only now does the writer see the event, and everything that its thread did before.
        self.written.store(written + length, Ordering::Release);
        Ok(written + length)
    }

    /// For the writer: returns how many bytes were appended so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns how many bytes the writer has read.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// Returns how many bytes are not released yet.
    pub(super) fn waiting(&self) -> u64 {
        self.written() - self.released.load(Ordering::Relaxed)
    }

    /// For the writer: passes the events between two positions to `each`, with their positions.
    /// Stops soon after `some` bytes. Returns the position after the last event.
    pub(super) fn read_some(
        &self,
        from: u64,
        until: u64,
        some: u64,
        mut each: impl FnMut(u64, &Frame<'_>),
    ) -> io::Result<u64> {
        let enough = from.saturating_add(some).min(until);
        let mut bytes = Vec::new();
        let mut at = from;
        while at < enough {
            let available = until - at;
            let part = (enough - at).max(Frame::HEAD as u64).min(available);
            let mut frames = self.read_at(at, part, &mut bytes)?;
            let first = Frame::length(frames).unwrap_or_default();
            if first > part && first <= available {
                frames = self.read_at(at, first, &mut bytes)?;
            }
            let before = at;
            while let Some((frame, rest)) = Frame::read(frames) {
                each(at, &frame);
                at += (frames.len() - rest.len()) as u64;
                frames = rest;
            }
            if at == before {
                return Err(io::Error::other("it is damaged"));
            }
        }
        self.read.store(at, Ordering::Release);
        Ok(at)
    }

    fn read_at<'b>(&self, at: u64, length: u64, bytes: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        bytes.resize(length as usize, 0);
        let mut file = self.file();
        let at = at.checked_sub(file.base).ok_or(io::ErrorKind::NotFound)?;
        positioned::read(file.open()?, DATA + at, bytes)?;
        Ok(bytes)
    }

    /// For the writer: skips the events up to a position, because they cannot be read.
    pub(super) fn skip_to(&self, until: u64) {
        self.read.store(until, Ordering::Release);
    }

    /// For the writer: releases the events before this position, because they are stored or kept
    /// elsewhere.
    pub(super) fn release(&self, done: u64) {
        if done <= self.released.load(Ordering::Relaxed) {
            return;
        }
        self.released.store(done, Ordering::Relaxed);
        let mut file = self.file();
        let written = self.written.load(Ordering::Relaxed);
        if done == written || done - file.given_back >= GIVE_BACK {
            HELD.fetch_sub(done - file.given_back, Ordering::Relaxed);
            file.give_back(done, written);
        }
    }

    /// Counts dropped tasks of a run in the header, where recovery can read the number.
    pub(super) fn count_dropped(&self, run: Number, count: u64) {
        file_size::without_signal(|| self.file().count_dropped(run, count));
    }

    /// Forgets a run that has nothing left to be recovered.
    pub(super) fn forget_run(&self, run: Number) {
        self.file().forget_run(run);
    }

    /// Marks the session as gone. Nothing may be appended any more.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

impl Drop for Overflow {
    fn drop(&mut self) {
        let given_back = self.file().given_back;
        HELD.fetch_sub(self.written.load(Ordering::Relaxed) - given_back, Ordering::Relaxed);
    }
}

impl OverflowFile {
    /// Returns the file, if it is still open and ours.
    fn open(&mut self) -> io::Result<&File> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        Ok(file.check()?.0)
    }

    fn append(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        if self.open().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // A session's own file may be gone, too. A temporary file at least takes what a full
            // ring cannot.
            self.file = Some(OwnFile::nameless(prepared(nameless_file()?)?)?);
            self.base = position;
        }
        let at = DATA + (position - self.base);
        let file = self.open()?;
        positioned::write(file, at, bytes).inspect_err(|_| {
            // Cut off an incomplete frame, so that recovery does not read it.
            _ = file.set_len(at);
        })
    }

    /// Frees the disk space before a position.
    fn give_back(&mut self, done: u64, written: u64) {
        let (base, given_back) = (self.base, self.given_back);
        let at = |position: u64| DATA + position.saturating_sub(base);
        self.given_back = done;
        let Ok(file) = self.open() else { return };
        let given_back = if done == written {
            // The overflow is empty. Start again at its beginning, so that old data does not count
            // towards a limit on the file size.
            let emptied = file
                .set_len(DATA)
                .and_then(|()| positioned::write(file, START, &DATA.to_le_bytes()));
            if emptied.is_ok() {
                self.base = written;
            }
            emptied
        } else {
            let (from, to) = (at(given_back), at(done));
            positioned::write(file, START, &to.to_le_bytes())
                .and_then(|()| punch_hole(file, from, to - from))
        };
        // If the system refuses, the space stays allocated until the overflow is empty.
        _ = given_back;
    }

    fn count_dropped(&mut self, run: Number, count: u64) {
        let known = self.counts.iter().position(|(number, _)| *number == run);
        let free = || self.counts.iter().position(|(number, _)| *number == 0);
        let at = match known.or_else(free) {
            Some(at) => at,
            None if self.counts.len() < MOST_COUNTS => {
                self.counts.push((0, 0));
                self.counts.len() - 1
            }
            None => return,
        };
        let before = if self.counts[at].0 == run { self.counts[at].1 } else { 0 };
        self.counts[at] = (run, before + count);
        self.write_count(at);
    }

    fn forget_run(&mut self, run: Number) {
        if let Some(at) = self.counts.iter().position(|(number, _)| *number == run) {
            self.counts[at] = (0, 0);
            self.write_count(at);
        }
    }

    fn write_count(&mut self, at: usize) {
        let (run, count) = self.counts[at];
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&u64::from(run).to_le_bytes());
        entry[8..].copy_from_slice(&count.to_le_bytes());
        if let Ok(file) = self.open() {
            _ = positioned::write(file, COUNTS + at as u64 * 16, &entry);
        }
    }
}

/// Writes the header.
fn prepared(file: File) -> io::Result<File> {
    let mut head = [0; DATA as usize];
    head[..8].copy_from_slice(&MAGIC.to_le_bytes());
    head[8..16].copy_from_slice(&DATA.to_le_bytes());
    positioned::write(&file, 0, &head)?;
    Ok(file)
}

/// Creates a file that disappears with the process.
fn nameless_file() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("runlore-overflow-{}", Id::new()));
    let file = create_private(&path)?;
    // On other systems than Unix, an open file may keep its name.
    _ = fs::remove_file(&path);
    Ok(file)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn punch_hole(file: &File, from: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let [from, length] = [from, length].map(|number| number as libc::off_t);
    // SAFETY: the descriptor is open for writing.
    match unsafe { libc::fallocate(file.as_raw_fd(), how, from, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// One event in an overflow: its length (4 bytes), its kind, the length of its thread's name, the
/// thread's number (8 bytes), the name, and the event as in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: Kind,
    pub(super) thread_id: u64,
    pub(super) thread_name: &'a [u8],
    /// The event's head and its items.
    pub(super) event: [&'a [u8]; 2],
}

impl<'a> Frame<'a> {
    const HEAD: usize = 16;

    fn to_bytes(self) -> Vec<u8> {
        let name = &self.thread_name[..self.thread_name.len().min(usize::from(u8::MAX))];
        let length = Self::HEAD + name.len() + self.event[0].len() + self.event[1].len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.extend_from_slice(&[self.kind as u8, name.len() as u8, 0, 0]);
        bytes.extend_from_slice(&self.thread_id.to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(self.event[0]);
        bytes.extend_from_slice(self.event[1]);
        bytes
    }

    /// Returns the length of the frame that begins with these bytes. `None` if they are not a
    /// frame.
    fn length(head: &[u8]) -> Option<u64> {
        let name = usize::from(*head.get(5)?);
        let length = u32_at(head, 0);
        (length as usize >= Self::HEAD + name).then_some(u64::from(length))
    }

    /// Parses the frame at the start of these bytes. Returns it and the rest. `None` if it is
    /// incomplete.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::try_from(Self::length(bytes.get(..Self::HEAD)?)?).ok()?;
        let (whole, rest) = bytes.split_at_checked(length)?;
        let kind = Kind::from_byte(whole[4])?;
        let (thread_name, event) = whole[Self::HEAD..].split_at(usize::from(whole[5]));
        let frame = Self { kind, thread_id: u64_at(whole, 8), thread_name, event: [event, &[]] };
        Some((frame, rest))
    }
}

/// The overflow of a dead process. Its content is not trusted.
#[derive(Debug)]
pub(super) struct DeadOverflow {
    file: File,
    /// Where its frames begin, and where the file ends.
    start: u64,
    end: u64,
    /// The number of dropped tasks per run.
    dropped: HashMap<Number, u64>,
}

impl DeadOverflow {
    /// Reads the header. `None` if the file is not an overflow.
    pub(super) fn new(mut file: File) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(DATA).read_to_end(&mut head)?;
        if head.len() as u64 != DATA || u64_at(&head, 0) != MAGIC {
            return Ok(None);
        }
        let counts = head[COUNTS as usize..].chunks_exact(16);
        let counts = counts.filter_map(|entry| {
            let run = Number::try_from(u64_at(entry, 0)).ok().filter(|run| *run != 0)?;
            Some((run, u64_at(entry, 8)))
        });
        let start = u64_at(&head, START as usize).max(DATA);
        Ok(Some(Self { start, end: file.metadata()?.len(), dropped: counts.collect(), file }))
    }

    /// Returns the number of dropped tasks of a run.
    pub(super) fn dropped_of(&self, run: Number) -> u64 {
        self.dropped.get(&run).copied().unwrap_or(0)
    }

    /// Passes on, in order, the events that the process's own writer had not finished with. Returns
    /// the number of damaged bytes. The last event may be incomplete: its task had not returned.
    pub(super) fn read(&self, mut each: impl FnMut(&Frame<'_>)) -> io::Result<u64> {
        let mut file = io::BufReader::with_capacity(1 << 20, &self.file);
        file.seek(SeekFrom::Start(self.start))?;
        let mut left = self.end.saturating_sub(self.start);
        let mut bytes = Vec::new();
        while left >= Frame::HEAD as u64 {
            let mut head = [0; Frame::HEAD];
            file.read_exact(&mut head)?;
            let Some(length) = Frame::length(&head) else { return Ok(left) };
            if length > left {
                break;
            }
            bytes.clear();
            bytes.extend_from_slice(&head);
            let rest = length - Frame::HEAD as u64;
            Read::by_ref(&mut file).take(rest).read_to_end(&mut bytes)?;
            match Frame::read(&bytes) {
                Some((frame, _)) => each(&frame),
                None => return Ok(left),
            }
            left -= length;
        }
        Ok(0)
    }
}

/// Returns the path of a session's overflow.
pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join("overflow")
}

/// Reads and writes at an offset in a file. The caller must hold the overflow's lock.
#[cfg(unix)]
mod positioned {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt as _;

    pub(super) fn read(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(bytes, at)
    }

    pub(super) fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }
}

#[cfg(not(unix))]
mod positioned {
    use std::fs::File;
    use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

    pub(super) fn read(mut file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }

    pub(super) fn write(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(event: &[u8]) -> Frame<'_> {
        Frame { kind: Kind::End, thread_id: 7, thread_name: b"worker", event: [&[], event] }
    }

    fn events(overflow: &Overflow, from: u64) -> (Vec<Vec<u8>>, u64) {
        let mut events = Vec::new();
        let until = overflow.written();
        let mut at = from;
        while at < until {
            at = overflow
                .read_some(at, until, 100, |_, frame| {
                    assert_eq!((frame.kind, frame.thread_id), (Kind::End, 7));
                    assert_eq!(frame.thread_name, b"worker");
                    events.push(frame.event.concat());
                })
                .unwrap();
        }
        (events, at)
    }

    #[test]
    fn events_come_out_in_order_and_their_space_is_returned() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_in(folder.path());
        let overflow = Overflow::create(1, &path).unwrap();
        let mut read = 0;
        for round in 0..5_u8 {
            let expected: Vec<Vec<u8>> = (0..50).map(|at| vec![round; at * 7]).collect();
            for event in &expected {
                overflow.append(frame(event)).unwrap();
            }
            let (found, at) = events(&overflow, read);
            assert_eq!(found, expected);
            assert_eq!(overflow.read(), at);
            read = at;
            overflow.release(read);
            assert_eq!(overflow.waiting(), 0);
            assert_eq!(fs::metadata(&path).unwrap().len(), DATA);
        }
    }

    #[test]
    fn a_dead_overflow_gives_what_was_not_released_and_what_was_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_in(folder.path());
        let overflow = Overflow::create(1, &path).unwrap();
        let large = vec![1; GIVE_BACK as usize];
        let first = overflow.append(frame(&large)).unwrap();
        overflow.append(frame(b"second")).unwrap();
        overflow.append(frame(b"third")).unwrap();
        overflow.count_dropped(3, 2);
        overflow.count_dropped(4, 1);
        overflow.count_dropped(3, 1);
        overflow.forget_run(4);
        overflow.release(first);
        let dead = || DeadOverflow::new(File::open(&path).unwrap()).unwrap().unwrap();
        let found = || {
            let mut found = Vec::new();
            assert_eq!(dead().read(|frame| found.push(frame.event.concat())).unwrap(), 0);
            found
        };
        assert_eq!(found(), [b"second".to_vec(), b"third".to_vec()]);
        assert_eq!(dead().dropped, [(3, 3)].into());
        // Simulate a process that was killed while it wrote the last event.
        let length = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        assert_eq!(found(), [b"second".to_vec()]);
    }

    #[test]
    fn a_damaged_overflow_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_in(folder.path());
        fs::write(&path, b"something else").unwrap();
        assert!(DeadOverflow::new(File::open(&path).unwrap()).unwrap().is_none());
        let overflow = Overflow::create(1, &folder.path().join("other")).unwrap();
        overflow.append(frame(b"whole")).unwrap();
        overflow.append(frame(b"damaged")).unwrap();
        let path = folder.path().join("other");
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - Frame::HEAD - b"worker".len() - b"damaged".len();
        bytes[at] = 3;
        fs::write(&path, &bytes).unwrap();
        let dead = DeadOverflow::new(File::open(&path).unwrap()).unwrap().unwrap();
        let mut found = Vec::new();
        assert!(dead.read(|frame| found.push(frame.event.concat())).unwrap() > 0);
        assert_eq!(found, [b"whole".to_vec()]);
    }
}
