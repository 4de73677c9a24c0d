//! Lazily created values, and locks, that stay usable in a forked child.
//!
//! The standard library's types stay in the state in which another thread had them when the process
//! forked. A child that needs a value which its parent was just creating would block for ever. Here
//! the child creates the value itself.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::this_process;

/// A value that is created on first use and then lives as long as the process. For statics only: it
/// is never dropped.
#[derive(Debug)]
pub struct Once<T> {
    value: AtomicPtr<T>,
    making: Lock,
    owned: PhantomData<T>,
}

impl<T: Send + Sync> Once<T> {
    pub const fn new() -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), making: Lock::new(), owned: PhantomData }
    }

    /// Returns the value. `None` if it was not created yet.
    #[inline]
    pub fn get(&'static self) -> Option<&'static T> {
        // SAFETY: the pointer is null or points to a value that was leaked below.
        unsafe { self.value.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value, and creates it with `make` on first use. Blocks while another thread of
    /// this process creates it.
    #[inline]
    pub fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        match self.get() {
            Some(value) => value,
            None => self.make(make),
        }
    }

    #[cold]
    fn make(&'static self, make: impl FnOnce() -> T) -> &'static T {
        let _one_at_a_time = self.making.lock();
        if let Some(value) = self.get() {
            return value;
        }
        let value = Box::leak(Box::new(make()));
        self.value.store(value, Ordering::Release);
        value
    }
}

impl<T: Send + Sync> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A lock that is free in a forked child, even if the parent held it. For work that takes too long
/// to wait for before every fork.
#[derive(Debug)]
pub struct Lock {
    /// The lock of the process that used it last. Locks of parent processes are never freed,
    /// because threads of the parent may hold them.
    lock: AtomicPtr<(u32, Mutex<()>)>,
}

impl Lock {
    pub const fn new() -> Self {
        Self { lock: AtomicPtr::new(ptr::null_mut()) }
    }

    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.of_process().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock. `None` if another thread of this process holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self.of_process().try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        }
    }

    fn of_process(&self) -> &Mutex<()> {
        let process = this_process::id();
        loop {
            let current = self.lock.load(Ordering::Acquire);
            // SAFETY: the pointer is null or points to a lock that was made below and is freed only
            // with `self`.
            if let Some((of, lock)) = unsafe { current.as_ref() }
                && *of == process
            {
                return lock;
            }
            let new = Box::into_raw(Box::new((process, Mutex::new(()))));
            let swapped =
                self.lock.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_err() {
                // SAFETY: nobody else has seen the new lock.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let lock = *self.lock.get_mut();
        if !lock.is_null() {
            // SAFETY: the lock was made by `of_process`, and everyone who used it borrowed `self`.
            drop(unsafe { Box::from_raw(lock) });
        }
    }
}

/// A value behind a [`Lock`]. It is unreachable in a forked child whose parent was using it at the
/// time of the fork.
#[derive(Debug)]
pub struct Guarded<T> {
    lock: Lock,
    /// Not dropped if it is unreachable, because its state is unknown.
    value: ManuallyDrop<Mutex<T>>,
    /// The replacement for an unreachable value.
    instead: AtomicPtr<Mutex<T>>,
}

impl<T> Guarded<T> {
    pub const fn new(value: T) -> Self {
        let (value, instead) = (ManuallyDrop::new(Mutex::new(value)), ptr::null_mut());
        Self { lock: Lock::new(), value, instead: AtomicPtr::new(instead) }
    }

    /// Calls `work` with the value. `None` if the value is unreachable.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _one_at_a_time = self.lock.lock();
        self.reach().map(|mut value| work(&mut value))
    }

    /// Calls `work` with the value. Replaces an unreachable value by a new default one.
    pub fn with_or_new<R>(&self, work: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default,
    {
        let _one_at_a_time = self.lock.lock();
        if let Some(mut value) = self.reach() {
            return work(&mut value);
        }
        let mut new = T::default();
        let result = work(&mut new);
        // The old value is left as it is: a thread of the parent was using it.
        self.instead.store(Box::into_raw(Box::new(Mutex::new(new))), Ordering::Release);
        result
    }

    /// Returns the value. `None` if it is unreachable. The caller must hold `lock`, so that nobody
    /// else in this process uses the value.
    fn reach(&self) -> Option<MutexGuard<'_, T>> {
        // SAFETY: the pointer is null or points to a value that was made above and is freed only
        // with `self`.
        let instead = unsafe { self.instead.load(Ordering::Acquire).as_ref() };
        unless_held(instead.unwrap_or(&self.value))
    }
}

fn unless_held<T>(value: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match value.try_lock() {
        Ok(value) => Some(value),
        Err(TryLockError::Poisoned(value)) => Some(value.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let instead = *self.instead.get_mut();
        // SAFETY: the pointer is null or was made by `with_or_new`.
        if unsafe { instead.as_ref() }.is_some_and(|value| unless_held(value).is_some()) {
            // SAFETY: as above, and everyone who used it borrowed `self`.
            drop(unsafe { Box::from_raw(instead) });
        }
        if unless_held(&self.value).is_some() {
            // SAFETY: nothing uses the value after this.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    #[test]
    fn a_value_is_made_once_whoever_asks() {
        static MADE: AtomicU32 = AtomicU32::new(0);
        static VALUE: Once<u32> = Once::new();
        assert_eq!(VALUE.get(), None);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = VALUE.get_or_init(|| MADE.fetch_add(1, Ordering::Relaxed) + 41);
                    assert_eq!(*value, 41);
                });
            }
        });
        assert_eq!((VALUE.get(), MADE.load(Ordering::Relaxed)), (Some(&41), 1));
    }

    #[cfg(unix)]
    #[test]
    fn a_child_makes_what_its_parent_was_making_when_it_forked() {
        for _ in 0..20 {
            let value: &'static Once<u32> = Box::leak(Box::new(Once::new()));
            let (begun, has_begun) = std::sync::mpsc::channel();
            let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
            let maker = thread::spawn(move || {
                *value.get_or_init(|| {
                    begun.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    1
                })
            });
            has_begun.recv().unwrap();
            // SAFETY: the child only calls the code under test and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: plain system calls. The alarm ends a child that hangs.
                unsafe { libc::alarm(10) };
                let made = *value.get_or_init(|| 2);
                // SAFETY: as above.
                unsafe { libc::_exit(made as i32) };
            }
            go_on.send(()).unwrap();
            assert_eq!(maker.join().unwrap(), 1);
            let mut status = 0;
            // SAFETY: `status` is valid for the write, and the child is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert!(libc::WIFEXITED(status), "the child hung");
            assert_eq!(libc::WEXITSTATUS(status), 2);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_child_begins_anew_what_its_parent_was_at_when_it_forked() {
        let value = std::sync::Arc::new(Guarded::new(vec![1]));
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let user = thread::spawn({
            let value = std::sync::Arc::clone(&value);
            move || {
                value.with(|value| {
                    begun.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    value.push(2);
                })
            }
        });
        has_begun.recv().unwrap();
        // SAFETY: the child only calls the code under test and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls. The alarm ends a child that hangs.
            unsafe { libc::alarm(10) };
            let is_out_of_reach = value.with(|_| ()).is_none();
            value.with_or_new(|value| value.push(7));
            let is_new = value.with(|value| *value == [7]) == Some(true);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(is_out_of_reach && is_new)) };
        }
        go_on.send(()).unwrap();
        user.join().unwrap();
        assert_eq!(value.with_or_new(|value| value.clone()), [1, 2]);
        let mut status = 0;
        // SAFETY: `status` is valid for the write, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "the child hung");
        assert_eq!(libc::WEXITSTATUS(status), 1);
    }
}
