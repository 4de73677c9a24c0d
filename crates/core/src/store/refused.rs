//! Records that a store refuses for good, and the hooks that count and report them.

use super::Store;
use crate::record::Status;

/// A record that a store refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The store's name, for messages.
    pub store: String,
    /// The store's reason.
    pub why: String,
    /// Where the record is kept instead. `None` if it is lost.
    pub kept: Option<String>,
    /// The status of the task in the record. `None` if the record is not a task.
    pub task: Option<Status>,
}

/// A hook that is called when a store refuses a record for good.
#[derive(Debug)]
pub struct WhenRefused(pub fn(&Refused));

inventory::collect!(WhenRefused);

/// Returns the records that a store refused since the last call, and passes them to all
/// [`WhenRefused`] hooks.
pub fn take_refused(store: &mut dyn Store) -> Vec<Refused> {
    let refused = store.refused();
    for one in &refused {
        for hook in inventory::iter::<WhenRefused>() {
            (hook.0)(one);
        }
    }
    refused
}
