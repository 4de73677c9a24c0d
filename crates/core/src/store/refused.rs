//! Records that a store does not want, whatever it is asked: who counts them, and tells people.

use super::Store;
use crate::record::Status;

/// A record that a store would not have among the others, whatever it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The store, for people.
    pub store: String,
    /// What it says.
    pub why: String,
    /// Where the record is kept instead; none where it is lost.
    pub kept: Option<String>,
    /// How the task stands in it; none for a record that is no task.
    pub task: Option<Status>,
}

/// What is to be done when a store refuses a record for good.
#[derive(Debug)]
pub struct WhenRefused(pub fn(&Refused));

inventory::collect!(WhenRefused);

/// What a store refused since it was last asked; whoever counts such records hears of it.
pub fn take_refused(store: &mut dyn Store) -> Vec<Refused> {
    let refused = store.refused();
    for one in &refused {
        for hook in inventory::iter::<WhenRefused>() {
            (hook.0)(one);
        }
    }
    refused
}
