//! Finds AMD's library in the places where the crate `amdsmi` looks, because the crate does not
//! report where it found it.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the path of the library that the crate will load.
pub(super) fn library() -> Result<PathBuf, String> {
    if let Ok(folder) = std::env::var("AMDSMI_LIB_DIR") {
        return last_in(Path::new(&folder), "libamd_smi.so")
            .ok_or_else(|| format!("libamd_smi.so is not in {folder} (AMDSMI_LIB_DIR)"));
    }
    let mut folders = beginning(Path::new("/opt"), "rocm");
    folders.reverse();
    folders.iter().find_map(|folder| last_in(&folder.join("lib"), "libamd_smi.so")).ok_or_else(|| {
        "libamd_smi.so is not in /opt/rocm*/lib; if it is elsewhere, set AMDSMI_LIB_DIR to its folder"
            .to_owned()
    })
}

fn last_in(folder: &Path, prefix: &str) -> Option<PathBuf> {
    beginning(folder, prefix).pop()
}

/// Returns the sorted entries whose names start with `prefix`.
fn beginning(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_meant = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let mut found: Vec<PathBuf> = entries.filter(is_meant).collect();
    found.sort();
    found
}
