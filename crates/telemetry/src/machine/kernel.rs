//! The kernel and its boot time.

use super::facts::{Reasons, facts};
use super::system;
use crate::root::Root;

facts! {
    /// The kernel.
    pub struct Kernel {
        /// Its release.
        pub release: String,
        /// Seconds since boot.
        pub uptime: f64,
        /// Boot time, in seconds since 1970.
        pub booted_at: f64,
    }
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> Kernel {
    let uptime = root.read("/proc/uptime").ok();
    let uptime = uptime.and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    let kernel = Kernel {
        release: system::uname(root).release,
        uptime: uptime.filter(|seconds: &f64| seconds.is_finite()),
        booted_at: booted_at(root),
    };
    kernel.explain("kernel", reasons, |_| "/proc/uptime or /proc/stat does not tell it");
    kernel
}

/// Reads the boot time, in seconds since 1970.
pub(super) fn booted_at(root: &Root) -> Option<f64> {
    let text = root.read("/proc/stat").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse::<u32>()
        .ok()
        .map(f64::from)
}
