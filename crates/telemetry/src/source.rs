//! Backends that take captures: the kernel's files, the crate `sysinfo`, or none.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::capture::{Options, part_of};
use super::gpu::Gpus;
use super::parts::Telemetry;
use super::types::Types;
use super::{Named, snapshot};
use runlore_core::settings::Backend;

/// A backend that takes captures. GPUs are read separately, and the backend adds their values to
/// the snapshot.
pub(super) trait Source: Debug + Send + Sync {
    /// Returns the name of the backend in the settings.
    fn name(&self) -> &'static str;

    /// Appends a snapshot.
    fn capture_into(&self, types: Types, options: Options, gpus: &Gpus, out: &mut Vec<u8>);

    /// Takes the first sample for percentages.
    fn take_base_line(&self, types: Types);

    /// Returns the time after the first capture from which on percentages are available.
    fn watching_time(&self) -> Duration {
        // One tick of the kernel's clock (10 ms) plus a margin.
        Duration::from_millis(11)
    }

    /// Returns the actual source of a group of fields, and the cost of reading it once. `name` is
    /// the source's name on Linux.
    fn source_of(&self, name: &str) -> (String, Option<Duration>);
}

/// Returns the backend that the settings select.
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

/// A backend for when the selected one is not available, with the reason.
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
