//! Disk space of the root file system.

use std::path::Path;

use super::facts::{ONLY_LIVE, Reasons, facts};
use crate::parts::DiskUsage;
use crate::root::Root;
use crate::system_calls;

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
    let asked = if root.is_live() {
        system_calls::disk_usage(Path::new("/")).map_err(|error| format!("statvfs: {error}"))
    } else {
        Err(ONLY_LIVE.to_owned())
    };
    let Some(DiskUsage { total, used, free, percent }) = reasons.unless_ok("disk", asked) else {
        return Disk::default();
    };
    let disk = Disk {
        total: Some(total),
        used: Some(used),
        free: Some(free),
        percent: (total > 0).then_some(percent),
    };
    disk.explain("disk", reasons, |_| "`/` has no space at all");
    disk
}
