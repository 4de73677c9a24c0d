//! The few memory values that are sampled often, without a whole capture.

use super::{Host, Scratch, memory, process};
use crate::container::ContainerReader;
use crate::memory_now::MemoryNow;
use crate::scan::Scan;

impl Host {
    /// Reads the resident memory of this process.
    pub(crate) fn resident_now(&self) -> Option<u64> {
        Scratch::with(|scratch| Some(process::memory(self, &mut scratch.buffer).ok()?.rss))
    }

    pub(crate) fn memory_now(&self, with_pressure: bool, cache_from: f64) -> MemoryNow {
        // Notices at once that the program has closed our files, so that the others are checked.
        _ = self.statm.status();
        Scratch::with(|scratch| {
            let buffer = &mut scratch.buffer;
            let mut now = MemoryNow {
                rss: process::memory(self, buffer).ok().map(|memory| memory.rss),
                ..MemoryNow::default()
            };
            if let Ok(found) = self.meminfo.read(buffer, memory::parse) {
                now.total = found.total;
                // In a container, the total may be that of the container and the rest that of the
                // machine.
                now.available = found.available.min(found.total);
                now.swap_total = found.swap_total;
                now.swap_free = found.swap_free;
            }
            if with_pressure {
                now.pressure = self.pressure.read(buffer, pressure).ok();
            }
            if let Some(container) = self.container() {
                self.container_now(container, cache_from, buffer, &mut now);
            }
            now
        })
    }

    fn container_now(
        &self,
        container: &ContainerReader,
        cache_from: f64,
        buffer: &mut Vec<u8>,
        now: &mut MemoryNow,
    ) {
        // If the program has closed the file, reading all of them makes the reader open them again.
        let all = |buffer: &mut Vec<u8>| container.numbers(buffer).memory.current;
        now.container_used = container.memory_used(buffer).or_else(|| all(buffer));
        let limit = self.described(container, buffer).limits.memory();
        // Without a limit of its own, the machine's memory is the limit.
        now.container_limit = limit.max.filter(|_| limit.limit_is_host != Some(true));
        let is_wanted = now
            .container_used
            .zip(now.container_limit)
            .is_some_and(|(used, limit)| used as f64 >= limit as f64 * cache_from);
        if is_wanted {
            now.container_cache = container.memory_cache(buffer);
        }
    }
}

/// Parses the share of the last ten seconds in which some task waited for memory, in percent.
fn pressure(text: &[u8]) -> Option<f64> {
    let mut scan = Scan::new(text);
    if !scan.skip(b"some avg10=") {
        return None;
    }
    let word = std::str::from_utf8(scan.word()?).ok()?;
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Root, fixture};

    #[test]
    fn the_kernels_files_tell_what_there_is_and_how_scarce_it_is() {
        let folder = fixture(&[
            ("/proc/self/statm", "1000 300 20 10 0 400 0\n"),
            (
                "/proc/meminfo",
                "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n",
            ),
            (
                "/proc/pressure/memory",
                "some avg10=12.34 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.50 avg60=0 avg300=0 total=1\n",
            ),
        ]);
        let now = Host::new(folder.path()).memory_now(true, 0.0);
        assert_eq!((now.total, now.available), (Some(1_024_000), Some(409_600)));
        assert_eq!((now.swap_total, now.swap_free), (Some(51_200), Some(20_480)));
        assert_eq!(now.pressure, Some(12.34));
        assert_eq!(
            (now.container_used, now.container_limit, now.container_cache),
            (None, None, None)
        );
        assert!(now.rss.is_some_and(|rss| rss >= 300 * 4096));

        let nothing = Host::new(&folder.path().join("empty")).memory_now(true, 0.0);
        assert_eq!(nothing, MemoryNow::default());
    }

    #[test]
    fn a_containers_cache_is_read_where_it_matters() {
        let group = "/sys/fs/cgroup/job";
        let with = |version: &str, files: &[(&str, &str)]| {
            let mount = match version {
                "2" => "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                _ => "30 23 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n",
            };
            let own = if version == "2" { "0::/job\n" } else { "4:memory:/job\n" };
            let named: Vec<_> =
                files.iter().map(|(name, text)| (format!("{group}/{name}"), *text)).collect();
            let mut all = vec![
                ("/proc/meminfo", "MemTotal: 1000000 kB\n"),
                ("/proc/self/cgroup", own),
                ("/proc/self/mountinfo", mount),
            ];
            all.extend(named.iter().map(|(path, text)| (path.as_str(), *text)));
            fixture(&all)
        };
        let second = with(
            "2",
            &[
                ("cgroup.events", "populated 1\n"),
                ("memory.current", "900\n"),
                ("memory.max", "1000\n"),
                ("memory.stat", "anon 100\nfile 800\ninactive_file 700\nactive_file 100\n"),
            ],
        );
        let first = with(
            "1",
            &[
                ("memory.usage_in_bytes", "900\n"),
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.stat", "cache 1\ninactive_file 1\ntotal_inactive_file 700\n"),
            ],
        );
        for folder in [second, first] {
            let cache = |from| {
                let container = ContainerReader::below(Root::folder(folder.path())).unwrap();
                let mut now = MemoryNow::default();
                let host = Host::new(folder.path());
                host.container_now(&container, from, &mut Vec::new(), &mut now);
                assert_eq!((now.container_used, now.container_limit), (Some(900), Some(1000)));
                now.container_cache
            };
            assert_eq!(cache(0.9), Some(700));
            assert_eq!(cache(0.91), None, "it is not asked for");
        }
    }
}
