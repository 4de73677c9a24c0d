//! Encodings of the fields: how each kind of value is written, read, and converted to JSON.
//!
//! A part ([`part!`](super::part)) names the encoding of each of its fields. Everything else is
//! derived from that.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bytes::{OpenList, Reader, put_bytes, put_float, put_integer};
use super::json;
use super::named::Named;

/// An encoding of values. Every encoded value has at least one byte.
pub(crate) trait Code {
    /// The type of the decoded value.
    type Value;

    fn put(value: &Self::Value, out: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Option<Self::Value>;
    /// Reads the next value and appends it as JSON. If the bytes are damaged, a part of the JSON
    /// may have been appended.
    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()>;

    /// Reads the next value and appends it as a field of an object, unless it is absent. See
    /// [`json::key`] for the form of `key`.
    #[inline]
    fn write_field(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::key(key, out);
        Self::write_json(from, out)
    }
}

/// An unsigned integer of variable length.
#[derive(Debug)]
pub(crate) struct Integer;

impl Code for Integer {
    type Value = u64;

    fn put(value: &u64, out: &mut Vec<u8>) {
        put_integer(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<u64> {
        from.integer()
    }

    #[inline]
    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::integer(from.integer()?, out);
        Some(())
    }
}

/// A number with at most this many decimal places, encoded as an integer.
#[derive(Debug)]
pub(crate) struct Decimal<const DIGITS: u32>;

/// Percentages.
pub(crate) type Tenths = Decimal<1>;
/// Times that the kernel counts in hundredths of a second.
pub(crate) type Hundredths = Decimal<2>;
/// Times that the kernel counts in microseconds.
pub(crate) type Millionths = Decimal<6>;

impl<const DIGITS: u32> Decimal<DIGITS> {
    const UNIT: u64 = 10_u64.pow(DIGITS);

    /// Converts a value to the encoded integer. Values outside its range saturate.
    pub(crate) fn whole(value: f64) -> u64 {
        (value * Self::UNIT as f64).round() as u64
    }
}

impl<const DIGITS: u32> Code for Decimal<DIGITS> {
    type Value = f64;

    fn put(value: &f64, out: &mut Vec<u8>) {
        put_integer(Self::whole(*value), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<f64> {
        Some(from.integer()? as f64 / Self::UNIT as f64)
    }

    #[inline]
    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::decimal::<DIGITS>(from.integer()?, out);
        Some(())
    }
}

/// A floating-point number.
#[derive(Debug)]
pub(crate) struct Float;

impl Code for Float {
    type Value = f64;

    fn put(value: &f64, out: &mut Vec<u8>) {
        put_float(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<f64> {
        from.float()
    }

    #[inline]
    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::any(&from.float()?, out)
    }
}

/// A string. Names of devices and files may contain any bytes; invalid UTF-8 is replaced on
/// reading.
#[derive(Debug)]
pub(crate) struct Text;

impl Code for Text {
    type Value = String;

    fn put(value: &String, out: &mut Vec<u8>) {
        put_bytes(value.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<String> {
        Some(String::from_utf8_lossy(from.bytes()?).into_owned())
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::text(from.bytes()?, out);
        Some(())
    }
}

/// JSON, for parts whose structure is defined elsewhere.
#[derive(Debug)]
pub(crate) struct Json<T>(PhantomData<T>);

impl<T: Serialize + DeserializeOwned> Code for Json<T> {
    type Value = T;

    fn put(value: &T, out: &mut Vec<u8>) {
        put_bytes(&serde_json::to_vec(value).unwrap_or_default(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<T> {
        serde_json::from_slice(from.bytes()?).ok()
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        // Parsed and written again, because damaged bytes must not produce invalid JSON.
        json::any(&Self::take(from)?, out)
    }
}

/// An optional value.
#[derive(Debug)]
pub(crate) struct Maybe<C>(PhantomData<C>);

impl<C: Code> Code for Maybe<C> {
    type Value = Option<C::Value>;

    fn put(value: &Option<C::Value>, out: &mut Vec<u8>) {
        out.push(u8::from(value.is_some()));
        if let Some(value) = value {
            C::put(value, out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Option<C::Value>> {
        match from.byte()? {
            0 => Some(None),
            1 => C::take(from).map(Some),
            _ => None,
        }
    }

    #[inline]
    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        match from.byte()? {
            0 => {
                out.extend_from_slice(b"null");
                Some(())
            }
            1 => C::write_json(from, out),
            _ => None,
        }
    }

    #[inline]
    fn write_field(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        match from.byte()? {
            0 => Some(()),
            1 => C::write_field(key, from, out),
            _ => None,
        }
    }
}

/// A list.
#[derive(Debug)]
pub(crate) struct List<C>(PhantomData<C>);

impl<C: Code> Code for List<C> {
    type Value = Vec<C::Value>;

    fn put(values: &Vec<C::Value>, out: &mut Vec<u8>) {
        let mut list = OpenList::begin(out);
        for value in values {
            C::put(value, out);
            list.item();
        }
        list.end(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Vec<C::Value>> {
        (0..from.count()?).map(|_| C::take(from)).collect()
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'[');
        for index in 0..from.count()? {
            if index > 0 {
                out.push(b',');
            }
            C::write_json(from, out)?;
        }
        out.push(b']');
        Some(())
    }
}

/// Values keyed by name. With `OMIT_EMPTY`, JSON omits a field without values.
#[derive(Debug)]
pub(crate) struct ByName<C, const OMIT_EMPTY: bool = false>(PhantomData<C>);

/// The missing fields, each with the reason.
pub(crate) type Reasons = ByName<Text, true>;

impl<C: Code, const OMIT_EMPTY: bool> Code for ByName<C, OMIT_EMPTY> {
    type Value = Named<C::Value>;

    fn put(values: &Named<C::Value>, out: &mut Vec<u8>) {
        let mut list = OpenList::begin(out);
        for (name, value) in values {
            put_bytes(name.as_bytes(), out);
            C::put(value, out);
            list.item();
        }
        list.end(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Named<C::Value>> {
        (0..from.count()?).map(|_| Some((Text::take(from)?, C::take(from)?))).collect()
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'{');
        for _ in 0..from.count()? {
            json::name(from.bytes()?, out);
            C::write_json(from, out)?;
        }
        out.push(b'}');
        Some(())
    }

    fn write_field(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        if OMIT_EMPTY && from.clone().count()? == 0 {
            return from.count().map(drop);
        }
        json::key(key, out);
        Self::write_json(from, out)
    }
}

/// Tells serde whether to omit a field from JSON.
pub(crate) trait Absent {
    fn is_absent(&self) -> bool {
        false
    }
}

impl Absent for u64 {}
impl Absent for f64 {}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
