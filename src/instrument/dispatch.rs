//! How a value is recorded: by the best its type offers, chosen at compile time, with no bound on it.
//!
//! The macro calls `(&&&&&&&&&Wrap(value)).runlore_encode(to)` with every trait below in scope. The compiler takes the first
//! implementation that fits while it strips one reference after the other, so the number of references in front
//! of `Wrap` in an implementation is its rank.

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use super::inspect::encode_tensors;
use runlore_core::record::{Absent, CaptureValue, Encoder, Lock, Probe, Tensors, describes};

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
