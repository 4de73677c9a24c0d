//! Finds the files of a folder that contain records.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::plain::{kind_of, open_named};
use crate::store::{open_plain, refuse_special};
use crate::{Error, ErrorKind, Result};

/// The files to read, sorted by name.
#[derive(Debug, Default)]
pub struct Files {
    /// Files with one line per task.
    pub main: Vec<PathBuf>,
    /// Sidecar files with the tasks that are still open.
    pub(super) open: Vec<PathBuf>,
    /// Why some files are not read.
    pub(super) problems: Vec<Error>,
    /// Whether the user named the file in `main`, possibly through a link.
    pub(super) is_named: bool,
}

impl Files {
    /// Finds the files at `path`: a file with its sidecar beside it, or a folder.
    pub fn find(path: &Path) -> Result<Files> {
        let metadata = fs::metadata(path).map_err(|error| cannot_read(path, error))?;
        if metadata.is_dir() {
            return Self::in_folder(path);
        }
        refuse_special(path)?;
        let mut files = Files { main: vec![path.to_owned()], is_named: true, ..Files::default() };
        // It is the only file: if it cannot be opened, there is nothing to read.
        files.open_main(path).map_err(|error| cannot_read(path, error))?;
        if !is_sidecar(path) {
            let sidecar = path.with_extension("open.jsonl");
            // A link is ignored here too: it could lead anywhere.
            if fs::symlink_metadata(&sidecar).is_ok_and(|metadata| metadata.is_file()) {
                files.open.push(sidecar);
            }
        }
        Ok(files)
    }

    /// Opens a file of `main`.
    pub(super) fn open_main(&self, path: &Path) -> io::Result<File> {
        if self.is_named { open_named(path) } else { open_plain(path, false) }
    }

    fn in_folder(folder: &Path) -> Result<Files> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(folder).map_err(|error| cannot_read(folder, error))? {
            let path = entry.map_err(|error| cannot_read(folder, error))?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                names.insert(path);
            }
        }
        let mut files = Files::default();
        for path in names {
            match belongs(folder, &path) {
                Ok(true) if is_sidecar(&path) => files.open.push(path),
                Ok(true) => files.main.push(path),
                Ok(false) => {}
                Err(problem) => files.problems.push(problem),
            }
        }
        Ok(files)
    }
}

/// Returns whether `path` is a file of this folder that is to be read.
///
/// A link to a file of the same folder is not: that file is read under its own name. A link to
/// anywhere else is an error, because a store from somebody else must not make its reader open
/// other files.
fn belongs(folder: &Path, path: &Path) -> Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        // A sidecar is deleted when its run ends, perhaps just now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(left_out(path, error)),
    };
    if metadata.is_file() {
        return Ok(true);
    }
    if !metadata.is_symlink() {
        // Opening a pipe or a device may block for ever.
        let text = format!("{} is {}; it is left out", path.display(), kind_of(&metadata));
        return Err(Error::new(ErrorKind::Record, text));
    }
    let (target, folder) = match (path.canonicalize(), folder.canonicalize()) {
        (Ok(target), Ok(folder)) => (target, folder),
        (Err(error), _) | (_, Err(error)) => return Err(left_out(path, error)),
    };
    if target.parent() == Some(&*folder) && target.extension() == path.extension() {
        return Ok(false);
    }
    Err(Error::new(
        ErrorKind::Record,
        format!(
            "{} is a link out of its folder and is not followed; copy the file there, or read it by \
             its own path",
            path.display()
        ),
    ))
}

fn is_sidecar(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".open.jsonl"))
}

/// The error for a path that cannot be read.
pub(super) fn cannot_read(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot read {}", path.display())).with_source(error)
}

/// The error for one file of several that cannot be read. Only that file is skipped, as an invalid
/// line costs only one record.
pub(super) fn left_out(path: &Path, error: io::Error) -> Error {
    let text = format!("cannot read {}, which is left out", path.display());
    Error::new(ErrorKind::Record, text).with_source(error)
}
