//! This process: memory and transfers from its files, CPU times and context switches from
//! `getrusage`.
//!
//! `getrusage` costs a fifth of reading `/proc/self/stat`, and returns microseconds over all
//! threads instead of ticks.

use std::io;

use super::{Host, Scratch, TOO_SOON, maybe};
use crate::parts::{IoCounters, ProcessMemory, Switches};
use crate::scan::Scan;
use crate::snapshot::{Code, Maybe, put_float, put_integer};
use crate::system_calls::{current_cpu, page_size, rusage};
use crate::usage::ProcessUsage;
use runlore_core::clock;

/// Takes a sample for percentages without capturing anything.
pub(super) fn sample(host: &Host) {
    let used = rusage(libc::RUSAGE_SELF);
    host.process_samples.offer(clock::monotonic_ns(), || used.user_us + used.system_us);
}

pub(super) fn capture(host: &Host, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, own_numbers, missing, .. } = scratch;
    // First, because it notices at once that the program has closed our files.
    #[allow(clippy::unnecessary_cast, reason = "the type differs between platforms")]
    let threads = host.tasks.status().map(|status| (status.st_nlink as u64).saturating_sub(2));
    // In the order of the fields of `Process`.
    put_integer(u64::from(host.pid), out);
    let cpu = current_cpu();
    if cpu.is_none() {
        missing.add("process.cpu_number", "sched_getcpu failed");
    }
    maybe(cpu, out, put_integer);

    let memory = missing.or("process.memory", host.statm.path(), memory(host, buffer));
    Maybe::<ProcessMemory>::put(&memory, out);
    let total = host.memory_total(buffer);
    let percent = memory.as_ref().zip(total).filter(|(_, total)| *total > 0);
    let percent = percent.map(|(memory, total)| memory.rss as f64 / total as f64 * 100.0);
    if percent.is_none() {
        missing.add(
            "process.memory_percent",
            "the memory of the process or of the machine is not known",
        );
    }
    maybe(percent, out, put_float);

    let base = host.process_samples.base(clock::monotonic_ns);
    let own = rusage(libc::RUSAGE_SELF);
    let now = clock::monotonic_ns();
    let children = rusage(libc::RUSAGE_CHILDREN);
    out.push(1);
    put_integer(own.user_us, out);
    put_integer(own.system_us, out);
    for of_children in [children.user_us, children.system_us] {
        out.push(1);
        put_integer(of_children, out);
    }
    let waited = if host.facts().waits_are_counted {
        let read = host.self_stat.read_checked(buffer, waited);
        missing.or("process.cpu_times.iowait", host.self_stat.path(), read)
    } else {
        Some(0)
    };
    maybe(waited, out, put_integer);

    let used = own.user_us + own.system_us;
    let percent = base.map(|base| {
        let micros = used.saturating_sub(base.value) as f64;
        // The factor converts microseconds per nanosecond to tenths of a percent.
        (micros * 1_000_000.0 / (now - base.at_ns) as f64).round() as u64
    });
    if percent.is_none() {
        missing.add("process.cpu_percent", TOO_SOON);
    }
    maybe(percent, out, put_integer);
    host.process_samples.offer(now, || used);

    let io = missing.or("process.io_counters", host.io.path(), io_counters(host, buffer));
    Maybe::<IoCounters>::put(&io, out);

    let threads = missing.or("process.num_threads", host.tasks.path(), threads);
    let opened = host.count_descriptors(own_numbers);
    let opened = missing.or("process.num_open_file_descriptors", host.descriptors.path(), opened);
    if opened.is_none() {
        missing.add("process.num_open_files", "see process.num_open_file_descriptors");
        missing.add("process.num_connections", "see process.num_open_file_descriptors");
    }
    let counts = [
        opened.map(|opened| opened.descriptors),
        opened.map(|opened| opened.files),
        opened.map(|opened| opened.connections),
        threads,
    ];
    for count in counts {
        maybe(count, out, put_integer);
    }
    let switches = Switches { voluntary: own.voluntary, involuntary: own.involuntary };
    out.push(1);
    Switches::put(&switches, out);
    let facts = host.facts();
    out.extend_from_slice(&facts.encoded);
    if !facts.has_executable {
        missing.add("process.executable", "/proc/self/exe cannot be read");
    }
    if !facts.has_cmd_line {
        missing.add("process.cmd_line", "/proc/self/cmdline cannot be read");
    }
}

/// Reads `/proc/self/statm`, which has the numbers of total, resident, shared, text, lib, data and
/// dirty pages.
pub(super) fn memory(host: &Host, buffer: &mut Vec<u8>) -> io::Result<ProcessMemory> {
    let page = page_size();
    host.statm.read_checked(buffer, |text| {
        let mut scan = Scan::new(text);
        let mut bytes = || scan.number().map(|pages| pages.saturating_mul(page));
        let memory = ProcessMemory {
            vms: bytes()?,
            rss: bytes()?,
            shared: Some(bytes()?),
            text: Some(bytes()?),
            lib: Some(bytes()?),
            data: Some(bytes()?),
            dirty: Some(bytes()?),
        };
        scan.rest().trim_ascii().is_empty().then_some(memory)
    })
}

pub(super) fn io_counters(host: &Host, buffer: &mut Vec<u8>) -> io::Result<IoCounters> {
    host.io.read_checked(buffer, |text| {
        let mut scan = Scan::new(text);
        let mut next = |key: &[u8]| {
            let number = scan.skip(key).then(|| scan.number()).flatten();
            scan.next_line();
            number
        };
        Some(IoCounters {
            read_chars: Some(next(b"rchar:")?),
            write_chars: Some(next(b"wchar:")?),
            read_count: Some(next(b"syscr:")?),
            write_count: Some(next(b"syscw:")?),
            read_bytes: Some(next(b"read_bytes:")?),
            write_bytes: Some(next(b"write_bytes:")?),
        })
    })
}

/// Parses the ticks of waiting for disks: field 42 of `/proc/self/stat`. Field 2 is a name in
/// parentheses that may contain any characters.
fn waited(text: &[u8]) -> Option<u64> {
    let name_ends = text.iter().rposition(|byte| *byte == b')')?;
    let mut scan = Scan::new(&text[name_ends + 1..]);
    for _ in 3..42 {
        scan.word()?;
    }
    scan.number()
}

/// Parses the peak resident memory, in bytes, from the text of `/proc/self/status`.
fn peak_of(text: &[u8]) -> Option<u64> {
    let mut scan = Scan::new(text);
    while !scan.skip(b"VmHWM:") {
        if !scan.next_line() {
            return None;
        }
    }
    scan.number()?.checked_mul(1024)
}

impl Host {
    /// Reads the counters of the whole process.
    pub(crate) fn process_usage(&self) -> ProcessUsage {
        // Notices at once that the program has closed our files, so that the others are checked.
        _ = self.statm.status();
        Scratch::with(|scratch| {
            let io = io_counters(self, &mut scratch.buffer).ok();
            let memory = memory(self, &mut scratch.buffer).ok();
            let rss = memory.map(|memory| memory.rss);
            // If the program before an `exec` had a higher peak, `getrusage` would return that one.
            let status = std::fs::read(self.root.join("proc/self/status"));
            let peak_rss = status.ok().and_then(|text| peak_of(&text));
            ProcessUsage {
                read_bytes: io.as_ref().and_then(|io| io.read_bytes),
                write_bytes: io.as_ref().and_then(|io| io.write_bytes),
                rss,
                // The kernel updates its peak with a delay.
                peak_rss: peak_rss.max(rss.filter(|_| peak_rss.is_some())),
            }
        })
    }
}
