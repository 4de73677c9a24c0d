//! Files of the kernel that stay open, because opening one costs more than reading it.
//!
//! The program may close any descriptor, and open something else that gets its number. So a reading counts only if it looks as
//! it should; where it does not, or where its look tells nothing, it is checked whether the descriptor is still
//! that of our file. One that is not is left alone, and the file is opened anew.
//!
//! That check is `fstat`, or half of it: our files are opened with flags that nobody else has a use for, and the flags cost
//! less to ask for. What has them is ours, and it is this one if none of ours was opened since `fstat` said so. An answer
//! holds for a moment ([`HOLDS_NS`]): two captures that follow each other need not ask twice.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use runlore_core::{clock, file_system};

/// How the kernel gives a file to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole, if there is room for it.
    Whole,
    /// As many lines at a time as fit into a page.
    Lines,
}

/// More than any of these files needs.
const MAX_BYTES: usize = 64 << 20;
/// The kernel stops within a page where the next line does not fit. No line is as long as the rest of the page is then.
const LAST_OF_LINES: usize = 4096 - 512;

/// What our files are opened with. To write through and not to wait mean nothing to who only reads such files. (`O_APPEND`
/// would be as good, but is a right of its own to security modules.)
const MARK: i32 = libc::O_SYNC | libc::O_NONBLOCK;

/// More than a line of a few numbers needs.
const SHORT_LINE: usize = 128;

/// How long it is believed that a descriptor is ours: not long enough for more than a few captures to be wrong, should somebody
/// have closed it meanwhile and opened a file that looks the same.
const HOLDS_NS: u64 = 10_000_000;

/// How many files were opened here so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    flags: i32,
    descriptor: AtomicI32,
    /// Device and inode of what was opened.
    device: AtomicU64,
    inode: AtomicU64,
    /// How many files had been opened when `fstat` last said that it is this one.
    checked: AtomicU64,
    /// When its flags were last asked for.
    asked_ns: AtomicU64,
    opening: Mutex<()>,
    /// Whether it takes more than one reading, during which nobody else may read.
    is_long: AtomicBool,
    reading: Mutex<()>,
}

/// What `fstat` says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) links: u64,
    device: u64,
    inode: u64,
}

impl Held {
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::new(path, libc::O_RDONLY)
    }

    pub(crate) fn folder(path: PathBuf) -> Self {
        Self::new(path, libc::O_RDONLY | libc::O_DIRECTORY)
    }

    fn new(path: PathBuf, flags: i32) -> Self {
        Self {
            path,
            flags,
            descriptor: AtomicI32::new(-1),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            opening: Mutex::new(()),
            is_long: AtomicBool::new(false),
            reading: Mutex::new(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, if it is open.
    pub(crate) fn number(&self) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        (descriptor >= 0).then_some(descriptor)
    }

    /// Reads the file and returns what `parse` makes of it, which is nothing if it does not look as it should.
    #[inline]
    pub(crate) fn read<T>(
        &self,
        shape: Shape,
        buffer: &mut Vec<u8>,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        let mut descriptor = self.open()?;
        for attempt in 0.. {
            let read = self.fill(descriptor, shape, buffer);
            let parsed = read.map(|length| parse(&buffer[..length]));
            if let Ok(Some(parsed)) = parsed {
                return Ok(parsed);
            }
            if attempt > 0 || self.is_still(descriptor) {
                parsed?;
                break;
            }
            descriptor = self.open_anew(descriptor)?;
        }
        Err(io::Error::other("its content is not as expected"))
    }

    /// As [`Held::read`], for a file that looks like those of other processes and groups.
    pub(crate) fn read_alike<T>(
        &self,
        shape: Shape,
        buffer: &mut Vec<u8>,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        let descriptor = self.open()?;
        if !self.seems_ours(descriptor) {
            self.open_anew(descriptor)?;
        }
        self.read(shape, buffer, parse)
    }

    /// As [`Held::read`], for a file whose look tells nothing.
    pub(crate) fn read_checked<T>(
        &self,
        shape: Shape,
        buffer: &mut Vec<u8>,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.check()?;
        self.read(shape, buffer, parse)
    }

    /// As [`Held::read_alike`], for a file of one short line: the stack has room for it.
    #[inline]
    pub(crate) fn read_line<T>(&self, parse: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        let mut line = [0; SHORT_LINE];
        if let Some(descriptor) = self.number()
            && self.seems_ours(descriptor)
            && let Ok(length) = read_at(descriptor, &mut line, 0)
            && length < SHORT_LINE
            && let Some(parsed) = parse(&line[..length])
        {
            return Ok(parsed);
        }
        self.read_alike(Shape::Whole, &mut Vec::new(), parse)
    }

    /// Opens the file anew if it is not ours any more.
    #[inline]
    pub(crate) fn check(&self) -> io::Result<()> {
        self.check_every(HOLDS_NS)
    }

    /// The same, where an answer holds for so long.
    #[inline(always)]
    pub(crate) fn check_every(&self, holds_ns: u64) -> io::Result<()> {
        let descriptor = self.open()?;
        if !self.is_ours_for(descriptor, holds_ns) {
            self.open_anew(descriptor)?;
        }
        Ok(())
    }

    /// Whether the descriptor is still that of the file.
    #[inline]
    pub(crate) fn is_ours(&self, descriptor: i32) -> bool {
        self.is_ours_for(descriptor, HOLDS_NS)
    }

    #[inline]
    fn is_ours_for(&self, descriptor: i32, holds_ns: u64) -> bool {
        self.is_ours_if(descriptor, |descriptor| {
            let now = clock::monotonic_ns();
            if now.saturating_sub(self.asked_ns.load(Ordering::Relaxed)) < holds_ns {
                return true;
            }
            self.asked_ns.store(now, Ordering::Relaxed);
            is_marked(descriptor)
        })
    }

    /// The same without a question to the system while nothing of ours had to be opened anew: who closes what is not theirs
    /// either closes all, which shows in the first of our files that is looked at, or one by mistake, whose number
    /// then goes to a file of another look.
    pub(crate) fn seems_ours(&self, descriptor: i32) -> bool {
        self.is_ours_if(descriptor, |_| true)
    }

    #[inline]
    fn is_ours_if(&self, descriptor: i32, is_one_of_ours: impl FnOnce(i32) -> bool) -> bool {
        let opened = OPENED.load(Ordering::Acquire);
        if self.checked.load(Ordering::Relaxed) == opened && is_one_of_ours(descriptor) {
            return true;
        }
        let is_still = self.is_still(descriptor);
        if is_still {
            self.checked.store(opened, Ordering::Relaxed);
        }
        is_still
    }

    /// What `fstat` says of the file, opened anew if it is not ours any more.
    pub(crate) fn status(&self) -> io::Result<Status> {
        let descriptor = self.open()?;
        match status(descriptor) {
            Ok(status) if self.is_same(&status) => Ok(status),
            _ => status(self.open_anew(descriptor)?),
        }
    }

    fn is_still(&self, descriptor: i32) -> bool {
        status(descriptor).is_ok_and(|status| self.is_same(&status))
    }

    fn is_same(&self, status: &Status) -> bool {
        status.device == self.device.load(Ordering::Relaxed)
            && status.inode == self.inode.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn open(&self) -> io::Result<i32> {
        match self.number() {
            Some(descriptor) => Ok(descriptor),
            None => self.open_anew(-1),
        }
    }

    /// Opens the file, unless another thread has put something else in the place of `instead_of`. That one is not
    /// closed: it belongs to somebody else now.
    #[cold]
    fn open_anew(&self, instead_of: i32) -> io::Result<i32> {
        let _opening = lock(&self.opening);
        let current = self.descriptor.load(Ordering::Acquire);
        if current != instead_of {
            return Ok(current);
        }
        self.descriptor.store(-1, Ordering::Release);
        // Before the number is taken: whoever had it looks closely from now on.
        OPENED.fetch_add(1, Ordering::AcqRel);
        let descriptor = open(&self.path, self.flags)?;
        let status = status(descriptor).inspect_err(|_| close(descriptor))?;
        self.device.store(status.device, Ordering::Relaxed);
        self.inode.store(status.inode, Ordering::Relaxed);
        self.descriptor.store(descriptor, Ordering::Release);
        Ok(descriptor)
    }

    /// Closes it until it is read again.
    pub(crate) fn release(&self) {
        let _opening = lock(&self.opening);
        self.close_alone();
    }

    /// Closes it where no other thread can be opening it: at its end, and in a forked child, where a lock that another
    /// thread of the parent held stays closed.
    pub(super) fn close_alone(&self) {
        let descriptor = self.descriptor.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 && self.is_still(descriptor) {
            close(descriptor);
        }
    }

    /// Holds its locks, as a thread may that a forked child does not have.
    #[cfg(test)]
    pub(super) fn hold_locks(&self) -> [MutexGuard<'_, ()>; 2] {
        [lock(&self.opening), lock(&self.reading)]
    }

    #[inline]
    fn fill(&self, descriptor: i32, shape: Shape, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if shape == Shape::Whole {
            return fill_whole(descriptor, buffer);
        }
        let reading = self.is_long.load(Ordering::Relaxed).then(|| lock(&self.reading));
        if reading.is_none() {
            let length = read_at(descriptor, buffer, 0)?;
            if length < LAST_OF_LINES {
                return Ok(length);
            }
            // From one reading to the next the kernel remembers the line; a reading by another thread in between would
            // make it count bytes instead, of lines whose lengths change.
            self.is_long.store(true, Ordering::Relaxed);
        }
        let _reading = reading.unwrap_or_else(|| lock(&self.reading));
        let mut length = 0;
        loop {
            if length == buffer.len() {
                grow(buffer)?;
            }
            let more = read_at(descriptor, &mut buffer[length..], length)?;
            length += more;
            if more == 0 {
                return Ok(length);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.close_alone();
    }
}

/// All at once, so that what was read is of one moment.
#[inline]
fn fill_whole(descriptor: i32, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let length = read_at(descriptor, buffer, 0)?;
        if length < buffer.len() {
            return Ok(length);
        }
        grow(buffer)?;
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>) -> io::Result<()> {
    if buffer.len() >= MAX_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    let length = (buffer.len() * 2).max(8192);
    buffer.resize(length, 0);
    Ok(())
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn read_at(descriptor: i32, buffer: &mut [u8], at: usize) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is writable for its whole length.
        let read = unsafe {
            libc::pread(descriptor, buffer.as_mut_ptr().cast(), buffer.len(), at as libc::off_t)
        };
        if let Ok(length) = usize::try_from(read) {
            return Ok(length);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn open(path: &Path, flags: i32) -> io::Result<i32> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: the path ends with a zero.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | MARK | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    if descriptor > 2 {
        return Ok(descriptor);
    }
    // Who has closed a standard stream expects the next file he opens to take its place.
    // SAFETY: both are plain calls on a descriptor that is ours.
    let moved = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    let moved = if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(moved) };
    close(descriptor);
    moved
}

fn close(descriptor: i32) {
    // SAFETY: only called for descriptors that were opened here.
    unsafe { libc::close(descriptor) };
}

#[inline]
fn is_marked(descriptor: i32) -> bool {
    // SAFETY: a plain call that only asks; a closed descriptor gives -1.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & (MARK | libc::O_ACCMODE) == MARK
}

#[inline]
#[allow(clippy::unnecessary_cast, reason = "these types differ between platforms")]
pub(crate) fn status(descriptor: i32) -> io::Result<Status> {
    let stat = file_system::status(descriptor)?;
    Ok(Status {
        mode: stat.st_mode,
        size: stat.st_size as u64,
        links: stat.st_nlink as u64,
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
    })
}
