//! Measures the cost of reading each source.

use std::hint::black_box;
use std::time::Duration;

use super::{Host, Scratch};
use crate::cost;
use crate::system_calls::{current_cpu, disk_usage, rusage};

impl Host {
    /// Returns the path of a source and the cost of reading it once. `name` is its name in the
    /// table of sensors.
    pub(crate) fn source_of(&self, name: &str) -> (String, Option<Duration>) {
        let mut scratch = Scratch::new();
        let Scratch { buffer, own_numbers, .. } = &mut scratch;
        match name {
            "frequency" => {
                let frequency = self.frequency();
                let cost = cost::of(|| _ = black_box(frequency.read(buffer)));
                (frequency.source().to_owned(), Some(cost))
            }
            "getrusage" => {
                (name.to_owned(), Some(cost::of(|| _ = black_box(rusage(libc::RUSAGE_SELF)))))
            }
            "getpid" => (name.to_owned(), Some(cost::of(|| _ = black_box(std::process::id())))),
            "sched_getcpu" => (name.to_owned(), Some(cost::of(|| _ = black_box(current_cpu())))),
            "statvfs" => {
                let cost = cost::of(|| _ = black_box(disk_usage(&self.root)));
                (format!("statvfs({})", self.root.display()), Some(cost))
            }
            "/proc/self/fd" => {
                let cost = cost::of(|| _ = black_box(self.count_descriptors(own_numbers)));
                ("/proc/self/fd, fstat of each".to_owned(), Some(cost))
            }
            "/proc/self/task" => {
                (name.to_owned(), Some(cost::of(|| _ = black_box(self.tasks.status()))))
            }
            _ => {
                let path = self.root.join(name.trim_start_matches('/'));
                let cost = self.files().find(|file| file.path() == path).map(|file| {
                    let is_kept_open = file.number().is_some();
                    let cost = cost::of(|| _ = file.read(buffer, |_| Some(())));
                    if !is_kept_open {
                        file.release();
                    }
                    cost
                });
                (path.display().to_string(), cost)
            }
        }
    }
}
