//! Deletes old files, by their number, size and age.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::in_use;
use crate::file_system;
use crate::settings::JsonlSettings;

/// If locks cannot tell whether a file is in use, it counts as in use for this long after the last
/// write.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// Deletes files that exceed the limits of the settings and are not in use. Called before a new
/// file is created.
pub(super) fn retain(folder: &Path, settings: &JsonlSettings) {
    let (keep_files, keep_days) = (settings.keep_files, settings.keep_days);
    if keep_files.is_none() && keep_days.is_none() && settings.keep_bytes.is_none() {
        return;
    }
    let locks_tell = file_system::is_local(folder);
    let now = SystemTime::now();
    let mut bytes = 0;
    for (index, file) in newest_first(folder).into_iter().enumerate() {
        let age = now.duration_since(file.written).unwrap_or_default();
        bytes += file.bytes;
        // The file that is about to be created counts too.
        let too_many = keep_files.is_some_and(|keep| index + 1 >= keep as usize);
        let too_old =
            keep_days.is_some_and(|days| age > Duration::from_secs(u64::from(days) * 24 * 60 * 60));
        let too_much = settings.keep_bytes.is_some_and(|keep| bytes > keep.get());
        if (too_many || too_old || too_much) && in_use::delete(&file.path, age > QUIET, locks_tell)
        {
            // A dead process may have left its sidecar.
            in_use::delete(&file.path.with_extension("open.jsonl"), age > QUIET, locks_tell);
        }
    }
}

struct OwnFile {
    path: PathBuf,
    written: SystemTime,
    bytes: u64,
}

/// Returns the files that this library wrote, the newest first. Other files must not be deleted.
fn newest_first(folder: &Path) -> Vec<OwnFile> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let own = entries.flatten().filter(|entry| is_own(&entry.file_name().to_string_lossy()));
    let mut files: Vec<_> = own
        .filter_map(|entry| {
            let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let written = facts.modified().ok()?;
            Some(OwnFile { path: entry.path(), written, bytes: facts.len() })
        })
        .collect();
    files.sort_unstable_by(|a, b| (b.written, &b.path).cmp(&(a.written, &a.path)));
    files
}

/// Returns whether a name is that of a run's file: `<name>_<workflow>_<process>`.
fn is_own(name: &str) -> bool {
    let stem = name.strip_suffix(".jsonl").unwrap_or_default();
    let mut parts = stem.rsplitn(3, '_');
    let pid = parts.next().unwrap_or_default();
    let is_pid =
        pid.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    is_pid && parts.next().is_some() && parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Bytes, Settings};
    use std::collections::BTreeSet;

    fn names(folder: &Path) -> BTreeSet<String> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn old_files_of_ours_go_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, days: u64| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400 + 60)).unwrap();
        };
        for (name, days) in [
            ("a_w1_1.jsonl", 9),
            ("b_w2_2-2.jsonl", 5),
            ("c_w3_3.jsonl", 1),
            ("d_w4_4.jsonl", 0),
            ("notes.jsonl", 99),
            ("my_own_data.jsonl", 99),
            ("a_w1_1.txt", 99),
        ] {
            make(name, days);
        }
        let mut settings = Settings::default().databases.jsonl;
        retain(folder.path(), &settings);
        assert_eq!(names(folder.path()).len(), 7, "nothing is deleted unless it is asked for");
        settings.keep_days = Some(7);
        retain(folder.path(), &settings);
        assert!(!names(folder.path()).contains("a_w1_1.jsonl"));
        assert_eq!(names(folder.path()).len(), 6);
        settings.keep_files = Some(3);
        retain(folder.path(), &settings);
        let left =
            ["c_w3_3.jsonl", "d_w4_4.jsonl", "notes.jsonl", "my_own_data.jsonl", "a_w1_1.txt"];
        assert_eq!(names(folder.path()), left.map(str::to_owned).into());
    }

    #[test]
    fn the_oldest_go_while_all_together_are_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, hours: u64, bytes: u64| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        };
        make("a_w1_1.jsonl", 4, 1);
        make("a_w1_1.open.jsonl", 4, 1);
        make("b_w2_2.jsonl", 3, 5_000);
        make("c_w3_3.jsonl", 2, 4_000);
        make("d_w4_4.jsonl", 1, 4_000);
        let mut settings = Settings::default().databases.jsonl;
        settings.keep_bytes = Some(Bytes::new(10_000));
        retain(folder.path(), &settings);
        let left = ["c_w3_3.jsonl", "d_w4_4.jsonl"];
        assert_eq!(names(folder.path()), left.map(str::to_owned).into());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_in_use_stays_however_old_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a_w1_1.jsonl");
        let file = fs::File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(99 * 86_400)).unwrap();
        assert!(in_use::hold(&file));
        let mut settings = Settings::default().databases.jsonl;
        settings.keep_days = Some(1);
        retain(folder.path(), &settings);
        assert!(path.exists());
        drop(file);
        retain(folder.path(), &settings);
        assert!(!path.exists());
    }
}
