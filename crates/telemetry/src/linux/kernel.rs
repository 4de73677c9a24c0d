//! The Linux backend as a source of captures.

use std::time::Duration;

use super::{Host, of_this_process};
use crate::capture::Options;
use crate::gpu::Gpus;
use crate::source::Source;
use crate::types::Types;

/// Reads the files of the calling process, or those of a test fixture.
#[derive(Debug)]
pub(crate) struct Kernel {
    tree: Option<Host>,
}

impl Kernel {
    pub(crate) fn of_process() -> Self {
        Self { tree: None }
    }

    /// Creates a source that reads below `root` instead of `/`.
    #[cfg(test)]
    pub(crate) fn below(root: &std::path::Path) -> Self {
        Self { tree: Some(Host::new(root)) }
    }

    #[inline]
    fn host(&self) -> &Host {
        match &self.tree {
            Some(host) => host,
            None => of_this_process(),
        }
    }
}

impl Source for Kernel {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn capture_into(&self, types: Types, options: Options, gpus: &Gpus, out: &mut Vec<u8>) {
        self.host().capture_into(types, options, gpus, out);
    }

    fn take_base_line(&self, types: Types) {
        self.host().take_base_line(types);
    }

    fn source_of(&self, name: &str) -> (String, Option<Duration>) {
        self.host().source_of(name)
    }
}
