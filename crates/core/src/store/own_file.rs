//! Files that stay open while the program runs.
//!
//! A program may close descriptors that it did not open (`closefrom`, a daemon that detaches). Its
//! next files then get the numbers of ours. An [`OwnFile`] compares device and inode before each
//! use. If the descriptor refers to another file, it opens its own file again by name. It neither
//! writes to nor closes the program's file.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::plain::open_plain;

/// An open file with its path and its identity.
#[derive(Debug)]
pub struct OwnFile {
    /// `None` only while the file is reopened or dropped.
    file: Option<File>,
    /// `None` for a file without a name, which cannot be reopened.
    path: Option<PathBuf>,
    open: fn(&Path) -> io::Result<File>,
    identity: Identity,
}

impl OwnFile {
    pub fn new(file: File, path: &Path) -> io::Result<Self> {
        Self::with(file, Some(path.to_owned()), |path| open_plain(path, true))
    }

    /// Opens a file with `open`, now and whenever it has to be reopened.
    pub fn open(path: &Path, open: fn(&Path) -> io::Result<File>) -> io::Result<Self> {
        Self::with(open(path)?, Some(path.to_owned()), open)
    }

    /// Wraps a file that no longer has a name.
    pub fn nameless(file: File) -> io::Result<Self> {
        Self::with(file, None, |path| open_plain(path, true))
    }

    fn with(
        file: File,
        path: Option<PathBuf>,
        open: fn(&Path) -> io::Result<File>,
    ) -> io::Result<Self> {
        let file = above_standard_streams(file)?;
        let identity = identity(&file.metadata()?);
        Ok(Self { file: Some(file), path, open, identity })
    }

    /// Returns the file, and whether it had to be reopened because the descriptor refers to another
    /// file. After that its locks are gone and its position is the end.
    pub fn check(&mut self) -> io::Result<(&mut File, bool)> {
        let is_lost = !self.is_ours();
        if is_lost {
            let again = self.open_again()?;
            release(self.file.replace(again));
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        Ok((file, is_lost))
    }

    /// Returns whether the descriptor still refers to the file.
    pub(crate) fn is_ours(&self) -> bool {
        self.file.as_ref().is_some_and(|file| self.is_it(file))
    }

    /// Returns whether the path still refers to the file.
    pub fn has_its_name(&self) -> bool {
        let there = self.path.as_ref().and_then(|path| std::fs::symlink_metadata(path).ok());
        there.is_some_and(|facts| identity(&facts) == self.identity)
    }

    fn is_it(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|facts| identity(&facts) == self.identity)
    }

    fn open_again(&self) -> io::Result<File> {
        let gone =
            || io::Error::new(io::ErrorKind::NotFound, "its descriptor was closed by the program");
        let path = self.path.as_ref().ok_or_else(gone)?;
        let mut file = above_standard_streams((self.open)(path)?)?;
        // A pipe and the like have no end to seek to.
        _ = file.seek(SeekFrom::End(0));
        if self.is_it(&file) { Ok(file) } else { Err(gone()) }
    }
}

impl io::Write for OwnFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if !self.is_ours() {
            release(self.file.take());
        }
    }
}

/// Gives up a descriptor without closing it.
fn release(file: Option<File>) {
    #[cfg(unix)]
    if let Some(file) = file {
        _ = std::os::fd::IntoRawFd::into_raw_fd(file);
    }
    #[cfg(not(unix))]
    drop(file);
}

/// Moves a descriptor above those of the standard streams. A program that closed a standard stream
/// expects its next file to get that number.
#[cfg(unix)]
fn above_standard_streams(file: File) -> io::Result<File> {
    use std::os::fd::AsRawFd as _;
    // A duplicate never gets the number of a standard stream.
    if file.as_raw_fd() <= 2 { file.try_clone() } else { Ok(file) }
}

#[cfg(not(unix))]
fn above_standard_streams(file: File) -> io::Result<File> {
    Ok(file)
}

/// Device and inode number.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(facts: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (facts.dev(), facts.ino())
}

/// On other systems, programs do not close handles that they did not open.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::{AsRawFd as _, RawFd};

    use super::*;
    use crate::store::create_private;

    /// Returns an own file whose descriptor now refers to another file.
    #[allow(unsafe_code)]
    fn taken_over(path: &Path, theirs: &Path) -> (OwnFile, RawFd) {
        let mut own = OwnFile::new(create_private(path).unwrap(), path).unwrap();
        own.check().unwrap().0.write_all(b"one").unwrap();
        let number = own.file.as_ref().unwrap().as_raw_fd();
        let theirs = create_private(theirs).unwrap();
        // SAFETY: both descriptors are open. The file that `number` referred to is closed, as a
        // program might do.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        (own, number)
    }

    /// Closes a descriptor of the program. Returns whether it was open.
    #[allow(unsafe_code)]
    fn close(number: RawFd) -> bool {
        // SAFETY: nobody else uses this descriptor.
        unsafe { libc::close(number) == 0 }
    }

    #[test]
    fn a_descriptor_that_leads_elsewhere_is_left_alone_and_the_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let (mut own, number) = taken_over(&ours, &theirs);
        let (file, is_reopened) = own.check().unwrap();
        assert!(is_reopened);
        file.write_all(b", two").unwrap();
        assert!(!own.check().unwrap().1, "it is ours again");
        drop(own);
        assert_eq!(fs::read_to_string(ours).unwrap(), "one, two");
        assert_eq!(fs::read_to_string(theirs).unwrap(), "");
        assert!(close(number), "nobody has closed what is theirs");
    }

    #[test]
    fn a_file_that_took_its_name_is_not_it() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let (mut own, number) = taken_over(&ours, &theirs);
        fs::rename(&theirs, &ours).unwrap();
        fs::write(&ours, "theirs").unwrap();
        fs::write(&theirs, "other").unwrap();
        // The path now refers to the same file as the descriptor, but that is not the file that was
        // opened.
        assert_eq!(own.check().unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(own);
        assert_eq!(fs::read_to_string(ours).unwrap(), "theirs");
        assert!(close(number));
    }
}
