//! The system's files (`/proc`, `/sys`), below a root directory that tests can replace.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longer than any file that is read as a whole, even with thousands of CPUs.
const LONGEST: u64 = 16 << 20;

/// The directory that contains `/proc`, `/sys` and the like.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    /// Whether this is the running machine, so that system calls describe it too.
    live: bool,
}

impl Root {
    /// The machine that the program runs on.
    pub(crate) fn live() -> Self {
        Self { path: PathBuf::from("/"), live: true }
    }

    /// A directory of files that imitates a machine.
    #[cfg(test)]
    pub(crate) fn folder(path: &Path) -> Self {
        Self { path: path.to_owned(), live: false }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Returns the actual path of an absolute path of the machine.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Reads a file as text. Invalid UTF-8 is replaced. The error names the file.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            File::open(self.at(path))?.take(LONGEST).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }

    /// Parses the whole content of a file as one value.
    pub(crate) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path).ok()?.trim().parse().ok()
    }

    /// Returns the sorted numbers of the entries of a directory that have this prefix, such as 0
    /// and 1 for `cpu0` and `cpu1` with the prefix `cpu`.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.at(folder)).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Creates a directory that imitates a machine, from paths and file contents.
#[cfg(test)]
pub(crate) fn fixture(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
