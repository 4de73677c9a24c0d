//! Reads values behind locks without waiting, because the calling thread may hold the lock itself.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock, TryLockError};

use serde::{Serialize, Serializer};

/// The newtype name under which [`try_lock`] serializes a locked value. Runlore's own serializer
/// recognizes it and records why the value is missing.
pub(super) const LOCKED: &str = "runlore::Locked";

/// A lock that Runlore reads without waiting. Waiting could block forever, because another thread
/// or the caller itself may hold it.
pub trait Lock {
    /// The type of the value that the lock protects.
    type Inner: ?Sized;
    /// Calls `see` with the value unless the lock is held. Returns whether `see` was called.
    fn look(&self, see: &mut dyn FnMut(&Self::Inner)) -> bool;
}

impl<T: ?Sized> Lock for Mutex<T> {
    type Inner = T;
    fn look(&self, see: &mut dyn FnMut(&T)) -> bool {
        // The value of a poisoned lock is still worth recording.
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

/// Serializes the value behind a lock, or `"<locked>"` if the lock is held. It never waits.
///
/// serde's own `Serialize` for `Mutex` and `RwLock` waits for the lock. Runlore serializes the
/// arguments of an annotated function, so a caller that holds the lock of a field would deadlock.
/// Use this function for fields of your own types:
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
/// In a record, a locked value is null with a reason in `unavailable`, and the value around it has
/// no hash. Use [`TryLock`] for the same in a handwritten `Serialize`. A `Mutex`, `RwLock` or
/// `RefCell` that is itself an argument needs neither: Runlore never waits for it.
///
/// # Errors
///
/// Returns the serializer's errors.
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

/// A wrapper for a `Mutex`, `RwLock` or `RefCell` whose `Serialize` and `Debug` never wait. See
/// [`try_lock`].
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
