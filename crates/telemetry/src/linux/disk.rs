//! Disks, from `/proc/diskstats` and `statvfs`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Host, Scratch};
use crate::parts::{DiskIo, DiskUsage};
use crate::reasons::told;
use crate::scan::Scan;
use crate::snapshot::{Code, Maybe, OpenList, put_bytes};
use crate::system_calls;

/// The unit of `/proc/diskstats`, whatever the sector size of the disk.
const SECTOR: u64 = 512;

/// Which devices are whole disks, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Devices(Mutex<Arc<[Device]>>);

#[derive(Debug)]
struct Device {
    name: Box<[u8]>,
    is_whole: bool,
}

impl Devices {
    fn known(&self) -> Arc<[Device]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn learn(&self, root: &Path, text: &[u8]) -> Arc<[Device]> {
        let block = root.join("sys/block");
        let mut devices = Vec::new();
        let mut scan = Scan::new(text);
        loop {
            if let Some((name, _)) = device(&mut scan) {
                let shown = String::from_utf8_lossy(name).replace('/', "!");
                let is_whole = block.join(shown).exists();
                devices.push(Device { name: name.into(), is_whole });
            }
            if !scan.next_line() {
                break;
            }
        }
        let devices: Arc<[Device]> = devices.into();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&devices);
        devices
    }
}

/// The numbers of a line after the name. Later ones are not used.
type Numbers = [u64; 10];

/// Parses the name and the numbers of a device. `None` if a line has fewer numbers than every
/// kernel since 2.6.25 writes.
#[inline]
fn device<'a>(scan: &mut Scan<'a>) -> Option<(&'a [u8], Numbers)> {
    scan.number()?;
    scan.number()?;
    let name = scan.word()?;
    let mut numbers = Numbers::default();
    // Many devices were never used.
    if !scan.skip(b" 0 0 0 0 0 0 0 0 0 0 ") {
        for number in &mut numbers {
            *number = scan.number()?;
        }
    }
    Some((name, numbers))
}

fn transfers(numbers: Numbers) -> DiskIo {
    let [
        reads,
        reads_merged,
        sectors_read,
        read_time,
        writes,
        writes_merged,
        sectors_written,
        write_time,
        _,
        busy,
    ] = numbers;
    DiskIo {
        read_count: Some(reads),
        write_count: Some(writes),
        read_bytes: sectors_read.saturating_mul(SECTOR),
        write_bytes: sectors_written.saturating_mul(SECTOR),
        read_time: Some(read_time),
        write_time: Some(write_time),
        read_merged_count: Some(reads_merged),
        write_merged_count: Some(writes_merged),
        busy_time: Some(busy),
    }
}

/// Whether this is a `loop` or `ram` device without transfers. The kernel lists these devices even
/// if nobody uses them.
fn is_idle(name: &[u8], numbers: &Numbers) -> bool {
    let number = name.strip_prefix(b"loop").or_else(|| name.strip_prefix(b"ram"));
    let [reads, _, _, _, writes, ..] = *numbers;
    reads == 0 && writes == 0 && number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

pub(super) fn capture(host: &Host, with_idle: bool, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    // In the order of the fields of `Disk`.
    let usage = missing.or("disk.disk_usage", &host.root, system_calls::disk_usage(&host.root));
    Maybe::<DiskUsage>::put(&usage, out);
    let start = out.len();
    let read = host.diskstats.read(buffer, |text| {
        out.truncate(start);
        host.disks[usize::from(with_idle)]
            .put(text, out, |text, out| put_devices(host, with_idle, text, out))
    });
    if let Err(error) = read {
        out.truncate(start);
        out.extend_from_slice(&[0, 0]);
        let reason = told(host.diskstats.path().display(), &error);
        missing.add("disk.io_per_disk", reason.clone());
        missing.add("disk.io_sum", reason);
    }
}

/// Appends each device, and the sum over the whole disks.
fn put_devices(host: &Host, with_idle: bool, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut devices = host.devices.known();
    let mut sum = Numbers::default();
    out.push(1);
    let mut list = OpenList::begin(out);
    let mut scan = Scan::new(text);
    let mut at = 0;
    while !scan.rest().is_empty() {
        let (name, numbers) = device(&mut scan)?;
        if devices.get(at).is_none_or(|device| *device.name != *name) {
            devices = host.devices.learn(&host.root, text);
        }
        if devices.get(at).is_some_and(|device| device.is_whole) {
            for (sum, more) in sum.iter_mut().zip(numbers) {
                *sum = sum.saturating_add(more);
            }
        }
        if with_idle || !is_idle(name, &numbers) {
            put_bytes(name, out);
            DiskIo::put(&transfers(numbers), out);
            list.item();
        }
        at += 1;
        scan.next_line();
    }
    list.end(out);
    Maybe::<DiskIo>::put(&Some(transfers(sum)), out);
    Some(())
}
