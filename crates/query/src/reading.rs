//! The registry of stores that can be read, and how a path or URI is resolved to one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use runlore_core::store::{lacks_slashes, needs_feature, slashes_missing};

use crate::jsonl::JsonlSource;
use crate::query::Source;
use runlore_core::{Error, ErrorKind, Result};

/// A kind of store that can be read, identified by the scheme of its URIs.
#[derive(Debug)]
pub struct SourceEntry {
    scheme: &'static str,
    open: fn(&str) -> Result<Box<dyn Source>>,
}

impl SourceEntry {
    /// Registers `open` for `scheme`.
    ///
    /// `open` receives the URI as the user wrote it. It must not create anything, and returns an
    /// error if the store does not exist.
    pub const fn new(scheme: &'static str, open: fn(&str) -> Result<Box<dyn Source>>) -> Self {
        Self { scheme, open }
    }
}

inventory::collect!(SourceEntry);

inventory::submit! {
    SourceEntry::new("jsonl", |uri| {
        Ok(Box::new(JsonlSource::open(Path::new(uri.strip_prefix("jsonl://").unwrap_or(uri)))?))
    })
}

/// The first bytes of every SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Opens a store for reading. `place` is a URI, a folder or file of JSON lines, or an SQLite
/// database.
pub(crate) fn source(place: &OsStr) -> Result<Box<dyn Source>> {
    match place.to_str() {
        Some(uri) if uri.contains("://") => by_scheme(uri),
        Some(uri) if lacks_slashes(uri).is_some() && !Path::new(uri).exists() => {
            Err(slashes_missing(uri))
        }
        Some(path) if is_database(Path::new(path)) => by_scheme(&format!("sqlite://{path}")),
        _ => Ok(Box::new(JsonlSource::open(Path::new(place))?)),
    }
}

fn by_scheme(uri: &str) -> Result<Box<dyn Source>> {
    let (scheme, _) = uri.split_once("://").unwrap_or((uri, ""));
    match inventory::iter::<SourceEntry>().find(|entry| entry.scheme == scheme) {
        Some(entry) => (entry.open)(uri),
        None => Err(unknown_scheme(scheme)),
    }
}

fn unknown_scheme(scheme: &str) -> Error {
    if let Some(error) = needs_feature(scheme) {
        return error;
    }
    let mut known: Vec<_> = inventory::iter::<SourceEntry>().map(|entry| entry.scheme).collect();
    known.sort_unstable();
    let known = known.join("://, ");
    let text = format!(
        "no store for `{scheme}://` that could be read: give a folder, a file, or a URI that begins with one of {known}://"
    );
    Error::new(ErrorKind::Store, text)
}

fn is_database(path: &Path) -> bool {
    let mut start = [0; SQLITE.len()];
    // Do not open a pipe or a device: it is no database, and opening it may block forever.
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == SQLITE
}
