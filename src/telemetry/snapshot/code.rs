//! How each kind of field is written, read, and turned into JSON text.
//!
//! A part (`part!`) names the code of each of its fields; everything else follows from that, so that what is written, what
//! is read and what JSON says cannot differ.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bytes::{OpenList, Reader, put_bytes, put_float, put_integer};
use super::json;
use super::named::Named;

/// One way to write a value. Every value has at least one byte.
pub(in crate::telemetry) trait Code {
    /// What it stands for.
    type Value;

    fn put(value: &Self::Value, out: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Option<Self::Value>;
    /// Appends the JSON text of the value that comes.
    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()>;

    /// Passes over the value that comes.
    fn skip(from: &mut Reader<'_>) -> Option<()> {
        Self::take(from).map(drop)
    }

    /// Appends an entry of an object, unless there is no value. The key ends with `":`.
    #[inline]
    fn entry(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::key(key, out);
        Self::json(from, out)
    }
}

/// A whole number.
#[derive(Debug)]
pub(in crate::telemetry) struct Integer;

impl Code for Integer {
    type Value = u64;

    fn put(value: &u64, out: &mut Vec<u8>) {
        put_integer(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<u64> {
        from.integer()
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::integer(from.integer()?, out);
        Some(())
    }
}

/// A number with at most this many digits after the point, written as a whole number.
#[derive(Debug)]
pub(in crate::telemetry) struct Decimal<const DIGITS: u32>;

/// Percentages.
pub(in crate::telemetry) type Tenths = Decimal<1>;
/// Seconds of which the kernel counts hundredths.
pub(in crate::telemetry) type Hundredths = Decimal<2>;
/// Seconds of which the kernel counts millionths.
pub(in crate::telemetry) type Millionths = Decimal<6>;

impl<const DIGITS: u32> Decimal<DIGITS> {
    const UNIT: u64 = 10_u64.pow(DIGITS);

    /// The whole number for a value; what cannot be written so becomes the nearest that can.
    pub(in crate::telemetry) fn whole(value: f64) -> u64 {
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

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::decimal::<DIGITS>(from.integer()?, out);
        Some(())
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        from.integer().map(drop)
    }
}

/// Any number.
#[derive(Debug)]
pub(in crate::telemetry) struct Float;

impl Code for Float {
    type Value = f64;

    fn put(value: &f64, out: &mut Vec<u8>) {
        put_float(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<f64> {
        from.float()
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::by_serde(&from.float()?, out)
    }
}

/// Text. Names of devices and files may hold any bytes; what is no text is replaced when they are read.
#[derive(Debug)]
pub(in crate::telemetry) struct Text;

impl Code for Text {
    type Value = String;

    fn put(value: &String, out: &mut Vec<u8>) {
        put_bytes(value.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<String> {
        Some(String::from_utf8_lossy(from.bytes()?).into_owned())
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::text(from.bytes()?, out)
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        from.bytes().map(drop)
    }
}

/// JSON, for parts that others declare.
#[derive(Debug)]
pub(in crate::telemetry) struct Json<T>(PhantomData<T>);

impl<T: Serialize + DeserializeOwned> Code for Json<T> {
    type Value = T;

    fn put(value: &T, out: &mut Vec<u8>) {
        put_bytes(&serde_json::to_vec(value).unwrap_or_default(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<T> {
        serde_json::from_slice(from.bytes()?).ok()
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        // Read and written again, because damaged bytes must not become a damaged line.
        json::by_serde(&Self::take(from)?, out)
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        from.bytes().map(drop)
    }
}

/// A value that may be missing.
#[derive(Debug)]
pub(in crate::telemetry) struct Maybe<C>(PhantomData<C>);

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

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        match from.byte()? {
            0 => out.extend_from_slice(b"null"),
            1 => C::json(from, out)?,
            _ => return None,
        }
        Some(())
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        match from.byte()? {
            0 => Some(()),
            1 => C::skip(from),
            _ => None,
        }
    }

    #[inline]
    fn entry(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        match from.byte()? {
            0 => Some(()),
            1 => C::entry(key, from, out),
            _ => None,
        }
    }
}

/// A list.
#[derive(Debug)]
pub(in crate::telemetry) struct List<C>(PhantomData<C>);

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

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'[');
        for at in 0..from.count()? {
            if at > 0 {
                out.push(b',');
            }
            C::json(from, out)?;
        }
        out.push(b']');
        Some(())
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        (0..from.count()?).try_for_each(|_| C::skip(from))
    }
}

/// Values by name.
#[derive(Debug)]
pub(in crate::telemetry) struct ByName<C>(PhantomData<C>);

impl<C: Code> Code for ByName<C> {
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

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        let count = from.count()?;
        Self::object(count, from, out)
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        (0..from.count()?).try_for_each(|_| {
            Text::skip(from)?;
            C::skip(from)
        })
    }
}

impl<C: Code> ByName<C> {
    fn object(count: usize, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'{');
        for at in 0..count {
            if at > 0 {
                out.push(b',');
            }
            Text::json(from, out)?;
            out.push(b':');
            C::json(from, out)?;
        }
        out.push(b'}');
        Some(())
    }
}

/// Texts by name, left out of JSON where there are none.
#[derive(Debug)]
pub(in crate::telemetry) struct Reasons;

impl Code for Reasons {
    type Value = Named<String>;

    fn put(values: &Named<String>, out: &mut Vec<u8>) {
        ByName::<Text>::put(values, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Named<String>> {
        ByName::<Text>::take(from)
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        ByName::<Text>::json(from, out)
    }

    fn entry(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        let count = from.count()?;
        if count == 0 {
            return Some(());
        }
        json::key(key, out);
        ByName::<Text>::object(count, from, out)
    }
}

/// Whether a field is left out of JSON.
pub(in crate::telemetry) trait Absent {
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

/// Declares a part: its type, how it is written, read, and turned into JSON. A field says what it is to its users and,
/// after `as`, how it is written.
macro_rules! part {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty as $code:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::telemetry::snapshot::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        impl $crate::telemetry::snapshot::Absent for $name {}

        impl $name {
            /// Passes over the fields before this one.
            #[allow(dead_code, reason = "few parts need it")]
            pub(in crate::telemetry) fn skip_to(
                field: &str,
                from: &mut $crate::telemetry::snapshot::Reader<'_>,
            ) -> Option<()> {
                $(
                    if field == stringify!($field) {
                        return Some(());
                    }
                    <$code as $crate::telemetry::snapshot::Code>::skip(from)?;
                )*
                None
            }
        }

        impl $crate::telemetry::snapshot::Code for $name {
            type Value = Self;

            fn put(value: &Self, out: &mut Vec<u8>) {
                $(<$code as $crate::telemetry::snapshot::Code>::put(&value.$field, out);)*
            }

            fn take(from: &mut $crate::telemetry::snapshot::Reader<'_>) -> Option<Self> {
                Some(Self { $($field: <$code as $crate::telemetry::snapshot::Code>::take(from)?,)* })
            }

            fn skip(from: &mut $crate::telemetry::snapshot::Reader<'_>) -> Option<()> {
                $(<$code as $crate::telemetry::snapshot::Code>::skip(from)?;)*
                Some(())
            }

            fn json(
                from: &mut $crate::telemetry::snapshot::Reader<'_>,
                out: &mut Vec<u8>,
            ) -> Option<()> {
                out.push(b'{');
                $({
                    const KEY: &str =
                        $crate::telemetry::snapshot::key_of(concat!(stringify!($field), "\":"));
                    <$code as $crate::telemetry::snapshot::Code>::entry(KEY, from, out)?;
                })*
                out.push(b'}');
                Some(())
            }
        }
    };
}

pub(in crate::telemetry) use part;

/// A field's name without the mark that lets it be a keyword.
pub(in crate::telemetry) const fn key_of(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
