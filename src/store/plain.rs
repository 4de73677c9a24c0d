//! Files of a folder that somebody else may have filled: only plain ones are opened.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file that must be a plain one: a link could lead out of its folder, and a pipe could wait for ever.
pub(crate) fn open_plain(path: &Path, write: bool) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(not_plain(path));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    // What it is may have changed since.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_plain(path)),
    }
}

/// Whether a path is a folder itself, and not a link to one.
pub(crate) fn is_plain_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

fn not_plain(path: &Path) -> io::Error {
    io::Error::other(format!("{} is not a plain file", path.display()))
}
