//! Disk space of the root file system.

use super::facts::{ONLY_LIVE, Reasons, facts};
use super::{memory, system};
use crate::root::Root;

facts! {
    /// Space of a file system, in bytes.
    pub struct Disk {
        /// Size of the file system.
        pub total: u64,
        /// Space in use.
        pub used: u64,
        /// Space that this user can still use.
        pub free: u64,
        /// `used` in percent of `used` plus `free`.
        pub percent: f64,
    }
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> Disk {
    let asked = if root.is_live() { system::space_of_root() } else { Err(ONLY_LIVE.to_owned()) };
    let Some((total, unused, free)) = reasons.unless_ok("disk", asked) else {
        return Disk::default();
    };
    let used = total.saturating_sub(unused);
    let disk = Disk {
        total: Some(total),
        used: Some(used),
        free: Some(free),
        percent: memory::percent(used, used.saturating_add(free)),
    };
    disk.explain("disk", reasons, |_| "`/` has no room at all");
    disk
}
