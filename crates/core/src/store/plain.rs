//! Opens files in folders that other users may write to. Only regular files are accepted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::{Error, ErrorKind, Result};

/// Opens a regular file. A link is rejected because it could lead out of the folder, and a pipe
/// because it could block for ever.
pub fn open_plain(path: &Path, write: bool) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(not_plain(path));
    }
    open_regular(path, write, false)
}

/// Opens a file that the user named, possibly through a link. Rejects pipes and devices without
/// blocking.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    open_regular(path, false, true)
}

#[cfg_attr(not(unix), allow(unused_variables, reason = "links are told apart on Unix only"))]
fn open_regular(path: &Path, write: bool, follow: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    // A link or a pipe may have replaced the file since it was checked.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | if follow { 0 } else { libc::O_NOFOLLOW },
    );
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain(path)) }
}

/// Rejects a pipe, a socket or a device in place of a file or folder of records, because opening or
/// reading one may block for ever.
pub fn refuse_special(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() && !facts.is_dir() => Err(Error::new(
            ErrorKind::Store,
            format!("{} is {}: a store is a folder or a file", path.display(), kind_of(&facts)),
        )),
        _ => Ok(()),
    }
}

/// Describes a path that is not a regular file.
pub(super) fn kind_of(facts: &fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = facts.file_type();
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if facts.is_dir() { "a folder" } else { "no regular file" }
}

/// Returns whether a path is a folder itself, not a link to one.
pub fn is_plain_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

fn not_plain(path: &Path) -> io::Error {
    io::Error::other(format!("{} is not a plain file", path.display()))
}
