//! The operating system, as `uname` describes it.

use super::cpu::Cpu;
use super::facts::{Reasons, facts};
use super::system;
use crate::root::Root;
use runlore_core::host;

facts! {
    /// The operating system, as `uname` describes it.
    pub struct Platform {
        /// `Linux`, `Darwin`, …
        pub system: String,
        /// The host name in the network.
        pub node: String,
        /// The kernel's release.
        pub release: String,
        /// The kernel's version: when and how it was built.
        pub version: String,
        /// The architecture.
        pub machine: String,
        /// The product name of the CPU.
        pub processor: String,
    }
}

pub(super) fn read(root: &Root, cpu: &Cpu, reasons: &mut Reasons) -> Platform {
    let names = system::uname(root);
    let platform = Platform {
        system: names.system,
        node: names.node,
        release: names.release,
        version: names.version,
        machine: names.machine,
        processor: cpu.brand_raw.clone(),
    };
    platform.explain("platform", reasons, |_| "the system does not tell it");
    platform
}

pub(super) fn host_name(root: &Root, reasons: &mut Reasons) -> Option<String> {
    let name = if root.is_live() { Some(host::name()) } else { system::uname(root).node };
    if name.is_none() {
        reasons.note("hostname", "the system does not tell it");
    }
    name
}
