//! The bytes between the caller and the writer: one tag, then the value.
//!
//! Numbers are little-endian. A container is its tag, its items, and an end tag; bytes that end inside a
//! container are a walk that was stopped.

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
/// `i64`.
pub(super) const INT: u8 = 3;
/// `u64` above `i64::MAX`.
pub(super) const UINT: u8 = 4;
/// Decimal text of an integer beyond 64 bits: `u8` length, text.
pub(super) const BIG: u8 = 5;
pub(super) const F64: u8 = 6;
pub(super) const F32: u8 = 7;
/// `u32` length, text.
pub(super) const STR: u8 = 8;
/// `u64` true length (`u64::MAX` where unknown), `u32` length kept, text.
pub(super) const STR_CUT: u8 = 9;
/// `u32` length, bytes.
pub(super) const BYTES: u8 = 10;
/// `u64` true length, the hash of the whole (`u8` length, bytes), `u32` length kept, bytes.
pub(super) const BYTES_CUT: u8 = 11;
pub(super) const SEQ: u8 = 12;
pub(super) const MAP: u8 = 13;
pub(super) const END: u8 = 14;
/// `u64` true length: the container went on.
pub(super) const END_CUT: u8 = 15;
pub(super) const REDACTED: u8 = 16;
/// `u32` length, text: the name of a type that offers nothing else.
pub(super) const TYPE_NAME: u8 = 17;
/// `u8` [`Absent`]: no value, and why.
pub(super) const ABSENT: u8 = 18;
/// A numeric slice: see `slice`.
pub(super) const SLICE: u8 = 19;
/// `()`: nothing worth a field.
pub(super) const UNIT: u8 = 20;
/// `u8` length, bytes: the hash of the whole of the value that follows, which is kept in part only. Stands in front of a
/// value, never inside one.
pub(super) const WHOLE: u8 = 21;
/// In front of a text: it is not UTF-8, and what is not is replaced in it.
pub(super) const LOSSY: u8 = 22;

/// Why there is no value where one was expected.
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

    /// The sentence for the reader of a record.
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
