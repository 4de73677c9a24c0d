//! Queues of dead processes, for programs that cannot recover them.
//!
//! Recovery belongs to the pipeline of the crate `runlore`. A program that reads records with
//! `runlore-query` alone has no pipeline. It prints a notice, because the records in such queues
//! are missing from its answers.

use std::fs;
use std::path::Path;

use super::lock::try_lock;
use super::plain::open_plain;
use crate::notice::notice;

/// The folder inside a folder of records that holds the queues of running and dead processes.
pub const SESSIONS: &str = ".rings";

/// The file in a session that its process locks.
pub const LOCK: &str = "lock";

/// Prints a notice if a dead process left queues in this folder.
pub(super) fn tell(folder: &Path) {
    if has_dead_session(folder) {
        let folder = folder.display();
        notice(&format!(
            "{folder}: a killed process left records in queues that this program cannot recover; \
             run `runlore recover {folder}` to add them"
        ));
    }
}

fn has_dead_session(folder: &Path) -> bool {
    let Ok(sessions) = fs::read_dir(folder.join(SESSIONS)) else { return false };
    sessions.flatten().any(|session| {
        let lock = open_plain(&session.path().join(LOCK), true);
        lock.is_ok_and(|lock| try_lock(&lock).unwrap_or(false))
    })
}
