//! Chooses at compile time how to record a value, by the best method that its type supports and
//! without trait bounds (autoref specialisation).
//!
//! The macro calls `(&&&&&&&&&Wrap(value)).runlore_encode(to)` with every trait below in scope.
//! Method lookup strips one reference after the other and takes the first implementation that fits.
//! The number of references in front of `Wrap` in an implementation is therefore its rank.

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use super::inspect::encode_tensors;
use runlore_core::record::{Absent, CaptureValue, Encoder, Lock, Probe, Tensors, describes};

/// A reference to a value to record.
#[derive(Debug)]
pub struct Wrap<'a, T: ?Sized>(pub &'a T);

/// The traits of the dispatch, highest rank first.
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
            /// Encodes the value.
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

/// Records tensors, and values composed of tensors, by their facts.
pub trait ByTensor {
    /// Encodes the value.
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
    /// Records types that implement `CaptureValue`, among them numbers, text and slices.
    ByFacts, [&&&&&&&], [T: CaptureValue + ?Sized], T, |value, to| {
        if !value.is_whole() {
            to.withhold_hash();
        }
        value.capture(to);
    }
);
level!(
    /// Records the content of a lock by its `Serialize`. Never waits for the lock.
    ByLockSerialize, [&&&&&&], [T: Lock<Inner: Serialize> + ?Sized], T,
    |value, to| locked(value, to, |inner, to| to.serialize(inner))
);
level!(
    /// Records the content of a lock by its `Debug`.
    ByLockDebug, [&&&&&], [T: Lock<Inner: Debug> + ?Sized], T,
    |value, to| locked(value, to, debug)
);
level!(
    /// Records the content of a lock by the name of its type.
    ByLock, [&&&&], [T: Lock + ?Sized], T,
    |value, to| locked(value, to, |_, to| to.type_name(std::any::type_name::<T>()))
);
level!(
    /// Records any `Serialize`.
    BySerialize, [&&&], [T: Serialize + ?Sized], T, |value, to| serialize(value, to)
);
level!(
    /// Records the target of an `Arc` or `Rc` by its `Serialize`.
    ByShared, [&&], [T: Shared<Inner: Serialize> + ?Sized], T, |value, to| to.serialize(value.shared())
);
level!(
    /// Records any `Debug`.
    ByDebug, [&], [T: Debug + ?Sized], T, |value, to| debug(value, to)
);
level!(
    /// Records all other types by their names.
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

/// Returns the type's name if it contains a tensor of a framework, and `None` otherwise. Such
/// values are recorded by name: Burn's `Serialize` and candle's `Debug` show the data, which waits
/// for the device. Recording facts instead needs the crate for that framework: `tensors =
/// runlore_burn`.
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

/// A pointer whose `Serialize` depends on a serde feature that may be off.
pub trait Shared {
    /// The type of the target.
    type Inner: ?Sized;
    /// Returns the target.
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
