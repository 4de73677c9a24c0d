//! Locks, which are looked into without waiting: whoever holds one may be who calls.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock, TryLockError};

use serde::{Serialize, Serializer};

/// The name under which a locked value reaches a serializer. Ours records why there is no value.
pub(crate) const LOCKED: &str = "runlore::Locked";

/// Something that may be locked by somebody else: waiting for it could wait for ever.
pub trait Lock {
    /// What the lock guards.
    type Inner: ?Sized;
    /// Shows what is inside if nobody holds the lock; says whether that was so.
    fn look(&self, see: &mut dyn FnMut(&Self::Inner)) -> bool;
}

impl<T: ?Sized> Lock for Mutex<T> {
    type Inner = T;
    fn look(&self, see: &mut dyn FnMut(&T)) -> bool {
        // A poisoned lock still holds a value worth a record.
        match self.try_lock() {
            Ok(inner) => see(&inner),
            Err(TryLockError::Poisoned(inner)) => see(&inner.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

impl<T: ?Sized> Lock for RwLock<T> {
    type Inner = T;
    fn look(&self, see: &mut dyn FnMut(&T)) -> bool {
        match self.try_read() {
            Ok(inner) => see(&inner),
            Err(TryLockError::Poisoned(inner)) => see(&inner.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

impl<T: ?Sized> Lock for RefCell<T> {
    type Inner = T;
    fn look(&self, see: &mut dyn FnMut(&T)) -> bool {
        self.try_borrow().map(|inner| see(&inner)).is_ok()
    }
}

macro_rules! lock_behind {
    ($($pointer:ty),*) => {
        $(impl<T: Lock + ?Sized> Lock for $pointer {
            type Inner = T::Inner;
            fn look(&self, see: &mut dyn FnMut(&T::Inner)) -> bool {
                (**self).look(see)
            }
        })*
    };
}

lock_behind!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

/// Serializes what a lock guards if nobody holds the lock, and `"<locked>"` otherwise. It never waits.
///
/// serde's own `Serialize` of a `Mutex` or `RwLock` waits for the lock. Runlore serializes the arguments of an
/// annotated function, so a caller that holds the lock of a field would wait for itself. This function is for fields
/// of your own types:
///
/// ```
/// use std::sync::Mutex;
///
/// #[derive(serde::Serialize)]
/// struct Cache {
///     name: String,
///     #[serde(serialize_with = "runlore::try_lock")]
///     entries: Mutex<Vec<u32>>,
/// }
///
/// let cache = Cache { name: "rates".to_owned(), entries: Mutex::new(vec![1, 2]) };
/// assert_eq!(serde_json::to_string(&cache)?, r#"{"name":"rates","entries":[1,2]}"#);
/// let held = cache.entries.lock().unwrap();
/// assert_eq!(serde_json::to_string(&cache)?, r#"{"name":"rates","entries":"<locked>"}"#);
/// # drop(held);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// In a record a locked value is null, with a reason in `unavailable`, and the value around it has no hash.
/// [`TryLock`] is the same for a `Serialize` written by hand. A `Mutex`, `RwLock` or `RefCell` that is itself an
/// argument needs neither: Runlore never waits for it.
///
/// # Errors
///
/// Those of the serializer.
pub fn try_lock<L, S>(lock: &L, serializer: S) -> Result<S::Ok, S::Error>
where
    L: Lock<Inner: Serialize> + ?Sized,
    S: Serializer,
{
    let (mut serializer, mut serialized) = (Some(serializer), None);
    lock.look(&mut |inner| {
        serialized = serializer.take().map(|serializer| inner.serialize(serializer));
    });
    match (serialized, serializer) {
        (Some(result), _) => result,
        (None, Some(serializer)) => serializer.serialize_newtype_struct(LOCKED, "<locked>"),
        (None, None) => Err(serde::ser::Error::custom("the lock showed nothing")),
    }
}

/// A `Mutex`, `RwLock` or `RefCell` whose `Serialize` and `Debug` never wait. See [`try_lock`].
///
/// ```
/// use runlore::TryLock;
/// use serde::ser::{Serialize, SerializeStruct, Serializer};
/// use std::sync::RwLock;
///
/// struct Cache {
///     entries: RwLock<Vec<u32>>,
/// }
///
/// impl Serialize for Cache {
///     fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
///         let mut cache = serializer.serialize_struct("Cache", 1)?;
///         cache.serialize_field("entries", &TryLock(&self.entries))?;
///         cache.end()
///     }
/// }
/// ```
pub struct TryLock<'a, L: ?Sized>(
    /// The lock.
    pub &'a L,
);

impl<L: Lock<Inner: Serialize> + ?Sized> Serialize for TryLock<'_, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        try_lock(self.0, serializer)
    }
}

impl<L: Lock<Inner: fmt::Debug> + ?Sized> fmt::Debug for TryLock<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = Ok(());
        if !self.0.look(&mut |inner| shown = inner.fmt(f)) {
            return f.write_str("<locked>");
        }
        shown
    }
}
