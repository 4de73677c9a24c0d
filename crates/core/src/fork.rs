//! Forks: a child has a copy of everything except the threads, and starts afresh.
//!
//! Whatever other threads of the parent were doing at the fork stays half done in the child, and a
//! lock that one of them held stays locked. So the child leaves such values behind, as they are: a
//! [`PerProcess`] is a new one there. Nothing is locked before a fork.
//!
//! A plain `OnceLock` or `Mutex` is enough where a child cannot be hurt: if it is locked only for
//! nanoseconds ([`get_or_make`]), or if a child never needs it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// 0 until somebody asks for the generation. Then it is 1, and increases with each fork.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between a process and its forked children. It is never 0.
#[inline]
pub fn generation() -> u32 {
    match GENERATION.load(Ordering::Relaxed) {
        0 => watch(),
        generation => generation,
    }
}

/// Installs the fork handler before anybody knows a generation.
#[cold]
fn watch() -> u32 {
    #[cfg(unix)]
    // SAFETY: the handler does not unwind, and stays for the life of the process. If two threads
    // install it at once, a child is counted twice, which does no harm.
    unsafe {
        libc::pthread_atfork(None, None, Some(begin_child))
    };
    _ = GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    GENERATION.load(Ordering::Relaxed)
}

/// Runs in each forked child, before anything else. It takes no lock and allocates nothing.
#[cfg(unix)]
extern "C" fn begin_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::context::forget_parent();
    crate::record::Id::forget_sequence();
}

/// Calls `before` on the forking thread before each fork, and `after` after it in both processes.
///
/// Only for a library of others that a child could not use otherwise: a fork waits for `before`.
#[cfg(unix)]
pub fn around(before: extern "C" fn(), after: extern "C" fn()) {
    // SAFETY: functions of C do not unwind, and these stay for the life of the process.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

/// A value that each process makes for itself when it first uses it.
///
/// In a forked child, the parent's value stays as it is: it is neither used nor dropped.
#[derive(Debug)]
pub struct PerProcess<T> {
    current: AtomicPtr<Made<T>>,
    owned: PhantomData<T>,
}

#[derive(Debug)]
struct Made<T> {
    generation: u32,
    value: T,
}

impl<T> PerProcess<T> {
    pub const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    /// Returns the value of this process. On first use, `make` gets the value of the parent, if
    /// that had one: nobody uses it any more, but its locks may be locked. If several threads make
    /// a value at once, the first one stays.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let generation = generation();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: the pointer is null or points to a value that was leaked below and is freed with
        // `self` at the earliest.
        match unsafe { current.as_ref() } {
            Some(made) if made.generation == generation => &made.value,
            inherited => {
                let value = make(inherited.map(|made| &made.value));
                self.set(current, Made { generation, value })
            }
        }
    }

    #[cold]
    fn set(&self, inherited: *mut Made<T>, made: Made<T>) -> &T {
        let new = Box::into_raw(Box::new(made));
        let current = match self.current.compare_exchange(
            inherited,
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => new,
            Err(first) => {
                // SAFETY: nobody else has seen the new value.
                drop(unsafe { Box::from_raw(new) });
                first
            }
        };
        // SAFETY: as in `get_or_make`. It is not null, because a thread of this process stored it.
        unsafe { &(*current).value }
    }
}

impl<T: Default + Send + Sync> Deref for PerProcess<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get_or_make(|_| T::default())
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: the pointer is null or points to a value that was leaked by `set`.
        if unsafe { current.as_ref() }.is_some_and(|made| made.generation == generation()) {
            // SAFETY: as above, and everybody who used it borrowed `self`.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

/// Returns the value of `cell`, which is made on first use.
///
/// It is made before the cell is locked, so that a child that is forked meanwhile does not wait for
/// a thread that it does not have. If several threads make a value at once, the first one stays.
#[inline]
pub fn get_or_make<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = make();
            cell.get_or_init(|| value)
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::record::Id;

    /// Runs `work` in a forked child and returns its result. A child that hangs fails the test.
    fn in_child(work: impl FnOnce() -> u8) -> i32 {
        // SAFETY: the child only calls the code under test and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls. The alarm ends a child that hangs.
            unsafe { libc::alarm(10) };
            let result = work();
            // SAFETY: as above.
            unsafe { libc::_exit(result.into()) };
        }
        let mut status = 0;
        // SAFETY: `status` is valid for the write, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "the child hung");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_has_a_generation_and_ids_of_its_own() {
        let (of_parent, before) = (generation(), Id::new().to_bits() as u64);
        let next = (before << 2).wrapping_add(0x9E37_79B9_7F4A_7C15) >> 2;
        let differs = in_child(|| {
            let low = (Id::new().to_bits() as u64) << 2 >> 2;
            u8::from(generation() != of_parent && low.abs_diff(next << 2 >> 2) > 1)
        });
        assert_eq!((differs, generation()), (1, of_parent));
    }

    #[test]
    fn a_child_leaves_what_its_parent_locked() {
        static VALUE: PerProcess<Mutex<Vec<u8>>> = PerProcess::new();
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let user = thread::spawn(move || {
            let mut value = VALUE.lock().unwrap();
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
            value.push(1);
        });
        has_begun.recv().unwrap();
        let result = in_child(|| {
            VALUE.lock().unwrap().push(7);
            VALUE.lock().unwrap()[0] + in_child(|| VALUE.lock().unwrap().len() as u8) as u8
        });
        assert_eq!(result, 7);
        go_on.send(()).unwrap();
        user.join().unwrap();
        assert_eq!(*VALUE.lock().unwrap(), [1]);
    }

    #[test]
    fn a_value_is_dropped_only_by_the_process_that_made_it() {
        struct Ends(std::sync::Arc<AtomicU32>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = std::sync::Arc::new(AtomicU32::new(0));
        let value = PerProcess::<Ends>::new();
        value.get_or_make(|_| Ends(dropped.clone()));
        let mut value = Some(value);
        let in_child = in_child(|| {
            drop(value.take());
            dropped.load(Ordering::Relaxed) as u8
        });
        drop(value);
        assert_eq!((in_child, dropped.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_child_makes_what_its_parent_was_making() {
        static VALUE: OnceLock<u8> = OnceLock::new();
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let maker = thread::spawn(move || {
            *get_or_make(&VALUE, || {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                1
            })
        });
        has_begun.recv().unwrap();
        assert_eq!(in_child(|| *get_or_make(&VALUE, || 2)), 2);
        go_on.send(()).unwrap();
        assert_eq!(maker.join().unwrap(), 1);
    }
}
