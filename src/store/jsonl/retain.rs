//! Old files: how many are kept, and for how long.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::settings::JsonlSettings;

/// A file written to so recently may belong to a process that is alive.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// Deletes files of past runs that the settings do not want kept: those that nobody has written to for a while.
pub(super) fn retain(folder: &Path, settings: &JsonlSettings) {
    if settings.keep_files.is_none() && settings.keep_days.is_none() {
        return;
    }
    let now = SystemTime::now();
    let mut files = past_runs(folder);
    files.sort_unstable_by(|a, b| b.cmp(a));
    for (index, (written, path)) in files.into_iter().enumerate() {
        let age = now.duration_since(written).unwrap_or_default();
        // The file that is about to be made counts too.
        let too_many = settings.keep_files.is_some_and(|keep| index + 1 >= keep as usize);
        let too_old = settings
            .keep_days
            .is_some_and(|days| age > Duration::from_secs(u64::from(days) * 24 * 60 * 60));
        if (too_many || too_old) && age > QUIET {
            // Another process may have been faster.
            _ = fs::remove_file(path);
        }
    }
}

/// The files that this library writes, with the time of their last change. Others are not ours to delete.
fn past_runs(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let ours = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let stem = name.strip_suffix(".jsonl").unwrap_or_default();
        let mut parts = stem.rsplitn(3, '_');
        let pid = parts.next().unwrap_or_default();
        let is_pid =
            pid.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        is_pid && parts.next().is_some() && parts.next().is_some()
    });
    ours.filter_map(|entry| {
        let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((facts.modified().ok()?, entry.path()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
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
        settings.keep_files = Some(2);
        retain(folder.path(), &settings);
        let left = ["d_w4_4.jsonl", "notes.jsonl", "my_own_data.jsonl", "a_w1_1.txt"];
        // The newest was written a minute ago: its process may be alive.
        assert_eq!(names(folder.path()), left.map(str::to_owned).into());
    }
}
