//! A batch on disk: its length, the number of its records, a checksum, and the records.

use std::io::{self, Read};

use twox_hash::XxHash3_128;

use crate::pipeline::event::u32_at;

/// What a file of a spool begins with: the form of it.
pub(super) const MAGIC: &[u8; 8] = b"RUNSPOL1";

/// Bytes before the records.
pub(super) const HEAD: usize = 4 + 4 + 16;

/// What a frame says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) length: u64,
    pub(super) records: u32,
    checksum: [u8; 16],
}

/// A frame that is whole.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u32,
}

/// What comes next in a file.
#[derive(Debug)]
pub(crate) enum Next {
    Frame(Frame),
    /// A frame whose bytes are not those that were written; others may follow it.
    Damaged,
    /// Nothing, or the beginning of a frame that was never finished.
    End,
}

/// Bytes as a frame.
pub(crate) fn of(bytes: &[u8], records: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(records as u32).to_le_bytes());
    frame.extend_from_slice(&checksum(bytes, records as u32));
    frame.extend_from_slice(bytes);
    frame
}

fn checksum(bytes: &[u8], records: u32) -> [u8; 16] {
    XxHash3_128::oneshot_with_seed(u64::from(records), bytes).to_le_bytes()
}

/// What the next frame says of itself; none where there is none.
pub(super) fn head(from: &mut impl Read) -> io::Result<Option<Head>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut checksum = [0; 16];
    checksum.copy_from_slice(&head[8..]);
    Ok(Some(Head { length: u64::from(u32_at(&head, 0)), records: u32_at(&head, 4), checksum }))
}

/// Reads the next frame of at most `left` bytes. Only what the file really has is made room for.
pub(crate) fn read(from: &mut impl Read, left: &mut u64) -> io::Result<Next> {
    let Some(head) = head(from)? else { return Ok(Next::End) };
    let Some(rest) = left.checked_sub(HEAD as u64 + head.length) else { return Ok(Next::End) };
    let mut bytes = vec![0; head.length as usize];
    match from.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Next::End),
        Err(error) => return Err(error),
    }
    *left = rest;
    if checksum(&bytes, head.records) != head.checksum {
        return Ok(Next::Damaged);
    }
    Ok(Next::Frame(Frame { bytes, records: head.records }))
}
