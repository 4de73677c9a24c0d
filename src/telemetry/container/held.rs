//! A file that is held open and read again and again.

use std::path::Path;

use crate::telemetry::linux::{Held as Kernel, Shape};

/// More than any of the files says.
const ROOM: usize = 4096;

/// As the kernel's other files, but one that was there when it was looked for.
#[derive(Debug)]
pub(super) struct Held(Kernel);

impl Held {
    /// Opens a file, if it is there and can be read. The descriptor does not outlive an `exec`.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = Kernel::file(path.to_owned());
        file.open().ok()?;
        Some(Self(file))
    }

    /// What the file says now; none if it cannot be read any more.
    pub(super) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        if buffer.len() < ROOM {
            buffer.resize(ROOM, 0);
        }
        // Most of them say a number, and so may any other file that has got the descriptor's number.
        let length = self.0.read_checked(Shape::Whole, buffer, |text| Some(text.len())).ok()?;
        Some(&buffer[..length])
    }

    /// The same for one that is not read often, and not held open in between.
    pub(super) fn read_once<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let text = self.read(buffer);
        self.0.release();
        text
    }

    /// Its descriptor, while it is open.
    pub(super) fn number(&self) -> Option<i32> {
        self.0.number()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
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
        let number = held.number().unwrap();
        let other = File::open(&theirs).unwrap();
        // SAFETY: both descriptors are open; what the first stood for is closed, as a program might do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_eq!(held.read(&mut Vec::new()), Some(&b"1"[..]), "it was opened anew");
        drop(held);
        // SAFETY: the call only asks; a closed descriptor gives -1.
        assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
        // SAFETY: nobody else uses the number any more.
        unsafe { libc::close(number) };
    }
}
