//! A value that each process has for itself, even after a fork.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is created when a process first uses it.
///
/// It needs no lock: a lock that is held during a fork would stay locked in the child.
#[derive(Debug)]
pub(super) struct PerProcess<T> {
    current: AtomicPtr<(u32, T)>,
    owned: PhantomData<T>,
}

impl<T: Default> PerProcess<T> {
    pub(super) fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    /// Returns the value of the process `pid`, which must be the calling process.
    pub(super) fn of(&self, pid: u32) -> &T {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: null, or a value that was leaked below and is freed with `self` at the earliest.
        match unsafe { current.as_ref() } {
            Some((of, value)) if *of == pid => value,
            _ => self.make(pid, current),
        }
    }

    /// Leaves the parent's value untouched: its locks may be held by threads that the child does
    /// not have.
    #[cold]
    fn make(&self, pid: u32, instead_of: *mut (u32, T)) -> &T {
        let new = Box::into_raw(Box::new((pid, T::default())));
        let swapped =
            self.current.compare_exchange(instead_of, new, Ordering::AcqRel, Ordering::Acquire);
        let current = swapped.map_or_else(
            |current| {
                // SAFETY: no other thread has seen `new`.
                drop(unsafe { Box::from_raw(new) });
                current
            },
            |_| new,
        );
        // SAFETY: as in `of`. It is not null, because a thread of this process has stored it.
        unsafe { &(*current).1 }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        if !current.is_null() {
            // SAFETY: `make` leaked it, and `&mut self` means that nobody can use it any more.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_process_finds_its_own_again_and_a_child_gets_another() {
        let value = PerProcess::<Mutex<u32>>::new();
        *value.of(1).lock().unwrap() = 5;
        let held = value.of(1).lock().unwrap();
        assert_eq!(*held, 5);
        assert_eq!(*value.of(2).try_lock().expect("nobody holds the child's"), 0);
        *value.of(2).lock().unwrap() = 7;
        assert_eq!(*value.of(2).lock().unwrap(), 7);
    }
}
