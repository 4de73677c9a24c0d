//! Network interfaces, from `/proc/net/dev`.

use super::{Host, Scratch};
use crate::parts::NetIo;
use crate::reasons::told;
use crate::scan::Scan;
use crate::snapshot::{Code, Maybe, OpenList, put_bytes};

pub(super) fn capture(host: &Host, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    // In the order of the fields of `Network`.
    let start = out.len();
    let read = host.net_dev.read(buffer, |text| {
        out.truncate(start);
        host.interfaces.put(text, out, put_interfaces)
    });
    if let Err(error) = read {
        out.truncate(start);
        out.extend_from_slice(&[0, 0]);
        missing.add("network", told(host.net_dev.path().display(), &error));
    }
}

/// The numbers of a line after the name: eight for received traffic, then four for sent traffic
/// with the meanings of the first four.
type Numbers = [u64; 12];

/// Appends each interface that had traffic, and the sum over all interfaces.
fn put_interfaces(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut sum = Numbers::default();
    out.push(1);
    let mut list = OpenList::begin(out);
    let mut scan = Scan::new(text);
    if !scan.skip(b"Inter-|") || !scan.next_line() {
        return None;
    }
    while scan.next_line() {
        let (name, numbers) = interface(&mut scan)?;
        for (sum, more) in sum.iter_mut().zip(numbers) {
            *sum = sum.saturating_add(more);
        }
        let io = transfers(numbers);
        if io.packets_sent > 0 || io.packets_recv > 0 || io.bytes_sent > 0 || io.bytes_recv > 0 {
            put_bytes(name, out);
            NetIo::put(&io, out);
            list.item();
        }
    }
    list.end(out);
    Maybe::<NetIo>::put(&Some(transfers(sum)), out);
    Some(())
}

/// Parses the name and the numbers of an interface. The name ends at the last colon, because an
/// alias contains one, and a number may follow without a blank.
fn interface<'a>(scan: &mut Scan<'a>) -> Option<(&'a [u8], Numbers)> {
    let line = scan.rest().trim_ascii_start();
    let word = scan.word()?;
    let colon = word.iter().rposition(|byte| *byte == b':')?;
    *scan = Scan::new(&line[colon + 1..]);
    let mut numbers = Numbers::default();
    for number in &mut numbers {
        *number = scan.number()?;
    }
    Some((&word[..colon], numbers))
}

fn transfers(numbers: Numbers) -> NetIo {
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
    NetIo {
        bytes_sent,
        bytes_recv,
        packets_sent,
        packets_recv,
        errin,
        errout,
        dropin: Some(dropin),
        dropout: Some(dropout),
    }
}
