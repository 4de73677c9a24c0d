//! Disks, from `/proc/diskstats` and `statvfs`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::held::Shape;
use super::scan::Scan;
use super::{Host, Scratch};
use crate::telemetry::parts::{DiskIo, DiskUsage};
use crate::telemetry::reasons::told;
use crate::telemetry::snapshot::{Code, Maybe, OpenList, put_bytes};
use crate::telemetry::space;

/// The kernel's unit here, whatever the disk's is.
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

/// What a line says; nothing where it says less than every kernel since 2.6.25 does.
fn device<'a>(scan: &mut Scan<'a>) -> Option<(&'a [u8], DiskIo)> {
    scan.number()?;
    scan.number()?;
    let name = scan.word()?;
    let mut numbers = [0; 10];
    for number in &mut numbers {
        *number = scan.number()?;
    }
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
    let io = DiskIo {
        read_count: Some(reads),
        write_count: Some(writes),
        read_bytes: sectors_read.saturating_mul(SECTOR),
        write_bytes: sectors_written.saturating_mul(SECTOR),
        read_time: Some(read_time),
        write_time: Some(write_time),
        read_merged_count: Some(reads_merged),
        write_merged_count: Some(writes_merged),
        busy_time: Some(busy),
    };
    Some((name, io))
}

/// `loop` and `ram` devices are there whether anybody needs them or not.
fn is_idle(name: &[u8], io: &DiskIo) -> bool {
    let number = name.strip_prefix(b"loop").or_else(|| name.strip_prefix(b"ram"));
    number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
        && io.read_count == Some(0)
        && io.write_count == Some(0)
}

pub(super) fn capture(host: &Host, with_idle: bool, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    // In the order of `Disk`.
    let usage = missing.or("disk.disk_usage", &host.root, space::of(&host.root));
    Maybe::<DiskUsage>::put(&usage, out);
    let start = out.len();
    let read = host.diskstats.read(Shape::Lines, buffer, |text| {
        out.truncate(start);
        put_devices(host, with_idle, text, out)
    });
    let sum = match read {
        Ok(sum) => Some(sum),
        Err(error) => {
            out.truncate(start);
            out.push(0);
            let reason = told(host.diskstats.path().display(), &error);
            missing.add("disk.io_per_disk", reason.clone());
            missing.add("disk.io_sum", reason);
            None
        }
    };
    Maybe::<DiskIo>::put(&sum, out);
}

/// Writes each device, and returns the sum over the whole ones.
fn put_devices(host: &Host, with_idle: bool, text: &[u8], out: &mut Vec<u8>) -> Option<DiskIo> {
    let mut devices = host.devices.known();
    let mut sum = DiskIo {
        read_count: Some(0),
        write_count: Some(0),
        read_time: Some(0),
        write_time: Some(0),
        read_merged_count: Some(0),
        write_merged_count: Some(0),
        busy_time: Some(0),
        ..DiskIo::default()
    };
    out.push(1);
    let mut list = OpenList::begin(out);
    let mut scan = Scan::new(text);
    let mut at = 0;
    while !scan.rest().is_empty() {
        let (name, io) = device(&mut scan)?;
        if devices.get(at).is_none_or(|device| *device.name != *name) {
            devices = host.devices.learn(&host.root, text);
        }
        if devices.get(at).is_some_and(|device| device.is_whole) {
            add(&mut sum, &io);
        }
        if with_idle || !is_idle(name, &io) {
            put_bytes(name, out);
            DiskIo::put(&io, out);
            list.item();
        }
        at += 1;
        scan.next_line();
    }
    list.end(out);
    Some(sum)
}

fn add(sum: &mut DiskIo, io: &DiskIo) {
    let plus = |sum: &mut Option<u64>, more: Option<u64>| {
        *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
    };
    plus(&mut sum.read_count, io.read_count);
    plus(&mut sum.write_count, io.write_count);
    sum.read_bytes = sum.read_bytes.saturating_add(io.read_bytes);
    sum.write_bytes = sum.write_bytes.saturating_add(io.write_bytes);
    plus(&mut sum.read_time, io.read_time);
    plus(&mut sum.write_time, io.write_time);
    plus(&mut sum.read_merged_count, io.read_merged_count);
    plus(&mut sum.write_merged_count, io.write_merged_count);
    plus(&mut sum.busy_time, io.busy_time);
}
