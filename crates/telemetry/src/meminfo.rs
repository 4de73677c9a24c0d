//! Parsers for the memory and swap values of `/proc/meminfo` and `/proc/vmstat`, shared by
//! captures, containers and machine information.

use super::scan::Scan;

/// The keys that are parsed, in the order of the file.
const KEYS: [&[u8]; 12] = [
    b"MemTotal:",
    b"MemFree:",
    b"MemAvailable:",
    b"Buffers:",
    b"Cached:",
    b"Active:",
    b"Inactive:",
    b"SwapTotal:",
    b"SwapFree:",
    b"Shmem:",
    b"Slab:",
    b"SReclaimable:",
];

/// Values of `/proc/meminfo`, in bytes. `None` if the kernel does not report the value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meminfo {
    pub(super) total: Option<u64>,
    pub(super) free: Option<u64>,
    pub(super) available: Option<u64>,
    pub(super) buffers: Option<u64>,
    /// The page cache and reclaimable memory of the kernel.
    pub(super) cached: Option<u64>,
    pub(super) active: Option<u64>,
    pub(super) inactive: Option<u64>,
    pub(super) shared: Option<u64>,
    pub(super) slab: Option<u64>,
    pub(super) swap_total: Option<u64>,
    pub(super) swap_free: Option<u64>,
}

impl Meminfo {
    #[inline]
    pub(super) fn parse(text: &[u8]) -> Self {
        let [
            total,
            free,
            available,
            buffers,
            cached,
            active,
            inactive,
            swap_total,
            swap_free,
            shared,
            slab,
            reclaimable,
        ] = values(text);
        Self {
            total,
            free,
            available,
            buffers,
            cached: cached.map(|cached| cached.saturating_add(reclaimable.unwrap_or(0))),
            active,
            inactive,
            shared,
            slab,
            swap_total,
            swap_free,
        }
    }
}

/// Returns the value of each key, in bytes.
#[inline]
fn values(text: &[u8]) -> [Option<u64>; KEYS.len()] {
    let mut found = [None; KEYS.len()];
    let mut scan = Scan::new(text);
    let mut next = 0;
    loop {
        if scan.skip(KEYS[next]) {
            found[next] = bytes(&mut scan);
            next += 1;
            if next == KEYS.len() {
                break;
            }
        }
        if !scan.next_line() {
            find_the_rest(text, next, &mut found);
            break;
        }
    }
    found
}

fn bytes(scan: &mut Scan<'_>) -> Option<u64> {
    scan.number().map(|kib| kib.saturating_mul(1024))
}

/// Finds the remaining keys when the kernel lacks a line or uses another order.
#[cold]
fn find_the_rest(text: &[u8], from: usize, found: &mut [Option<u64>; KEYS.len()]) {
    for line in text.split(|byte| *byte == b'\n') {
        for (at, key) in KEYS.iter().enumerate().skip(from) {
            if let Some(rest) = line.strip_prefix(*key) {
                found[at] = bytes(&mut Scan::new(rest));
            }
        }
    }
}

/// Parses the number of pages swapped in and swapped out from `/proc/vmstat`.
pub(super) fn swapped_pages(text: &[u8]) -> Option<(u64, u64)> {
    let mut scan = Scan::new(text);
    while !scan.skip(b"pswpin ") {
        if !scan.next_line() {
            return None;
        }
    }
    let pages_in = scan.number()?;
    scan.next_line();
    if scan.skip(b"pswpout ") { Some((pages_in, scan.number()?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_any_order_and_some_may_be_missing() {
        let text = b"MemFree: 2 kB\nMemTotal:       1 kB\nCached: 3 kB\nSReclaimable: 4 kB\nSwapCached: 9 kB";
        let found = Meminfo::parse(text);
        assert_eq!(found.total, Some(1024));
        assert_eq!(found.free, Some(2048));
        assert_eq!(found.cached, Some(7 * 1024));
        assert_eq!(found.swap_total, None);
        assert_eq!(Meminfo::parse(b"").total, None);
    }

    #[test]
    fn swapped_pages_are_two_lines_after_each_other() {
        let pages = |text: &str| swapped_pages(text.as_bytes());
        assert_eq!(pages("nr_free 1\npswpin 3\npswpout 5\npgalloc 7\n"), Some((3, 5)));
        assert_eq!(pages("pswpin 3\npgalloc 7\n"), None);
        assert_eq!(pages("nr_free 1\n"), None);
    }
}
