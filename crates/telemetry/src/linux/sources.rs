//! Measures the cost of reading each source.

use std::hint::black_box;
use std::time::Duration;

use super::held::Shape;
use super::process::{current_cpu, rusage};
use super::{Host, Scratch};
use crate::types::Types;
use crate::{cost, space};

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
                let cost = cost::of(|| _ = black_box(space::of(&self.root)));
                (format!("statvfs({})", self.root.display()), Some(cost))
            }
            "/proc/self/fd" => {
                let cost = cost::of(|| {
                    _ = black_box(self.count_descriptors(Types::NONE, own_numbers, buffer));
                });
                ("/proc/self/fd, fstat of each".to_owned(), Some(cost))
            }
            "/proc/self/task" => {
                (name.to_owned(), Some(cost::of(|| _ = black_box(self.tasks.status()))))
            }
            _ => {
                let path = self.root.join(name.trim_start_matches('/'));
                let held = self.held().map(|(_, held)| held).find(|held| held.path() == path);
                let cost = held.map(|held| {
                    let is_held = held.number().is_some();
                    let cost = cost::of(|| _ = held.read(Shape::Lines, buffer, |_| Some(())));
                    // Close the files that captures do not keep open.
                    if !is_held {
                        held.release();
                    }
                    cost
                });
                (path.display().to_string(), cost)
            }
        }
    }
}
