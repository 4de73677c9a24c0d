//! Where captures come from: the kernel's files, the crate `sysinfo`, or nowhere.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::capture::{Options, part_of};
use super::gpu::Gpus;
use super::parts::Telemetry;
use super::types::Types;
use super::{Named, snapshot};
use runlore_core::settings::Backend;

/// What captures are taken from. Graphics processors are read beside it, and what they say is put in.
pub(super) trait Source: Debug + Send + Sync {
    /// As the settings call it.
    fn name(&self) -> &'static str;

    /// Appends a snapshot.
    fn capture_into(&self, types: Types, options: Options, gpus: &Gpus, out: &mut Vec<u8>);

    /// Takes what percentages will be measured against.
    fn take_base_line(&self, types: Types);

    /// How long it takes after the first capture until percentages can be told.
    fn watching_time(&self) -> Duration {
        // A tick of the kernel's clock, and a little more.
        Duration::from_millis(11)
    }

    /// Where a group of fields comes from, by its name on Linux, and what one reading of that costs.
    fn source_of(&self, name: &str) -> (String, Option<Duration>);
}

/// The source that the settings ask for.
pub(super) fn choose(backend: Backend) -> Arc<dyn Source> {
    match backend {
        Backend::Auto if cfg!(target_os = "linux") => linux(),
        Backend::Linux => linux(),
        Backend::Auto | Backend::Portable => portable(),
    }
}

#[cfg(target_os = "linux")]
fn linux() -> Arc<dyn Source> {
    Arc::new(super::linux::Kernel::of_process())
}

#[cfg(not(target_os = "linux"))]
fn linux() -> Arc<dyn Source> {
    Arc::new(Nothing(
        "telemetry_capture.backend is `linux`, but this is another system: set it to `auto`",
    ))
}

#[cfg(any(not(target_os = "linux"), feature = "portable"))]
fn portable() -> Arc<dyn Source> {
    Arc::new(super::portable::Host::new())
}

#[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
fn portable() -> Arc<dyn Source> {
    Arc::new(Nothing(
        "telemetry_capture.backend is `portable`: build with the feature `portable`, or set it to `auto`",
    ))
}

/// There is none of the kind that was asked for, for this reason.
#[cfg_attr(
    all(target_os = "linux", feature = "portable"),
    allow(dead_code, reason = "here there are both")
)]
#[derive(Debug)]
struct Nothing(&'static str);

impl Source for Nothing {
    fn name(&self) -> &'static str {
        "none"
    }

    fn capture_into(&self, types: Types, _: Options, _: &Gpus, out: &mut Vec<u8>) {
        let mut unavailable = Named::default();
        for part in types.iter().map(part_of) {
            if unavailable.get(part).is_none() {
                unavailable.push(part, self.0.to_owned());
            }
        }
        snapshot::put(types, &Telemetry { unavailable, ..Telemetry::default() }, out);
    }

    fn take_base_line(&self, _: Types) {}

    fn source_of(&self, _: &str) -> (String, Option<Duration>) {
        (self.name().to_owned(), None)
    }
}
