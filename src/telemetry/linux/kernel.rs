//! The kernel's files as a source of captures.

use std::time::Duration;

use super::{Host, of_this_process};
use crate::telemetry::capture::Options;
use crate::telemetry::gpu::Gpus;
use crate::telemetry::source::Source;
use crate::telemetry::types::Types;

/// The files of whichever process asks, or of a tree that somebody made.
#[derive(Debug)]
pub(in crate::telemetry) struct Kernel {
    tree: Option<Host>,
}

impl Kernel {
    pub(in crate::telemetry) fn of_process() -> Self {
        Self { tree: None }
    }

    /// Reads below this folder instead of `/`.
    #[cfg(test)]
    pub(in crate::telemetry) fn below(root: &std::path::Path) -> Self {
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
