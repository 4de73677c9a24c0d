//! Counts open file descriptors, and how many of them are files or connections.
//!
//! Each descriptor is queried directly: `fstat`, and for sockets the protocol and the address. A
//! query takes half a microsecond. Reading the link below `/proc/self/fd` would take four, and the
//! kernel's tables of all connections milliseconds.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

use super::Host;
use super::held::status;
use crate::types::Types;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) descriptors: u64,
    pub(super) files: u64,
    pub(super) connections: u64,
}

/// Numbers of file descriptors.
pub(super) type Numbers = Vec<i32>;

/// The number of unused numbers up to which probing is cheaper than listing the directory.
const MOST_GAPS: u64 = 16;

impl Host {
    /// Counts the open descriptors, except our own. `types` are the types that this capture has
    /// just read, so their files are known to be open.
    pub(super) fn count_descriptors(
        &self,
        types: Types,
        own: &mut Numbers,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Opened> {
        let size = self.descriptors.status()?.size;
        self.count_in_folder_of(size, types, own, buffer)
    }

    fn count_in_folder_of(
        &self,
        size: u64,
        types: Types,
        own: &mut Numbers,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Opened> {
        // Since Linux 6.2 the size of the directory is the number of descriptors. Before, it is 0.
        let all = Some(size).filter(|size| *size > 0);
        self.put_own_numbers(types, own);
        // If another thread holds the lock, this one does without the earlier numbers.
        let mut seen = self.seen.try_lock();
        let (seen, unseen) = (seen.as_deref_mut(), &mut Numbers::new());
        let seen = seen.unwrap_or(unseen);
        let counted = all.and_then(|all| {
            let was_dense = is_dense(seen, own.len());
            count_again(all, own, seen).or_else(|| {
                seen.clear();
                if was_dense { count_densely(all, own, seen) } else { None }
            })
        });
        match counted {
            Some(counted) => Ok(counted),
            None => self.count_listed(all, own, seen, buffer),
        }
    }

    /// Collects the descriptors of our own files.
    fn put_own_numbers(&self, types: Types, own: &mut Numbers) {
        own.clear();
        for (of, held) in self.held() {
            if let Some(number) = held.number()
                && (types.contains(of) || held.is_ours(number))
            {
                own.push(number);
            }
        }
        if let Some(container) = self.container() {
            container.each_descriptor(|number| own.push(number));
        }
    }

    fn count_listed(
        &self,
        all: Option<u64>,
        own: &[i32],
        seen: &mut Numbers,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Opened> {
        // All threads share the position in the directory.
        let _listing = self.lock_listing();
        let folder = self.descriptors.open()?;
        // SAFETY: a plain call on our descriptor.
        if unsafe { libc::lseek(folder, 0, libc::SEEK_SET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut counted = Opened::default();
        seen.clear();
        let mut listed = 0;
        loop {
            // SAFETY: the buffer is writable for its whole length.
            let read = unsafe {
                libc::syscall(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), buffer.len())
            };
            let Ok(length) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
            for number in numbers(&buffer[..length]) {
                listed += 1;
                if !own.contains(&number) && counted.add(number) {
                    seen.push(number);
                }
            }
            // If the total is known, the call that returns no more entries is not needed.
            if length == 0 || all == Some(listed) {
                return Ok(counted);
            }
        }
    }
}

impl Opened {
    /// Counts a descriptor. Returns `false` if the number is unused.
    #[inline]
    fn add(&mut self, number: i32) -> bool {
        let Ok(status) = status(number) else { return false };
        self.descriptors += 1;
        match status.mode & libc::S_IFMT {
            libc::S_IFREG => self.files += 1,
            libc::S_IFSOCK => self.connections += u64::from(is_connection(number)),
            _ => {}
        }
        true
    }
}

/// Counts again the descriptors that the last count found (`seen`). `None` unless these and ours
/// are all that are open now.
fn count_again(all: u64, own: &[i32], seen: &[i32]) -> Option<Opened> {
    if all != (seen.len() + own.len()) as u64 {
        return None;
    }
    let mut counted = Opened::default();
    seen.iter().all(|number| counted.add(*number)).then_some(counted)
}

/// Probes the numbers from 0 on until all descriptors are found. `None` if there are too many gaps.
fn count_densely(all: u64, own: &[i32], seen: &mut Numbers) -> Option<Opened> {
    let mut counted = Opened::default();
    let (mut found, mut gaps) = (0, 0);
    for number in 0.. {
        if found == all {
            break;
        }
        if own.contains(&number) {
            found += 1;
        } else if counted.add(number) {
            found += 1;
            seen.push(number);
        } else {
            gaps += 1;
            if gaps > MOST_GAPS {
                return None;
            }
        }
    }
    Some(counted)
}

/// Whether the descriptors of the last count (`seen`) and `own` descriptors of ours leave few gaps.
fn is_dense(seen: &[i32], own: usize) -> bool {
    seen.last().is_none_or(|last| *last as u64 <= (seen.len() + own) as u64 + MOST_GAPS)
}

/// Parses a chunk of `getdents64` entries and returns the names that are numbers. An entry has an
/// inode, an offset, a length, a type and a name.
fn numbers(entries: &[u8]) -> impl Iterator<Item = i32> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        loop {
            let length = usize::from(u16::from_ne_bytes(*rest.get(16..)?.first_chunk()?));
            let name = rest.get(19..length)?;
            rest = &rest[length..];
            let name = name.split(|byte| *byte == 0).next()?;
            if let Some(number) = str::from_utf8(name).ok().and_then(|name| name.parse().ok()) {
                return Some(number);
            }
        }
    })
}

/// Whether a socket is one that `/proc/net/{tcp,udp}{,6}` lists: TCP that is connected or
/// listening, or UDP with a port.
fn is_connection(socket: i32) -> bool {
    // Other address families use the same protocol numbers; `has_port` excludes them.
    match option::<libc::c_int>(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL) {
        Some(libc::IPPROTO_UDP) => has_port(socket, libc::getsockname),
        // A socket with a peer is not closed. Most have one, so this is checked first.
        Some(libc::IPPROTO_TCP) => {
            const CLOSED: u8 = 7;
            has_port(socket, libc::getpeername)
                || has_port(socket, libc::getsockname)
                    && option::<u8>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
                        .is_some_and(|state| state != CLOSED)
        }
        _ => false,
    }
}

/// `getsockname` or `getpeername`.
type AddressOf =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

/// Whether the address is an internet address with a port.
fn has_port(socket: i32, address_of: AddressOf) -> bool {
    let mut place = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: there is room for the given length.
    if unsafe { address_of(socket, place.as_mut_ptr().cast(), &raw mut length) } != 0 {
        return false;
    }
    // SAFETY: it was zeroed, and written in part.
    let address = unsafe { place.assume_init() };
    // The port is at the same offset in both families.
    // SAFETY: the storage is larger than either address and aligned for both.
    let port = unsafe { (*(&raw const address).cast::<libc::sockaddr_in>()).sin_port };
    matches!(libc::c_int::from(address.ss_family), libc::AF_INET | libc::AF_INET6) && port != 0
}

fn option<T: Default>(socket: i32, level: libc::c_int, name: libc::c_int) -> Option<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: there is room for the given length, and the types used are plain numbers.
    let result =
        unsafe { libc::getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut length) };
    (result == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn they_are_counted_where_the_kernel_does_not_tell_their_number() {
        let program = std::env::current_exe().unwrap();
        let files = [(); 3].map(|()| File::open(&program).unwrap());
        let (host, mut buffer) = (Host::new(Path::new("/")), vec![0; 8192]);
        host.descriptors.open().unwrap();
        for _ in 0..2 {
            let own = &mut Numbers::new();
            let counted = host.count_in_folder_of(0, Types::default(), own, &mut buffer).unwrap();
            assert!(counted.files >= 3 && counted.descriptors >= counted.files, "{counted:?}");
            let seen = host.seen.lock().unwrap();
            assert!(files.iter().all(|file| seen.contains(&file.as_raw_fd())), "{seen:?}");
            assert!(!seen.contains(&host.descriptors.number().unwrap()), "{seen:?}");
        }
    }

    #[test]
    fn a_folders_list_is_taken_apart() {
        let entry = |name: &str| {
            let mut entry = vec![0; 18];
            entry.push(4);
            entry.extend_from_slice(name.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            let length = entry.len() as u16;
            entry[16..18].copy_from_slice(&length.to_ne_bytes());
            entry
        };
        let list = [entry("."), entry(".."), entry("0"), entry("12345"), entry("7")].concat();
        assert_eq!(numbers(&list).collect::<Vec<_>>(), [0, 12345, 7]);
        for cut in 0..list.len() {
            _ = numbers(&list[..cut]).count();
        }
    }
}
