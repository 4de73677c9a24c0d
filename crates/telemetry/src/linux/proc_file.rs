//! Files of the kernel that stay open, because opening a file costs more than reading it.
//!
//! The program may close any descriptor, and a file that it opens later may get the same number. So
//! a reading counts only if its content has the expected form. If it does not, `fstat` checks the
//! descriptor; [`ProcFile::read_checked`] does so before reading. A descriptor that no longer
//! refers to our file is left alone, because it belongs to the program now, and the file is opened
//! again.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use runlore_core::{clock, file_system};

/// More than any of these files has.
const MAX_BYTES: usize = 64 << 20;

/// A shorter read of a file of lines is the last one. The kernel ends a read where the next line
/// does not fit into the page, and no line is as long as the remaining 512 bytes.
const LAST_OF_LINES: usize = PAGE - 512;
const PAGE: usize = 4096;

/// How long the result of a check is reused. If the program meanwhile closed the descriptor and
/// opened a file of the same form, only a few captures are wrong.
const CHECK_HOLDS_NS: u64 = 10_000_000;

/// Number of files that were opened here so far. Each may have got the number of one of our files
/// that the program has closed, so it ends the results of earlier checks.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A file or directory of the kernel, opened at its first use.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: PathBuf,
    /// Whether a read returns as many lines as fit into a page, instead of the whole content.
    is_read_by_lines: bool,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    device: u64,
    inode: u64,
    /// The value of [`OPENED`] at the last check.
    opened: u64,
    /// The time of the last check.
    checked_ns: u64,
}

impl ProcFile {
    /// A file that the kernel returns in one read, or a directory.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self::with(path, false)
    }

    /// A file of which the kernel returns some lines with each read.
    pub(crate) fn of_lines(path: PathBuf) -> Self {
        Self::with(path, true)
    }

    fn with(path: PathBuf, is_read_by_lines: bool) -> Self {
        Self { path, is_read_by_lines, open: Mutex::new(None) }
    }

    /// Opens a file. `None` if it does not exist or cannot be read.
    pub(crate) fn existing(path: PathBuf) -> Option<Self> {
        let file = Self::new(path);
        file.open().ok()?;
        Some(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and returns `parse(text)`. `parse` must return `None` if the text does not
    /// have the expected form.
    #[inline]
    pub(crate) fn read<T>(
        &self,
        buffer: &mut Vec<u8>,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.read_if(Open::is_assumed, buffer, parse)
    }

    /// Like [`read`](Self::read), for a file whose form does not identify it.
    #[inline]
    pub(crate) fn read_checked<T>(
        &self,
        buffer: &mut Vec<u8>,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.read_if(Open::is_checked, buffer, parse)
    }

    #[inline]
    fn read_if<T>(
        &self,
        is_ours: fn(&mut Open) -> bool,
        buffer: &mut Vec<u8>,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        let parsed = self.fill(is_ours, buffer).map(|length| parse(&buffer[..length]));
        if let Ok(Some(parsed)) = parsed {
            return Ok(parsed);
        }
        // Either the file is like that, or the descriptor is no longer ours.
        let length = self.fill(Open::is_same, buffer)?;
        parse(&buffer[..length]).ok_or_else(|| io::Error::other("its content is not as expected"))
    }

    fn fill(&self, is_ours: fn(&mut Open) -> bool, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut open = self.lock();
        let file = &self.opened(&mut open, is_ours)?.file;
        let room = if self.is_read_by_lines { PAGE } else { 1 };
        let mut length = 0;
        loop {
            if buffer.len() - length < room {
                grow(buffer)?;
                if !self.is_read_by_lines {
                    // All of it in one read, so that the content is consistent.
                    length = 0;
                }
            }
            let more = match file.read_at(&mut buffer[length..], length as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            length += more;
            let is_all =
                if self.is_read_by_lines { more < LAST_OF_LINES } else { length < buffer.len() };
            if is_all {
                return Ok(length);
            }
        }
    }

    /// Opens the file if it is not open.
    pub(crate) fn open(&self) -> io::Result<()> {
        self.opened(&mut self.lock(), Open::is_assumed).map(drop)
    }

    /// Returns the result of `fstat`.
    pub(crate) fn status(&self) -> io::Result<libc::stat> {
        let mut open = self.lock();
        let status = file_system::status(self.opened(&mut open, Open::is_assumed)?.number());
        match (status, &*open) {
            (Ok(status), Some(known)) if known.is_same_as(&status) => Ok(status),
            _ => file_system::status(self.opened(&mut open, Open::is_same)?.number()),
        }
    }

    /// Returns the descriptor, if the file is open and the descriptor is still ours.
    pub(crate) fn number(&self) -> Option<i32> {
        let mut open = self.lock();
        if open.as_mut()?.seems_ours() {
            return open.as_ref().map(Open::number);
        }
        abandon(open.take());
        None
    }

    /// Closes the file until it is read again.
    pub(crate) fn release(&self) {
        close(self.lock().take());
    }

    /// Closes the file in a forked child, unless a thread of the parent held the lock: it would
    /// stay locked forever.
    pub(super) fn close_after_fork(&self) {
        if let Ok(mut open) = self.open.try_lock() {
            close(open.take());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, like a thread of the parent that a forked child does not have.
    #[cfg(test)]
    pub(super) fn hold_lock(&self) -> impl Sized + '_ {
        self.lock()
    }

    /// Opens the file, unless it is open and `is_ours`.
    #[inline]
    fn opened<'a>(
        &self,
        open: &'a mut Option<Open>,
        is_ours: fn(&mut Open) -> bool,
    ) -> io::Result<&'a mut Open> {
        if !open.as_mut().is_some_and(is_ours) {
            abandon(open.take());
            *open = Some(Open::new(&self.path)?);
        }
        open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for ProcFile {
    fn drop(&mut self) {
        self.release();
    }
}

impl Open {
    #[cold]
    fn new(path: &Path) -> io::Result<Self> {
        // Before the file gets its number: a file of ours that had this number must be checked.
        let opened = OPENED.fetch_add(1, Ordering::AcqRel) + 1;
        let mut file = File::open(path)?;
        if file.as_raw_fd() <= 2 {
            // A program that has closed a standard stream expects the next file that it opens to
            // replace it. A duplicate never gets the number of a standard stream.
            file = file.try_clone()?;
        }
        let status = file_system::status(file.as_raw_fd())?;
        let (device, inode) = identity(&status);
        Ok(Self { file, device, inode, opened, checked_ns: 0 })
    }

    fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// For files whose content shows it if the descriptor is no longer ours.
    fn is_assumed(&mut self) -> bool {
        true
    }

    /// Like [`is_same`](Self::is_same), but reuses the result of the last check if that was a moment
    /// ago.
    #[inline]
    fn is_checked(&mut self) -> bool {
        let now = clock::monotonic_ns();
        if now.saturating_sub(self.checked_ns) < CHECK_HOLDS_NS {
            return self.seems_ours();
        }
        self.checked_ns = now;
        self.is_same()
    }

    /// Like [`is_same`](Self::is_same), but reuses the result of the last check if none of our files
    /// was opened since then.
    #[inline]
    fn seems_ours(&mut self) -> bool {
        let opened = OPENED.load(Ordering::Acquire);
        if self.opened == opened {
            return true;
        }
        self.opened = opened;
        self.is_same()
    }

    /// Whether the descriptor still refers to the file.
    fn is_same(&mut self) -> bool {
        file_system::status(self.number()).is_ok_and(|status| self.is_same_as(&status))
    }

    fn is_same_as(&self, status: &libc::stat) -> bool {
        identity(status) == (self.device, self.inode)
    }
}

#[allow(clippy::unnecessary_cast, reason = "these types differ between platforms")]
fn identity(status: &libc::stat) -> (u64, u64) {
    (status.st_dev as u64, status.st_ino as u64)
}

/// Closes a file if its descriptor is still ours.
fn close(open: Option<Open>) {
    if let Some(mut open) = open
        && !open.is_same()
    {
        abandon(Some(open));
    }
}

/// Gives up a descriptor that belongs to the program now.
fn abandon(open: Option<Open>) {
    if let Some(open) = open {
        _ = open.file.into_raw_fd();
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
