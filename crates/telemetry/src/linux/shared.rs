//! The one [`Host`] of the process, replaced after a fork.

use std::path::Path;
use std::sync::OnceLock;

use super::Host;
use crate::container::ContainerReader;
use runlore_core::fork::{PerProcess, get_or_make};

static HOST: PerProcess<Host> = PerProcess::new();

/// The reader of the container, if the process is in one.
static CONTAINER: OnceLock<Option<ContainerReader>> = OnceLock::new();

/// Returns the reader of the container that the process is in.
pub(super) fn container() -> Option<&'static ContainerReader> {
    get_or_make(&CONTAINER, || ContainerReader::open().ok()).as_ref()
}

/// Returns the host of the calling process.
#[inline]
pub(crate) fn of_this_process() -> &'static Host {
    HOST.get_or_make(|of_parent| {
        if let Some(of_parent) = of_parent {
            // Its files are open in the child, too.
            of_parent.close_all();
            if let Some(Some(container)) = CONTAINER.get() {
                container.forget();
            }
        }
        Host::new(Path::new("/"))
    })
}
