//! The file descriptors of a connection.
//!
//! SQLite opens its files itself. It does not notice if the program closes one of its descriptors
//! and then opens another file that gets the same number. The next transaction would be written
//! into that file.

use std::fs;
use std::path::{Path, PathBuf};

/// The device and inode of a file.
type Identity = (u64, u64);

/// The descriptors of a database, its log and its shared memory, with the identity of each file at
/// the time of opening. Empty if the system does not list descriptors.
#[derive(Debug)]
pub(super) struct Descriptors(Vec<(PathBuf, Identity)>);

impl Descriptors {
    /// Finds all descriptors of this process that refer to the files of a database.
    pub(super) fn of(database: &Path) -> Self {
        let beside = |ending: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(ending);
            identity(Path::new(&path))
        };
        let files: Vec<_> = ["", "-wal", "-shm"].into_iter().filter_map(beside).collect();
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let known = open.filter_map(|entry| Some((entry.path(), identity(&entry.path())?)));
        Self(known.filter(|(_, leads_to)| files.contains(leads_to)).collect())
    }

    /// Returns whether all descriptors still refer to the same files.
    pub(super) fn are_ours(&self) -> bool {
        self.0.iter().all(|(descriptor, before)| identity(descriptor) == Some(*before))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}
