//! Files of the kernel that stay open, because opening a file costs more than reading it.
//!
//! The program may close any descriptor, and a file that it opens later may get the same number. So
//! a reading counts only if its content has the expected form. If it does not, or if the form does
//! not identify the file, the descriptor is checked. A descriptor that no longer refers to our file
//! is left alone, because it belongs to the program now, and the file is opened again.
//!
//! The full check is `fstat`. There is a cheaper one: our files are opened with flags that are
//! useless for anybody else, and querying the flags costs less. A descriptor with these flags is
//! one of ours. It is this file's if none of our files was opened since `fstat` last confirmed it.
//! A result is reused for a moment ([`HOLDS_NS`]), so that two captures in a row need only one
//! check.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use runlore_core::{clock, file_system};

/// How the kernel returns a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it in one read, if the buffer is large enough.
    Whole,
    /// In each read, as many lines as fit into a page.
    Lines,
}

/// More than any of these files has.
const MAX_BYTES: usize = 64 << 20;
/// A read of at least this many bytes may be incomplete. The kernel ends a read where the next line
/// does not fit into the page, and no line is as long as the remaining 512 bytes.
const LAST_OF_LINES: usize = 4096 - 512;

/// The flags that mark our files. `O_SYNC` and `O_NONBLOCK` have no effect on reading these files.
/// (`O_APPEND` would work too, but security modules treat it as a separate permission.)
const MARK: i32 = libc::O_SYNC | libc::O_NONBLOCK;

/// Longer than a line with a few numbers.
const SHORT_LINE: usize = 128;

/// How long the result of a check is reused. If the program meanwhile closed the descriptor and
/// opened a file of the same form, only a few captures are wrong.
const HOLDS_NS: u64 = 10_000_000;

/// Number of files that were opened here so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    flags: i32,
    descriptor: AtomicI32,
    /// Device and inode of the opened file.
    device: AtomicU64,
    inode: AtomicU64,
    /// The value of [`OPENED`] when `fstat` last confirmed the descriptor.
    checked: AtomicU64,
    /// When the flags were last queried.
    asked_ns: AtomicU64,
    opening: Mutex<()>,
    /// Whether the file needs several reads, between which no other thread may read.
    is_long: AtomicBool,
    reading: Mutex<()>,
}

/// The result of `fstat`.
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

    /// Returns the descriptor, if the file is open.
    pub(crate) fn number(&self) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        (descriptor >= 0).then_some(descriptor)
    }

    /// Reads the file and returns `parse(text)`. `parse` must return `None` if the text does not
    /// have the expected form.
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

    /// Like [`Held::read`], for a file that has the same form as those of other processes or
    /// cgroups.
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

    /// Like [`Held::read`], for a file whose form does not identify it.
    pub(crate) fn read_checked<T>(
        &self,
        shape: Shape,
        buffer: &mut Vec<u8>,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.check()?;
        self.read(shape, buffer, parse)
    }

    /// Like [`Held::read_alike`], for a file with one short line. It reads to the stack.
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

    /// Opens the file again if the descriptor is no longer ours.
    #[inline]
    pub(crate) fn check(&self) -> io::Result<()> {
        self.check_every(HOLDS_NS)
    }

    /// Like [`Held::check`], but reuses a result for `holds_ns`.
    #[inline(always)]
    pub(crate) fn check_every(&self, holds_ns: u64) -> io::Result<()> {
        let descriptor = self.open()?;
        if !self.is_ours_for(descriptor, holds_ns) {
            self.open_anew(descriptor)?;
        }
        Ok(())
    }

    /// Whether the descriptor still refers to this file.
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

    /// Like [`Held::is_ours`], but without a system call as long as none of our files had to be
    /// opened again.
    ///
    /// Code that closes descriptors of others either closes all of them, which the next check of
    /// any of our files notices, or closes one by mistake. The number of that one then goes to a
    /// file of another form.
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

    /// Returns the result of `fstat`, after opening the file again if the descriptor is no longer
    /// ours.
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

    /// Opens the file, unless another thread has already replaced the descriptor `instead_of`.
    /// `instead_of` itself is not closed, because it belongs to the program now.
    #[cold]
    fn open_anew(&self, instead_of: i32) -> io::Result<i32> {
        let _opening = lock(&self.opening);
        let current = self.descriptor.load(Ordering::Acquire);
        if current != instead_of {
            return Ok(current);
        }
        self.descriptor.store(-1, Ordering::Release);
        // Before the file gets its number: a file of ours that had this number must do the full
        // check from now on.
        OPENED.fetch_add(1, Ordering::AcqRel);
        let descriptor = open(&self.path, self.flags)?;
        let status = status(descriptor).inspect_err(|_| close(descriptor))?;
        self.device.store(status.device, Ordering::Relaxed);
        self.inode.store(status.inode, Ordering::Relaxed);
        self.descriptor.store(descriptor, Ordering::Release);
        Ok(descriptor)
    }

    /// Closes the file until it is read again.
    pub(crate) fn release(&self) {
        let _opening = lock(&self.opening);
        self.close_alone();
    }

    /// Closes the file without locking, for when no other thread can be opening it: on drop, and in
    /// a forked child. In the child, a lock that another thread of the parent held would stay
    /// locked forever.
    pub(super) fn close_alone(&self) {
        let descriptor = self.descriptor.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 && self.is_still(descriptor) {
            close(descriptor);
        }
    }

    /// Takes both locks, like a thread of the parent that a forked child does not have.
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
            // Between reads the kernel remembers the line. If another thread reads in between, the
            // kernel seeks by bytes instead, and the lines may have changed their lengths.
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

/// Reads the file in one read, so that the content is consistent.
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
    // SAFETY: the path is NUL-terminated.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | MARK | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    if descriptor > 2 {
        return Ok(descriptor);
    }
    // A program that has closed a standard stream expects the next file that it opens to replace
    // it.
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
    // SAFETY: a plain call that only queries; a closed descriptor gives -1.
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
