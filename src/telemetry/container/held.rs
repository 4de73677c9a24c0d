//! A file that is held open and read again and again.

use std::fs::{File, Metadata};
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// More than any of the files says.
const ROOM: usize = 4096;

#[derive(Debug)]
pub(super) struct Held {
    /// There until it is dropped.
    file: Option<File>,
    identity: (u64, u64),
}

impl Held {
    /// Opens a file, if it is there and can be read. The descriptor does not outlive an `exec`.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let identity = identity(&file.metadata().ok()?);
        Some(Self { file: Some(file), identity })
    }

    /// What the file says now; none if it cannot be read any more.
    pub(super) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        if buffer.len() < ROOM {
            buffer.resize(ROOM, 0);
        }
        let length = self.file.as_ref()?.read_at(buffer, 0).ok()?;
        Some(&buffer[..length])
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A program may close descriptors that are not its own, as daemons do, and get the same number for a file of
        // its own: that one must stay open.
        let Some(file) = self.file.take() else { return };
        if !file.metadata().is_ok_and(|now| identity(&now) == self.identity) {
            _ = file.into_raw_fd();
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn a_descriptor_that_somebody_else_took_is_left_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        std::fs::write(&ours, "1").unwrap();
        std::fs::write(&theirs, "2").unwrap();

        let held = Held::open(&ours).unwrap();
        let number = held.file.as_ref().unwrap().as_raw_fd();
        let other = File::open(&theirs).unwrap();
        // SAFETY: both descriptors are open; what the first stood for is closed, as a program might do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        drop(held);
        // SAFETY: the call only asks; a closed descriptor gives -1.
        assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
        // SAFETY: nobody else uses the number any more.
        unsafe { libc::close(number) };
    }
}
