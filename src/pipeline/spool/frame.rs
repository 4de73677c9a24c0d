//! A batch on disk: its length, the number of its records, a checksum of the records, a checksum of
//! these numbers, and the records.
//!
//! Because the length has its own checksum, an unfinished frame of a dying process can be
//! distinguished from one that was damaged later, and frames after the damage can be found again.

use std::io::{self, Read, Seek, SeekFrom};

use twox_hash::XxHash3_128;

use crate::pipeline::event::u32_at;

/// The first bytes of a spool file, which identify its format.
pub(super) const MAGIC: &[u8; 8] = b"RUNSPOL2";
pub(super) const MAGIC_BEFORE: &[u8; 8] = b"RUNSPOL1";

/// The size of the header before the records.
pub(super) const HEAD: usize = NUMBERS + 8;
/// The size of the part that the last eight bytes of the header check.
const NUMBERS: usize = 4 + 4 + 16;

/// The format of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Now,
    /// The earlier format, without a checksum of the numbers.
    Before,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    length: u64,
    records: u32,
    checksum: [u8; 16],
}

/// A complete frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u32,
}

/// The next part of a file.
#[derive(Debug)]
pub(crate) enum Next {
    Frame(Frame),
    /// Damaged bytes. Frames may follow them.
    Damaged,
    /// Nothing, or the beginning of a frame that was never finished.
    End,
}

/// Encodes bytes as a frame.
pub(crate) fn of(bytes: &[u8], records: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(records as u32).to_le_bytes());
    frame.extend_from_slice(&checksum(bytes, records as u32));
    let seal = seal(&frame);
    frame.extend_from_slice(&seal);
    frame.extend_from_slice(bytes);
    frame
}

fn checksum(bytes: &[u8], records: u32) -> [u8; 16] {
    XxHash3_128::oneshot_with_seed(u64::from(records), bytes).to_le_bytes()
}

/// Returns the checksum of a frame's numbers.
fn seal(numbers: &[u8]) -> [u8; 8] {
    (XxHash3_128::oneshot(numbers) as u64).to_le_bytes()
}

impl Head {
    /// Parses a header. `None` if the bytes are not one.
    fn of(bytes: &[u8], form: Form) -> Option<Self> {
        let (numbers, rest) = bytes.split_at_checked(NUMBERS)?;
        if form == Form::Now && rest.get(..8)? != seal(numbers) {
            return None;
        }
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&numbers[8..]);
        let (length, records) = (u64::from(u32_at(numbers, 0)), u32_at(numbers, 4));
        Some(Self { length, records, checksum })
    }
}

/// Reads the next frame of a file with `left` remaining bytes. Never allocates more than the file
/// contains.
pub(crate) fn read(from: &mut (impl Read + Seek), left: &mut u64, form: Form) -> io::Result<Next> {
    let size = match form {
        Form::Now => HEAD,
        Form::Before => NUMBERS,
    };
    let mut bytes = [0; HEAD];
    let bytes = &mut bytes[..size];
    let Some(rest) = left.checked_sub(size as u64) else {
        *left = 0;
        return Ok(Next::End);
    };
    if !fill(from, bytes)? {
        return Ok(Next::End);
    }
    let Some(head) = Head::of(bytes, form) else {
        from.seek_relative(1 - size as i64)?;
        *left -= 1;
        find(from, left)?;
        return Ok(Next::Damaged);
    };
    let Some(rest) = rest.checked_sub(head.length) else {
        *left = 0;
        // In the earlier format, an unfinished frame cannot be distinguished from a wrong length.
        // Report it as damage, so that the file is kept.
        let is_unfinished = form == Form::Now;
        return Ok(if is_unfinished { Next::End } else { Next::Damaged });
    };
    let mut bytes = vec![0; head.length as usize];
    if !fill(from, &mut bytes)? {
        return Ok(Next::End);
    }
    *left = rest;
    if checksum(&bytes, head.records) != head.checksum {
        return Ok(Next::Damaged);
    }
    Ok(Next::Frame(Frame { bytes, records: head.records }))
}

/// Fills the buffer. Returns `false` if the file ends before.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Skips to the next frame, or to the end.
pub(super) fn find(from: &mut (impl Read + Seek), left: &mut u64) -> io::Result<()> {
    const STEP: usize = 64 << 10;
    let mut bytes = Vec::new();
    while *left >= HEAD as u64 {
        bytes.clear();
        let wanted = (STEP as u64).min(*left);
        if from.by_ref().take(wanted).read_to_end(&mut bytes)? < HEAD {
            break;
        }
        let found = bytes.windows(HEAD).position(|bytes| Head::of(bytes, Form::Now).is_some());
        // A header may begin near the end of these bytes.
        let passed = found.unwrap_or(bytes.len() - HEAD + 1);
        from.seek(SeekFrom::Current(passed as i64 - bytes.len() as i64))?;
        *left -= passed as u64;
        if found.is_some() {
            return Ok(());
        }
    }
    *left = 0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Reads all frames: the number of records of each, or `None` for damage.
    fn all(bytes: &[u8], form: Form) -> Vec<Option<u32>> {
        let (mut from, mut left) = (Cursor::new(bytes), bytes.len() as u64);
        let next = || match read(&mut from, &mut left, form).unwrap() {
            Next::Frame(frame) => Some(Some(frame.records)),
            Next::Damaged => Some(None),
            Next::End => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn whichever_bit_is_flipped_it_is_told_and_the_other_frames_are_read() {
        let frames: Vec<Vec<u8>> = (1..=3).map(|n| of(&[b'x'; 40], n)).collect();
        let whole = frames.concat();
        assert_eq!(all(&whole, Form::Now), [Some(1), Some(2), Some(3)]);
        for bit in 0..whole.len() * 8 {
            let mut spoilt = whole.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            let mut expected = vec![Some(1), Some(2), Some(3)];
            expected[bit / 8 / frames[0].len()] = None;
            assert_eq!(all(&spoilt, Form::Now), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_that_was_never_finished_is_no_damage() {
        let frame = of(&[b'x'; 40], 1);
        for cut in 0..frame.len() {
            assert_eq!(all(&[&frame[..], &frame[..cut]].concat(), Form::Now), [Some(1)]);
        }
    }

    #[test]
    fn frames_are_found_however_much_is_overwritten_before_them() {
        let frame = of(&[b'x'; 100], 7);
        for junk in [1, HEAD, (64 << 10) - 1, (64 << 10) + HEAD / 2, 200_000] {
            let bytes = [&vec![0xa5; junk][..], &frame].concat();
            assert_eq!(all(&bytes, Form::Now), [None, Some(7)], "{junk}");
        }
    }

    #[test]
    fn frames_of_before_are_read_and_what_may_be_damage_is_told() {
        let mut frame = of(b"{}\n", 1);
        frame.drain(NUMBERS..HEAD);
        let two = [&frame[..], &frame].concat();
        assert_eq!(all(&two, Form::Before), [Some(1), Some(1)]);
        let mut spoilt = two;
        spoilt[2] ^= 1;
        assert_eq!(all(&spoilt, Form::Before), [None]);
    }
}
