//! Before a store elsewhere is queried, writes the records that wait for it here.

use super::{folder_of, replay};
use crate::pipeline::recover;
use runlore_core::Result;
use runlore_core::config::settings;
use runlore_core::notice::notice;
use runlore_core::store::{BeforeAsking, RunInfo, StoreChoice};

inventory::submit! {
    BeforeAsking(|uri| {
        if let Err(error) = replay_left_for(uri) {
            notice(&format!("{error}; records that wait for it are not among those that are read"));
        }
    })
}

/// Writes the records that earlier processes left for a store.
fn replay_left_for(uri: &str) -> Result<()> {
    let info = RunInfo::new(String::new(), String::new(), std::process::id(), settings());
    let store = StoreChoice::from(uri).open(&info)?;
    if let Some(folder) = store.folder() {
        // Recovery moves the records of killed processes to the spool.
        recover::recover_quietly(folder)?;
    }
    match folder_of(&*store, &settings().recorder) {
        Some(folder) => replay(folder, uri, |_| ()).map(drop),
        None => Ok(()),
    }
}
