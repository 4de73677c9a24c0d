//! Values that are made once, and locks, which a forked child never finds half made or closed.
//!
//! The standard library's stay as another thread had them when the process forked: a child that asks for a value which
//! its parent was just making would wait for ever. Here it makes the value itself.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A value that is made when it is first asked for, and then stays as long as the process. For statics only: it is never
/// dropped.
#[derive(Debug)]
pub(crate) struct Once<T> {
    value: AtomicPtr<T>,
    making: Lock,
    owned: PhantomData<T>,
}

impl<T: Send + Sync> Once<T> {
    pub(crate) const fn new() -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), making: Lock::new(), owned: PhantomData }
    }

    /// The value, if it was made.
    #[inline]
    pub(crate) fn get(&'static self) -> Option<&'static T> {
        // SAFETY: null, or a value that was leaked below.
        unsafe { self.value.load(Ordering::Acquire).as_ref() }
    }

    /// The value. Whoever comes while another thread of this process makes it waits for that.
    #[inline]
    pub(crate) fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
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

/// A lock that nobody holds in a forked child, whoever held it in the parent: for work that takes too long to wait for
/// its end before every fork.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The lock of the process that last used it; leaked.
    lock: AtomicPtr<(u32, Mutex<()>)>,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { lock: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn lock(&'static self) -> MutexGuard<'static, ()> {
        self.of_process().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody in this process holds it.
    pub(crate) fn try_lock(&'static self) -> Option<MutexGuard<'static, ()>> {
        match self.of_process().try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        }
    }

    fn of_process(&'static self) -> &'static Mutex<()> {
        let process = std::process::id();
        loop {
            let current = self.lock.load(Ordering::Acquire);
            // SAFETY: null, or a lock that was leaked below.
            if let Some((of, lock)) = unsafe { current.as_ref() }
                && *of == process
            {
                return lock;
            }
            let new = Box::into_raw(Box::new((process, Mutex::new(()))));
            let swapped =
                self.lock.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_err() {
                // SAFETY: nobody has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

/// A value behind a [`Lock`]. In a forked child whose parent was just using it, it is out of reach.
#[cfg(feature = "events")]
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    lock: Lock,
    value: Mutex<T>,
}

#[cfg(feature = "events")]
impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: Lock::new(), value: Mutex::new(value) }
    }

    /// Uses the value; none where it is out of reach.
    pub(crate) fn with<R>(&'static self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _one_at_a_time = self.lock.lock();
        // Nobody of this process has it now.
        match self.value.try_lock() {
            Ok(mut value) => Some(work(&mut value)),
            Err(TryLockError::Poisoned(value)) => Some(work(&mut value.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
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
            // SAFETY: the child calls what is tested and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: plain system calls; the alarm ends a child that hangs.
                unsafe { libc::alarm(10) };
                let made = *value.get_or_init(|| 2);
                // SAFETY: as above.
                unsafe { libc::_exit(made as i32) };
            }
            go_on.send(()).unwrap();
            assert_eq!(maker.join().unwrap(), 1);
            let mut status = 0;
            // SAFETY: `status` is a valid place, and the child is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert!(libc::WIFEXITED(status), "the child hung");
            assert_eq!(libc::WEXITSTATUS(status), 2);
        }
    }
}
