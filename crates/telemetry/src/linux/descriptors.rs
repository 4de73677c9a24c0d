//! Counts open file descriptors, and how many of them are files or connections.
//!
//! Each descriptor is queried directly: `fstat`, and for sockets the protocol and the address. A
//! query takes half a microsecond. Reading the link below `/proc/self/fd` would take four, and the
//! kernel's tables of all connections milliseconds.

use std::{fs, io};

use runlore_core::file_system;

use super::{Host, ProcFile};
use crate::system_calls::is_connection;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DescriptorCounts {
    pub(super) descriptors: u64,
    pub(super) files: u64,
    pub(super) connections: u64,
}

/// Numbers of file descriptors.
pub(super) type Numbers = Vec<i32>;

impl Host {
    /// Counts the open descriptors, except our own. `own` is a buffer.
    pub(super) fn count_descriptors(&self, own: &mut Numbers) -> io::Result<DescriptorCounts> {
        let all = self.descriptors.status()?.st_size;
        self.put_own_numbers(own);
        // If another thread holds the lock, this one does without the earlier numbers.
        let mut seen = self.seen.try_lock();
        let (seen, unseen) = (seen.as_deref_mut(), &mut Numbers::new());
        let seen = seen.unwrap_or(unseen);
        // Since Linux 6.2 the size of the directory is the number of descriptors. Before, it is 0.
        match count_again(all, own, seen) {
            Some(counted) => Ok(counted),
            None => self.count_listed(own, seen),
        }
    }

    /// Collects the descriptors of our own files.
    fn put_own_numbers(&self, own: &mut Numbers) {
        own.clear();
        own.extend(self.files().filter_map(ProcFile::number));
        if let Some(container) = self.container() {
            container.each_descriptor(|number| own.push(number));
        }
    }

    fn count_listed(&self, own: &[i32], seen: &mut Numbers) -> io::Result<DescriptorCounts> {
        seen.clear();
        for entry in fs::read_dir(self.descriptors.path())? {
            let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            seen.extend(number.filter(|number| !own.contains(number)));
        }
        let mut counted = DescriptorCounts::default();
        // The descriptor of the listing itself is closed by now.
        seen.retain(|number| counted.add(*number));
        Ok(counted)
    }
}

impl DescriptorCounts {
    /// Counts a descriptor. Returns `false` if the number is unused.
    #[inline]
    fn add(&mut self, number: i32) -> bool {
        let Ok(status) = file_system::status(number) else { return false };
        self.descriptors += 1;
        match status.st_mode & libc::S_IFMT {
            libc::S_IFREG => self.files += 1,
            libc::S_IFSOCK => self.connections += u64::from(is_connection(number)),
            _ => {}
        }
        true
    }
}

/// Counts again the descriptors that the last count found (`seen`). `None` unless these and ours
/// are `all` that are open now.
fn count_again(all: libc::off_t, own: &[i32], seen: &[i32]) -> Option<DescriptorCounts> {
    if usize::try_from(all) != Ok(seen.len() + own.len()) {
        return None;
    }
    let mut counted = DescriptorCounts::default();
    seen.iter().all(|number| counted.add(*number)).then_some(counted)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn they_are_counted_when_the_kernel_does_not_report_their_number() {
        let program = std::env::current_exe().unwrap();
        let files = [(); 3].map(|()| File::open(&program).unwrap());
        let host = Host::new(Path::new("/"));
        host.descriptors.open().unwrap();
        for _ in 0..2 {
            let (own, seen) = (&mut Numbers::new(), &mut Numbers::new());
            host.put_own_numbers(own);
            let counted = host.count_listed(own, seen).unwrap();
            assert!(counted.files >= 3 && counted.descriptors >= counted.files, "{counted:?}");
            assert!(files.iter().all(|file| seen.contains(&file.as_raw_fd())), "{seen:?}");
            assert!(!seen.contains(&host.descriptors.number().unwrap()), "{seen:?}");
        }
    }
}
