//! Network interfaces, from `/proc/net/dev`.

use super::held::Shape;
use super::scan::Scan;
use super::{Host, Scratch};
use crate::telemetry::parts::NetIo;
use crate::telemetry::reasons::told;
use crate::telemetry::snapshot::{Code, Maybe, OpenList, put_bytes};

pub(super) fn capture(host: &Host, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    // In the order of `Network`.
    let start = out.len();
    let read = host.net_dev.read(Shape::Lines, buffer, |text| {
        out.truncate(start);
        put_interfaces(text, out)
    });
    let sum = read.map_err(|error| {
        out.truncate(start);
        out.push(0);
        missing.add("network", told(host.net_dev.path().display(), &error));
    });
    Maybe::<NetIo>::put(&sum.ok(), out);
}

/// Writes each interface that had traffic, and returns the sum over all.
fn put_interfaces(text: &[u8], out: &mut Vec<u8>) -> Option<NetIo> {
    let mut sum = NetIo { dropin: Some(0), dropout: Some(0), ..NetIo::default() };
    out.push(1);
    let mut list = OpenList::begin(out);
    let mut scan = Scan::new(text);
    if !scan.skip(b"Inter-|") || !scan.next_line() {
        return None;
    }
    while scan.next_line() {
        let (name, io) = interface(&mut scan)?;
        add(&mut sum, &io);
        if io.packets_sent > 0 || io.packets_recv > 0 || io.bytes_sent > 0 || io.bytes_recv > 0 {
            put_bytes(name, out);
            NetIo::put(&io, out);
            list.item();
        }
    }
    list.end(out);
    Some(sum)
}

/// What a line says. The name ends at the last colon, for an alias has one of its own.
fn interface<'a>(scan: &mut Scan<'a>) -> Option<(&'a [u8], NetIo)> {
    let line = scan.rest();
    let line = &line[..super::scan::newline(line).unwrap_or(line.len())];
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let name = line[..colon].trim_ascii();
    *scan = Scan::new(&scan.rest()[colon + 1..]);
    let mut numbers = [0; 12];
    for number in &mut numbers {
        *number = scan.number()?;
    }
    let [
        bytes_recv,
        packets_recv,
        errin,
        dropin,
        _,
        _,
        _,
        _,
        bytes_sent,
        packets_sent,
        errout,
        dropout,
    ] = numbers;
    let io = NetIo {
        bytes_sent,
        bytes_recv,
        packets_sent,
        packets_recv,
        errin,
        errout,
        dropin: Some(dropin),
        dropout: Some(dropout),
    };
    Some((name, io))
}

fn add(sum: &mut NetIo, io: &NetIo) {
    let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    plus(&mut sum.bytes_sent, io.bytes_sent);
    plus(&mut sum.bytes_recv, io.bytes_recv);
    plus(&mut sum.packets_sent, io.packets_sent);
    plus(&mut sum.packets_recv, io.packets_recv);
    plus(&mut sum.errin, io.errin);
    plus(&mut sum.errout, io.errout);
    sum.dropin = sum.dropin.zip(io.dropin).map(|(sum, more)| sum.saturating_add(more));
    sum.dropout = sum.dropout.zip(io.dropout).map(|(sum, more)| sum.saturating_add(more));
}
