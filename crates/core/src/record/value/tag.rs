//! The encoding of values in the queue from the caller to the writer: a tag byte, then the value.
//!
//! Numbers are little-endian. A container consists of its tag, its items, and an end tag. Bytes
//! that end inside a container come from a walk that was aborted.

pub(crate) const NULL: u8 = 0;
pub(crate) const FALSE: u8 = 1;
pub(crate) const TRUE: u8 = 2;
/// `i64`.
pub(crate) const INT: u8 = 3;
/// `u64` above `i64::MAX`.
pub(crate) const UINT: u8 = 4;
/// Decimal text of an integer beyond 64 bits: `u8` length, text.
pub(crate) const BIG: u8 = 5;
pub(crate) const F64: u8 = 6;
pub(crate) const F32: u8 = 7;
/// `u32` length, text.
pub(crate) const STR: u8 = 8;
/// `u64` true length (`u64::MAX` if unknown), `u32` length kept, text.
pub(crate) const STR_CUT: u8 = 9;
/// `u32` length, bytes.
pub(crate) const BYTES: u8 = 10;
/// `u64` true length, hash of the whole (`u8` length, bytes), `u32` length kept, bytes.
pub(crate) const BYTES_CUT: u8 = 11;
pub(crate) const SEQ: u8 = 12;
pub(crate) const MAP: u8 = 13;
pub(crate) const END: u8 = 14;
/// `u64` true length: the end of a container that has more items than were kept.
pub(crate) const END_CUT: u8 = 15;
pub(crate) const REDACTED: u8 = 16;
/// `u32` length, text: the name of a type that offers nothing else to record.
pub(crate) const TYPE_NAME: u8 = 17;
/// `u8` [`Absent`]: the reason why there is no value.
pub(crate) const ABSENT: u8 = 18;
/// A summarised numeric slice; see `slice`.
pub(crate) const SLICE: u8 = 19;
/// `()`, which gets no field in the record.
pub(crate) const UNIT: u8 = 20;
/// `u8` length, bytes: the hash of the whole value. The value follows, and only a part of it was
/// kept. This tag occurs only before an outermost value, never inside one.
pub(crate) const WHOLE: u8 = 21;
/// Before a text: the original was not UTF-8, and the invalid parts were replaced.
pub(crate) const LOSSY: u8 = 22;

/// Why an expected value is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Absent {
    NaN = 0,
    Infinity = 1,
    NegativeInfinity = 2,
    Locked = 3,
    TooDeep = 4,
    Panicked = 5,
    Refused = 6,
    RecordFull = 7,
    TooLarge = 8,
    Slow = 9,
}

impl Absent {
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::NaN,
            1 => Self::Infinity,
            2 => Self::NegativeInfinity,
            3 => Self::Locked,
            4 => Self::TooDeep,
            5 => Self::Panicked,
            7 => Self::RecordFull,
            8 => Self::TooLarge,
            9 => Self::Slow,
            _ => Self::Refused,
        }
    }

    /// Returns the reason as text for a record.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NaN => "not a number",
            Self::Infinity => "infinite",
            Self::NegativeInfinity => "minus infinity",
            Self::Locked => "it was locked",
            Self::TooDeep => "nested deeper than the limit",
            Self::Panicked => "its own Serialize or Debug panicked",
            Self::Refused => "its own Serialize returned an error",
            Self::RecordFull => "the record is full",
            Self::TooLarge => "the record was too large for its queue",
            Self::Slow => "reading all of the value took too long",
        }
    }
}
