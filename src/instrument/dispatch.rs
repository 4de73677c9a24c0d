//! How a value is recorded: by the best its type offers, chosen at compile time, with no bound on it.
//!
//! The macro calls `(&&&&&&&&&Wrap(value)).runlore_encode(to)` with every trait below in scope. The compiler takes the first
//! implementation that fits while it strips one reference after the other, so the number of references in front
//! of `Wrap` in an implementation is its rank.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use super::inspect::encode_tensors;
use crate::record::{
    Absent, CaptureValue, Encoder, Lock, Probe, Tensors, describes, numeric_slice,
};

/// A reference to a value that is to be recorded.
#[derive(Debug)]
pub struct Wrap<'a, T: ?Sized>(pub &'a T);

/// The traits of the dispatch, best first.
pub mod levels {
    pub use super::{
        ByDebug, ByFacts, ByLock, ByLockDebug, ByLockSerialize, BySerialize, ByShared, ByTensor,
        ByTypeName, Wrap,
    };
}

macro_rules! level {
    ($(#[$doc:meta])* $trait:ident, [$($refs:tt)*], [$($generics:tt)*], $type:ty, |$value:ident, $to:ident| $body:expr) => {
        $(#[$doc])*
        pub trait $trait {
            /// Writes the value.
            fn runlore_encode(&self, to: &mut Encoder<'_>);
        }

        impl<$($generics)*> $trait for $($refs)* Wrap<'_, $type> {
            #[inline]
            fn runlore_encode(&self, $to: &mut Encoder<'_>) {
                let $value = self.0;
                $body
            }
        }
    };
}

/// Tensors, and what is put together of them, by facts about them.
pub trait ByTensor {
    /// Writes the value.
    fn runlore_encode(&self, to: &mut Encoder<'_>);
}

impl<'a, T: ?Sized> ByTensor for &&&&&&&&Wrap<'a, T>
where
    Probe<'a, T>: Tensors,
{
    fn runlore_encode(&self, to: &mut Encoder<'_>) {
        if !encode_tensors(to, |see| Probe(self.0).each(see)) {
            to.null();
        }
    }
}

level!(
    /// Types that say themselves what to record, numbers, text and slices among them.
    ByFacts, [&&&&&&&], [T: CaptureValue + ?Sized], T, |value, to| {
        if !value.is_whole() {
            to.withhold_hash();
        }
        value.capture(to);
    }
);
level!(
    /// Locks are looked into without waiting; what is inside, by its `Serialize`.
    ByLockSerialize, [&&&&&&], [T: Lock<Inner: Serialize> + ?Sized], T,
    |value, to| locked(value, to, |inner, to| to.serialize(inner))
);
level!(
    /// What is inside a lock, by its `Debug`.
    ByLockDebug, [&&&&&], [T: Lock<Inner: Debug> + ?Sized], T,
    |value, to| locked(value, to, debug)
);
level!(
    /// What is inside a lock, by the name of its type.
    ByLock, [&&&&], [T: Lock + ?Sized], T,
    |value, to| locked(value, to, |_, to| to.type_name(std::any::type_name::<T>()))
);
level!(
    /// Any `Serialize`.
    BySerialize, [&&&], [T: Serialize + ?Sized], T, |value, to| serialize(value, to)
);
level!(
    /// What `Arc` and `Rc` share, by its `Serialize`.
    ByShared, [&&], [T: Shared<Inner: Serialize> + ?Sized], T, |value, to| to.serialize(value.shared())
);
level!(
    /// Any `Debug`.
    ByDebug, [&], [T: Debug + ?Sized], T, |value, to| debug(value, to)
);
level!(
    /// The rest.
    ByTypeName, [], [T: ?Sized], T, |_value, to| to.type_name(std::any::type_name::<T>())
);

fn serialize<T: Serialize + ?Sized>(value: &T, to: &mut Encoder<'_>) {
    match tensor_of_a_framework::<T>() {
        Some(name) => to.type_name(name),
        None => to.serialize(value),
    }
}

fn debug<T: Debug + ?Sized>(value: &T, to: &mut Encoder<'_>) {
    match tensor_of_a_framework::<T>() {
        Some(name) => to.type_name(name),
        None => {
            if describes::<T>() || std::any::type_name::<T>().contains("std::fs::") {
                to.withhold_hash();
            }
            to.debug(&value);
        }
    }
}

/// The name of a type that holds a tensor of a framework. Burn's `Serialize` and candle's `Debug` show the data, for which the device
/// would be waited for; facts instead of it need the crate that knows the framework: `tensors = runlore_burn`.
fn tensor_of_a_framework<T: ?Sized>() -> Option<&'static str> {
    let name = std::any::type_name::<T>();
    let tensors =
        ["burn_tensor::", "candle_core::tensor::", "candle_core::variable::", "tch::wrappers::"];
    tensors.iter().any(|tensor| name.contains(tensor)).then_some(name)
}

fn locked<T: Lock + ?Sized>(
    lock: &T,
    to: &mut Encoder<'_>,
    encode: impl FnOnce(&T::Inner, &mut Encoder<'_>),
) {
    let mut encode = Some(encode);
    let open = lock.look(&mut |inner| {
        if let Some(encode) = encode.take() {
            encode(inner, to);
        }
    });
    if !open {
        to.absent(Absent::Locked);
    }
}

/// A pointer whose `Serialize` depends on a feature that somebody else may or may not have turned on.
pub trait Shared {
    /// What is pointed at.
    type Inner: ?Sized;
    /// What is pointed at.
    fn shared(&self) -> &Self::Inner;
}

impl<T: ?Sized> Shared for Rc<T> {
    type Inner = T;
    fn shared(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Shared for Arc<T> {
    type Inner = T;
    fn shared(&self) -> &T {
        self
    }
}

impl<T: Shared + ?Sized> Shared for &T {
    type Inner = T::Inner;
    fn shared(&self) -> &T::Inner {
        (**self).shared()
    }
}

macro_rules! numbers {
    ($($type:ident => $encode:ident as $cast:ident),*) => {
        $(impl CaptureValue for $type {
            #[inline]
            fn capture(&self, to: &mut Encoder<'_>) {
                to.$encode(*self as $cast);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                true
            }
        })*
    };
}

numbers!(
    i8 => i64 as i64, i16 => i64 as i64, i32 => i64 as i64, i64 => i64 as i64, isize => i64 as i64,
    u8 => u64 as u64, u16 => u64 as u64, u32 => u64 as u64, u64 => u64 as u64, usize => u64 as u64,
    i128 => i128 as i128, u128 => u128 as u128, f32 => f32 as f32, f64 => f64 as f64, bool => bool as bool
);

impl CaptureValue for () {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.unit();
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for str {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for String {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

/// A path has no hash: it names a file, whose bytes change.
impl CaptureValue for Path {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.os_str(self.as_os_str());
    }
}

impl CaptureValue for PathBuf {
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_path().capture(to);
    }
}

impl CaptureValue for OsStr {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.os_str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for OsString {
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_os_str().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for [u8] {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.bytes(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

macro_rules! slices {
    ($($type:ty),*) => {
        $(impl CaptureValue for [$type] {
            fn capture(&self, to: &mut Encoder<'_>) {
                numeric_slice(self, to);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                true
            }
        })*
    };
}

slices!(f64, f32, i64, i32, i16, i8, u64, u32, u16, isize, usize);

impl<T> CaptureValue for Vec<T>
where
    [T]: CaptureValue,
{
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_slice().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.as_slice().is_whole()
    }
}

impl<T, const N: usize> CaptureValue for [T; N]
where
    [T]: CaptureValue,
{
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_slice().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.as_slice().is_whole()
    }
}

macro_rules! captured_behind {
    ($($pointer:ty),*) => {
        $(impl<T: CaptureValue + ?Sized> CaptureValue for $pointer {
            #[inline]
            fn capture(&self, to: &mut Encoder<'_>) {
                (**self).capture(to);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                (**self).is_whole()
            }
        })*
    };
}

captured_behind!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);
