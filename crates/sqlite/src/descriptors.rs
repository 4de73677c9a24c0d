//! The descriptors that a connection has open.
//!
//! SQLite opens its files itself, and cannot notice that the program closed a descriptor and gave its number to a file
//! of its own: the next transaction would be written into that file.

use std::fs;
use std::path::{Path, PathBuf};

/// Device and inode.
type Identity = (u64, u64);

/// The descriptors of a database, its log and its shared memory, and where each led when the connection was made.
/// Empty where the system does not list descriptors.
#[derive(Debug)]
pub(super) struct Descriptors(Vec<(PathBuf, Identity)>);

impl Descriptors {
    /// All of this process that lead to the files of a database.
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

    /// Whether all of them lead to where they led.
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
