//! A cgroup file that stays open between readings.

use std::path::Path;

use crate::linux::{Held as Kernel, Shape};

/// More bytes than any of the files has.
const ROOM: usize = 4096;

/// A [`Kernel`] file that existed when it was first opened.
#[derive(Debug)]
pub(super) struct Held(Kernel);

impl Held {
    /// Opens a file. `None` if it does not exist or cannot be read. The descriptor is closed on
    /// `exec`.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = Kernel::file(path.to_owned());
        file.open().ok()?;
        Some(Self(file))
    }

    /// Reads the file. `None` if it can no longer be read.
    pub(super) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        make_room(buffer);
        // The content does not identify the file: most of these files contain one number, and so
        // may a file that was given the same descriptor.
        let length = self.0.read_checked(Shape::Whole, buffer, |text| Some(text.len())).ok()?;
        Some(&buffer[..length])
    }

    /// Reads the file and returns `find(text)`. `find` must return `None` for the content of other
    /// files.
    pub(super) fn find<T>(
        &self,
        buffer: &mut Vec<u8>,
        find: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        make_room(buffer);
        self.0.read_alike(Shape::Whole, buffer, find).ok()
    }

    /// Reads a file that is seldom needed, and closes it.
    pub(super) fn read_once<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let text = self.read(buffer);
        self.0.release();
        text
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns its descriptor, if it is open.
    pub(super) fn number(&self) -> Option<i32> {
        self.0.number().filter(|number| self.0.seems_ours(*number))
    }
}

fn make_room(buffer: &mut Vec<u8>) {
    if buffer.len() < ROOM {
        buffer.resize(ROOM, 0);
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
        // SAFETY: both descriptors are open; what the first stood for is closed, as a program might
        // do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_eq!(held.read(&mut Vec::new()), Some(&b"1"[..]), "it was opened anew");
        drop(held);
        // SAFETY: the call only queries; a closed descriptor gives -1.
        assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
        // SAFETY: nobody else uses this descriptor any more.
        unsafe { libc::close(number) };
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_descriptor_that_another_of_ours_took_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        std::fs::write(&first, "1").unwrap();
        std::fs::write(&second, "2").unwrap();

        let (held, buffer) = (Held::open(&first).unwrap(), &mut Vec::new());
        assert_eq!(held.read(buffer), Some(&b"1"[..]));
        let other = Held::open(&second).unwrap();
        let [number, instead] = [&held, &other].map(|held| held.0.number().unwrap());
        // As if the program had closed the first before the second was opened.
        // SAFETY: both descriptors are open, and what the first stood for is ours.
        assert_eq!(unsafe { libc::dup2(instead, number) }, number);
        assert_eq!(held.read(buffer), Some(&b"1"[..]), "it was opened anew");
        assert_eq!(other.read(buffer), Some(&b"2"[..]));
        // SAFETY: nobody else uses this descriptor any more.
        unsafe { libc::close(number) };
    }
}
