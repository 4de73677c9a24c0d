//! The label by which a spool names its store, and the comparison of labels.

use std::path::{Path, PathBuf};

use runlore_core::record::redact;

/// Returns the label of a store: its URI without secrets. Spools are ordinary files, and must not
/// contain a password.
pub(in crate::pipeline) fn label(uri: &str) -> String {
    redact::scrub(uri)
}

/// Returns whether two labels mean the same store, however each was written.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other
        || database(one).is_some_and(|one| database(other) == Some(one))
        || path(one).is_some_and(|one| path(other) == Some(one))
}

/// Returns the hosts and the database of a MongoDB URI. The user and the options do not matter.
fn database(label: &str) -> Option<&str> {
    let rest = ["mongodb://", "mongodb+srv://"].iter().find_map(|it| label.strip_prefix(it))?;
    let place = rest.split('?').next().unwrap_or(rest);
    Some(place.rsplit_once('@').map_or(place, |(_, place)| place).trim_end_matches('/'))
}

/// Returns whether the label names an SQLite file, and the resolved path of the file or folder.
fn path(label: &str) -> Option<(bool, PathBuf)> {
    match label.strip_prefix("sqlite://") {
        Some(path) => Some((true, resolved(Path::new(path)))),
        None if label.contains("://") => None,
        None => Some((false, resolved(Path::new(label)))),
    }
}

/// Resolves the symbolic links in a path, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let real = |above: &Path| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_the_same_for_whoever_asks() {
        let of = |uri: &str| label(uri);
        let plain = of("mongodb://db.lab:27017/runlore");
        assert!(is_same(&plain, &of("mongodb://ann:hunter2@db.lab:27017/runlore?journal=true")));
        assert!(!is_same(&plain, &of("mongodb://db.lab:27017/other")));
        assert!(!is_same(&plain, &of("mongodb://other.lab:27017/runlore")));
    }

    #[cfg(unix)]
    #[test]
    fn a_path_is_the_same_through_a_link_and_a_database_is_no_folder() {
        let root = tempfile::tempdir().unwrap();
        let (folder, link) = (root.path().join("folder"), root.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let at = |folder: &Path, name: &str| folder.join(name).to_str().unwrap().to_owned();
        assert!(is_same(&at(&folder, "not-yet/there"), &at(&link, "not-yet/there")));
        assert!(!is_same(&at(&folder, "one"), &at(&folder, "other")));
        let sqlite = |folder: &Path| format!("sqlite://{}", at(folder, "runs.db"));
        assert!(is_same(&sqlite(&folder), &sqlite(&link)));
        assert!(!is_same(&sqlite(&folder), &at(&folder, "runs.db")));
    }
}
