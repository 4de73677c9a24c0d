//! CPU times, from `/proc/stat`.

use std::io;

use super::{Host, Scratch, TOO_SOON, maybe};
use crate::TelemetryType;
use crate::rolling::Sample;
use crate::scan::Scan;
use crate::snapshot::{OpenList, put_float, put_integer};
use crate::types::Types;
use runlore_core::clock;

/// User, nice, system, idle, iowait, irq, softirq, steal, guest and guest_nice, in hundredths of a
/// second.
type Ticks = [u64; 10];

/// The number of the line with the sums over all CPUs.
const ALL: u32 = u32::MAX;

/// One line of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuLine {
    /// The CPU's number. Numbers may have gaps, and change when CPUs go online or offline.
    number: u32,
    ticks: Ticks,
}

impl CpuLine {
    fn load(&self) -> Load {
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = self.ticks;
        // `user` and `nice` include the time of guests.
        let busy =
            [user, nice, system, irq, softirq, steal].into_iter().fold(0, u64::saturating_add);
        Load { busy, idle: idle.saturating_add(iowait) }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    busy: u64,
    idle: u64,
}

impl Load {
    /// Returns the load since `before`, in tenths of a percent; 0 if there was no tick in between.
    fn percent_since(&self, before: &Self) -> u64 {
        let busy = self.busy.saturating_sub(before.busy);
        let all = busy.saturating_add(self.idle.saturating_sub(before.idle));
        if all == 0 { 0 } else { (busy as f64 * 1000.0 / all as f64).round() as u64 }
    }
}

/// The load of all CPUs, and of each CPU by number.
pub(super) type CpuSample = Vec<(u32, Load)>;

/// Reads the lines into the scratch buffers. The first line is that of all CPUs.
fn read(host: &Host, scratch: &mut Scratch) -> io::Result<()> {
    let Scratch { buffer, cpus, .. } = scratch;
    host.stat.read(buffer, |text| cpus.read(text))
}

/// The parsed lines of CPUs, and their text. The text seldom changes between captures, because the
/// kernel counts in ticks.
#[derive(Debug, Default)]
pub(super) struct CpuLines {
    text: Vec<u8>,
    lines: Vec<CpuLine>,
}

impl CpuLines {
    fn read(&mut self, text: &[u8]) -> Option<()> {
        if !self.text.is_empty() && text.starts_with(&self.text) {
            return Some(());
        }
        self.text.clear();
        let length = parse(text, &mut self.lines)?;
        // With the first bytes of the line after the last CPU, so that a new CPU is noticed.
        self.text.extend_from_slice(text.get(..length + 4).unwrap_or_default());
        Some(())
    }
}

/// Parses the lines and returns their length in bytes.
fn parse(text: &[u8], lines: &mut Vec<CpuLine>) -> Option<usize> {
    lines.clear();
    let mut scan = Scan::new(text);
    while scan.skip(b"cpu") {
        let number = match scan.rest() {
            [b' ', ..] => ALL,
            _ => u32::try_from(scan.number()?).ok()?,
        };
        let mut ticks = Ticks::default();
        for (at, place) in ticks.iter_mut().enumerate() {
            match scan.number() {
                Some(number) => *place = number,
                // Older kernels have fewer columns.
                None if at >= 4 => break,
                None => return None,
            }
        }
        lines.push(CpuLine { number, ticks });
        if !scan.next_line() {
            break;
        }
    }
    let starts_with_all = lines.first().is_some_and(|line| line.number == ALL);
    starts_with_all.then_some(text.len() - scan.rest().len())
}

/// Takes a sample for percentages without capturing anything.
pub(super) fn sample(host: &Host, scratch: &mut Scratch) -> io::Result<()> {
    read(host, scratch)?;
    offer(host, clock::monotonic_ns(), &scratch.cpus.lines);
    Ok(())
}

fn offer(host: &Host, now: u64, lines: &[CpuLine]) {
    let sample = || lines.iter().map(|line| (line.number, line.load())).collect();
    host.cpu_samples.offer(now, sample);
}

/// Returns the load of a CPU in a sample. In most cases it is at the same index.
fn load_in(sample: &Sample<CpuSample>, at: usize, number: u32) -> Option<&Load> {
    match sample.value.get(at) {
        Some((known, load)) if *known == number => Some(load),
        _ => sample.value.iter().find(|(known, _)| *known == number).map(|(_, load)| load),
    }
}

pub(super) fn capture(host: &Host, types: Types, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let base = host.cpu_samples.base(clock::monotonic_ns);
    let read = read(host, scratch);
    let is_read = scratch.missing.or("cpu", host.stat.path(), read).is_some();
    let now = clock::monotonic_ns();
    let base = base.filter(|_| is_read);
    let lines = if is_read { scratch.cpus.lines.as_slice() } else { &[] };
    let all = lines.first();
    let wants_all = types.contains(TelemetryType::Cpu);
    let wants_each = types.contains(TelemetryType::PerCpu);

    // In the order of the fields of `Cpu`.
    maybe(all.filter(|_| wants_all), out, |line, out| put(&line.ticks, out));
    let count = lines.len().saturating_sub(1) as u64;
    maybe(all.filter(|_| wants_all && count > 0), out, |line, out| {
        put(&line.ticks.map(|ticks| ticks / count), out);
    });
    let percent = base.as_deref().zip(all).and_then(|(base, all)| {
        load_in(base, 0, ALL).map(|before| all.load().percent_since(before))
    });
    maybe(percent.filter(|_| wants_all), out, put_integer);
    maybe(base.as_ref().map(|base| (now - base.at_ns) / 1000), out, put_integer);
    if is_read && base.is_none() {
        for (wanted, field) in [
            (wants_all, "cpu.percent_all"),
            (wants_each, "cpu.percent_per_cpu"),
            (true, "cpu.interval_s"),
        ] {
            if wanted {
                scratch.missing.add(field, TOO_SOON);
            }
        }
    }
    let mhz = wants_all.then(|| host.frequency().read(&mut scratch.buffer));
    let mhz =
        mhz.and_then(|mhz| mhz.map_err(|reason| scratch.missing.add("cpu.frequency", reason)).ok());
    maybe(mhz, out, put_float);
    let each = lines.get(1..).filter(|_| wants_each);
    maybe(each, out, |each, out| {
        let mut list = OpenList::begin(out);
        for line in each {
            put(&line.ticks, out);
            list.item();
        }
        list.end(out);
    });
    maybe(each.zip(base.as_deref()), out, |(each, base), out| {
        let mut list = OpenList::begin(out);
        for (at, line) in each.iter().enumerate() {
            let before = load_in(base, at + 1, line.number);
            maybe(before.map(|before| line.load().percent_since(before)), out, put_integer);
            list.item();
        }
        list.end(out);
    });
    if is_read {
        offer(host, now, &scratch.cpus.lines);
    }
}

fn put(ticks: &Ticks, out: &mut Vec<u8>) {
    for value in ticks {
        put_integer(*value, out);
    }
}
