//! How each kind of field is written, read, and told to others: as JSON, or in any other [`Form`].
//!
//! A part ([`part!`](super::part)) names the code of each of its fields; everything else follows from that.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bytes::{OpenList, Reader, put_bytes, put_float, put_integer};
use super::form::Form;
use super::named::Named;

/// One way to write a value. Every value has at least one byte.
pub(in crate::telemetry) trait Code {
    /// What it stands for.
    type Value;
    /// A value that was passed over, and can still be told.
    type Seen<'a>;

    fn put(value: &Self::Value, out: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Option<Self::Value>;
    /// Passes over the value that comes, and remembers what is needed to tell it.
    fn see<'a>(from: &mut Reader<'a>) -> Option<Self::Seen<'a>>;
    /// Tells a value that was passed over.
    fn tell<F: Form>(seen: &Self::Seen<'_>, to: &mut F) -> Option<()>;

    /// Whether there is nothing to tell in an object.
    fn is_absent(_: &Self::Seen<'_>) -> bool {
        false
    }

    /// Tells the value that comes.
    #[inline]
    fn pass<F: Form>(from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        Self::tell(&Self::see(from)?, to)
    }

    /// Passes over the value that comes.
    #[inline]
    fn skip(from: &mut Reader<'_>) -> Option<()> {
        Self::see(from).map(drop)
    }

    /// Tells the value that comes as an entry of an object, unless there is none. The key is as [`Form::key`] takes it.
    #[inline]
    fn entry<F: Form>(key: &'static str, from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        to.key(key);
        Self::pass(from, to)
    }
}

/// A whole number.
#[derive(Debug)]
pub(in crate::telemetry) struct Integer;

impl Code for Integer {
    type Value = u64;
    type Seen<'a> = u64;

    fn put(value: &u64, out: &mut Vec<u8>) {
        put_integer(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<u64> {
        from.integer()
    }

    #[inline]
    fn see(from: &mut Reader<'_>) -> Option<u64> {
        from.integer()
    }

    #[inline]
    fn tell<F: Form>(seen: &u64, to: &mut F) -> Option<()> {
        to.integer(*seen);
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
    type Seen<'a> = u64;

    fn put(value: &f64, out: &mut Vec<u8>) {
        put_integer(Self::whole(*value), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<f64> {
        Some(from.integer()? as f64 / Self::UNIT as f64)
    }

    #[inline]
    fn see(from: &mut Reader<'_>) -> Option<u64> {
        from.integer()
    }

    #[inline]
    fn tell<F: Form>(seen: &u64, to: &mut F) -> Option<()> {
        to.decimal::<DIGITS>(*seen);
        Some(())
    }
}

/// Any number.
#[derive(Debug)]
pub(in crate::telemetry) struct Float;

impl Code for Float {
    type Value = f64;
    type Seen<'a> = f64;

    fn put(value: &f64, out: &mut Vec<u8>) {
        put_float(*value, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<f64> {
        from.float()
    }

    #[inline]
    fn see(from: &mut Reader<'_>) -> Option<f64> {
        from.float()
    }

    #[inline]
    fn tell<F: Form>(seen: &f64, to: &mut F) -> Option<()> {
        to.float(*seen);
        Some(())
    }
}

/// Text. Names of devices and files may hold any bytes; what is no text is replaced when they are read.
#[derive(Debug)]
pub(in crate::telemetry) struct Text;

impl Code for Text {
    type Value = String;
    type Seen<'a> = &'a [u8];

    fn put(value: &String, out: &mut Vec<u8>) {
        put_bytes(value.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<String> {
        Some(String::from_utf8_lossy(from.bytes()?).into_owned())
    }

    fn see<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
        from.bytes()
    }

    fn tell<F: Form>(seen: &&[u8], to: &mut F) -> Option<()> {
        to.text(seen);
        Some(())
    }
}

/// JSON, for parts that others declare.
#[derive(Debug)]
pub(in crate::telemetry) struct Json<T>(PhantomData<T>);

impl<T: Serialize + DeserializeOwned> Code for Json<T> {
    type Value = T;
    type Seen<'a> = &'a [u8];

    fn put(value: &T, out: &mut Vec<u8>) {
        put_bytes(&serde_json::to_vec(value).unwrap_or_default(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<T> {
        serde_json::from_slice(from.bytes()?).ok()
    }

    fn see<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
        from.bytes()
    }

    fn tell<F: Form>(seen: &&[u8], to: &mut F) -> Option<()> {
        // Read and written again, because damaged bytes must not become a damaged line.
        let value: T = serde_json::from_slice(seen).ok()?;
        to.any(&value)
    }
}

/// A value that may be missing.
#[derive(Debug)]
pub(in crate::telemetry) struct Maybe<C>(PhantomData<C>);

impl<C: Code> Code for Maybe<C> {
    type Value = Option<C::Value>;
    type Seen<'a> = Option<C::Seen<'a>>;

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
    fn see<'a>(from: &mut Reader<'a>) -> Option<Option<C::Seen<'a>>> {
        match from.byte()? {
            0 => Some(None),
            1 => C::see(from).map(Some),
            _ => None,
        }
    }

    #[inline]
    fn tell<F: Form>(seen: &Option<C::Seen<'_>>, to: &mut F) -> Option<()> {
        match seen {
            Some(seen) => C::tell(seen, to),
            None => {
                to.null();
                Some(())
            }
        }
    }

    fn is_absent(seen: &Option<C::Seen<'_>>) -> bool {
        seen.as_ref().is_none_or(C::is_absent)
    }

    fn skip(from: &mut Reader<'_>) -> Option<()> {
        match from.byte()? {
            0 => Some(()),
            1 => C::skip(from),
            _ => None,
        }
    }

    #[inline]
    fn entry<F: Form>(key: &'static str, from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        match from.byte()? {
            0 => Some(()),
            1 => C::entry(key, from, to),
            _ => None,
        }
    }
}

/// A list.
#[derive(Debug)]
pub(in crate::telemetry) struct List<C>(PhantomData<C>);

impl<C: Code> Code for List<C> {
    type Value = Vec<C::Value>;
    type Seen<'a> = Items<'a>;

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

    fn see<'a>(from: &mut Reader<'a>) -> Option<Items<'a>> {
        Items::see(from, C::skip)
    }

    fn tell<F: Form>(seen: &Items<'_>, to: &mut F) -> Option<()> {
        let mut items = seen.items.clone();
        Self::list(seen.count, &mut items, to)
    }

    fn pass<F: Form>(from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        let count = from.count()?;
        Self::list(count, from, to)
    }
}

impl<C: Code> List<C> {
    fn list<F: Form>(count: usize, from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        let open = to.open_list();
        for index in 0..count {
            to.item(index);
            C::pass(from, to)?;
        }
        to.close_list(open);
        Some(())
    }
}

/// Items that were passed over.
#[derive(Debug)]
pub(in crate::telemetry) struct Items<'a> {
    count: usize,
    items: Reader<'a>,
}

impl<'a> Items<'a> {
    fn see(from: &mut Reader<'a>, skip: impl Fn(&mut Reader<'a>) -> Option<()>) -> Option<Self> {
        let count = from.count()?;
        let items = from.clone();
        (0..count).try_for_each(|_| skip(from))?;
        Some(Self { count, items })
    }
}

/// Values by name.
#[derive(Debug)]
pub(in crate::telemetry) struct ByName<C>(PhantomData<C>);

impl<C: Code> Code for ByName<C> {
    type Value = Named<C::Value>;
    type Seen<'a> = Items<'a>;

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

    fn see<'a>(from: &mut Reader<'a>) -> Option<Items<'a>> {
        Items::see(from, |from| {
            Text::skip(from)?;
            C::skip(from)
        })
    }

    fn tell<F: Form>(seen: &Items<'_>, to: &mut F) -> Option<()> {
        let mut items = seen.items.clone();
        Self::object(seen.count, &mut items, to)
    }

    fn pass<F: Form>(from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        let count = from.count()?;
        Self::object(count, from, to)
    }
}

impl<C: Code> ByName<C> {
    fn object<F: Form>(count: usize, from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        let open = to.open_names();
        for _ in 0..count {
            to.name(from.bytes()?);
            C::pass(from, to)?;
        }
        to.close_names(open);
        Some(())
    }
}

/// Texts by name, left out where there are none.
#[derive(Debug)]
pub(in crate::telemetry) struct Reasons;

impl Code for Reasons {
    type Value = Named<String>;
    type Seen<'a> = Items<'a>;

    fn put(values: &Named<String>, out: &mut Vec<u8>) {
        ByName::<Text>::put(values, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Named<String>> {
        ByName::<Text>::take(from)
    }

    fn see<'a>(from: &mut Reader<'a>) -> Option<Items<'a>> {
        ByName::<Text>::see(from)
    }

    fn tell<F: Form>(seen: &Items<'_>, to: &mut F) -> Option<()> {
        ByName::<Text>::tell(seen, to)
    }

    fn is_absent(seen: &Items<'_>) -> bool {
        seen.count == 0
    }

    fn entry<F: Form>(key: &'static str, from: &mut Reader<'_>, to: &mut F) -> Option<()> {
        let count = from.count()?;
        if count == 0 {
            return Some(());
        }
        to.key(key);
        ByName::<Text>::object(count, from, to)
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
