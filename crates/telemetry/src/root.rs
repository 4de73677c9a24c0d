//! The files in which the system tells of itself, below a root that tests can choose.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longer than any file that is read whole, on a machine with thousands of processors.
const LONGEST: u64 = 16 << 20;

/// Where `/proc`, `/sys` and the like are.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    /// Whether this is the machine itself, so that it can also be asked by system calls.
    live: bool,
}

impl Root {
    /// The machine that the program runs on.
    pub(crate) fn live() -> Self {
        Self { path: PathBuf::from("/"), live: true }
    }

    /// A folder that looks like a machine.
    #[cfg(test)]
    pub(crate) fn folder(path: &Path) -> Self {
        Self { path: path.to_owned(), live: false }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Where an absolute path of the machine really is.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file. Bytes that are no text are replaced; the error names the file.
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

    /// The only word or number of a file.
    pub(crate) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path).ok()?.trim().parse().ok()
    }

    /// The numbered entries of a folder, such as `cpu0` and `cpu1` for the prefix `cpu`, in order.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.at(folder)).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// A folder that looks like a machine: paths and what the files there say.
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
