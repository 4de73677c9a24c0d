//! The addresses of the network interfaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{ONLY_LIVE, Reasons};
use crate::root::Root;

/// An address of a network interface, as psutil reports it. A value that an interface does not have
/// is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Address {
    /// The system's number for the address family: on Linux 2 is IPv4, 10 is IPv6, and 17 is a
    /// hardware address.
    pub family: i32,
    /// The address.
    pub address: String,
    /// The netmask.
    pub netmask: Option<String>,
    /// The broadcast address.
    pub broadcast: Option<String>,
    /// The address of the peer of a point-to-point interface.
    pub ptp: Option<String>,
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> BTreeMap<String, Vec<Address>> {
    let asked = if root.is_live() { ask() } else { Err(ONLY_LIVE.to_owned()) };
    let mut interfaces = reasons.unless_ok("network", asked).unwrap_or_default();
    for addresses in interfaces.values_mut() {
        addresses.sort_by_key(|address| address.family);
    }
    interfaces
}

#[cfg(not(unix))]
fn ask() -> Result<BTreeMap<String, Vec<Address>>, String> {
    Err("addresses are read on Unix only".to_owned())
}

#[cfg(unix)]
use interfaces::ask;

#[cfg(unix)]
#[allow(unsafe_code)]
mod interfaces {
    use std::collections::BTreeMap;
    use std::ffi::CStr;
    use std::io;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::ptr;

    use super::Address;

    pub(super) fn ask() -> Result<BTreeMap<String, Vec<Address>>, String> {
        let mut list: *mut libc::ifaddrs = ptr::null_mut();
        // SAFETY: `list` is a valid place for a pointer.
        if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
            return Err(format!("getifaddrs: {}", io::Error::last_os_error()));
        }
        let mut interfaces: BTreeMap<String, Vec<Address>> = BTreeMap::new();
        let mut next = list;
        // SAFETY: the system made the list; it is valid until it is freed below.
        while let Some(entry) = unsafe { next.as_ref() } {
            next = entry.ifa_next;
            // SAFETY: the name of an entry is NUL-terminated and lives as long as the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
            if let Some(address) = address(entry, &name) {
                interfaces.entry(name.into_owned()).or_default().push(address);
            }
        }
        // SAFETY: the list came from `getifaddrs`, is freed once, and nothing points into it any more.
        unsafe { libc::freeifaddrs(list) };
        Ok(interfaces)
    }

    fn address(entry: &libc::ifaddrs, name: &str) -> Option<Address> {
        let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        let (family, address) = text(entry.ifa_addr, name)?;
        let other = |address: *const libc::sockaddr| text(address, name).map(|(_, text)| text);
        let (mut broadcast, mut ptp) = (None, None);
        // The entry has one field for both kinds of address.
        if has(libc::IFF_BROADCAST) {
            broadcast = other(far_end(entry));
        } else if has(libc::IFF_POINTOPOINT) {
            ptp = other(far_end(entry));
        }
        Some(Address { family, address, netmask: other(entry.ifa_netmask), broadcast, ptp })
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn far_end(entry: &libc::ifaddrs) -> *const libc::sockaddr {
        entry.ifa_ifu
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn far_end(entry: &libc::ifaddrs) -> *const libc::sockaddr {
        entry.ifa_dstaddr
    }

    fn text(address: *const libc::sockaddr, name: &str) -> Option<(i32, String)> {
        // SAFETY: an address of the list is null, or valid as long as the list.
        let family = i32::from(unsafe { address.as_ref() }?.sa_family);
        let text = match family {
            libc::AF_INET => {
                // SAFETY: an address of this family is of this type.
                let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
                Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).to_string()
            }
            libc::AF_INET6 => {
                // SAFETY: an address of this family is of this type.
                let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                // A link-local address may exist on several links; the name tells on which.
                if address.sin6_scope_id != 0 && ip.is_unicast_link_local() {
                    format!("{ip}%{name}")
                } else {
                    ip.to_string()
                }
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            libc::AF_PACKET => {
                // SAFETY: an address of this family is of this type.
                let address = unsafe { &*address.cast::<libc::sockaddr_ll>() };
                let length = usize::from(address.sll_halen).min(address.sll_addr.len());
                let bytes = &address.sll_addr[..length];
                if bytes.is_empty() {
                    return None;
                }
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
            }
            _ => return None,
        };
        Some((family, text))
    }
}
