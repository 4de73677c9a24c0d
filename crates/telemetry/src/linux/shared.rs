//! The one [`Host`] of the process, replaced after a fork.
#![allow(unsafe_code)]

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::Host;
use crate::container::ContainerReader;
use runlore_core::this_process;

/// Number of forks that were noticed.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The host of the generation that captured last, with the number of that generation. It is never
/// freed: other threads may be reading from it, and so may the parent of a process whose fork was
/// not reported.
static HOST: AtomicPtr<(u32, Host)> = AtomicPtr::new(ptr::null_mut());

/// The reader of the container, if the process is in one. It is never freed, for the same reason.
static CONTAINER: AtomicPtr<Option<ContainerReader>> = AtomicPtr::new(ptr::null_mut());

/// Returns the reader of the container that the process is in. It takes no lock: a lock that is
/// held during a fork would stay locked in the child.
pub(super) fn container() -> Option<&'static ContainerReader> {
    let mut current = CONTAINER.load(Ordering::Acquire);
    if current.is_null() {
        let new = Box::into_raw(Box::new(ContainerReader::open().ok()));
        let swapped = CONTAINER.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        current = swapped.map_or_else(
            |current| {
                // SAFETY: no other thread has seen `new`.
                drop(unsafe { Box::from_raw(new) });
                current
            },
            |_| new,
        );
    }
    // SAFETY: leaked above, and not null.
    unsafe { (*current).as_ref() }
}

/// Marks this process as a forked child. It only sets atomics, so a fork handler may call it.
pub(crate) fn forget_after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    forget_container();
}

fn forget_container() {
    // SAFETY: null, or a reader that was leaked above.
    if let Some(Some(reader)) = unsafe { CONTAINER.load(Ordering::Acquire).as_ref() } {
        reader.forget();
    }
}

/// Returns the host of the current generation. It belongs to this process if every fork was
/// reported.
#[inline]
fn current() -> &'static (u32, Host) {
    let generation = GENERATION.load(Ordering::Relaxed);
    let current = HOST.load(Ordering::Acquire);
    // SAFETY: null, or a host that was leaked below.
    match unsafe { current.as_ref() } {
        Some(found) if found.0 == generation => found,
        _ => make(generation, current),
    }
}

#[cold]
fn make(generation: u32, instead_of: *mut (u32, Host)) -> &'static (u32, Host) {
    let new = Box::into_raw(Box::new((generation, Host::new(Path::new("/")))));
    match HOST.compare_exchange(instead_of, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(old) => {
            // SAFETY: null, or a host that was leaked here.
            if let Some((_, old)) = unsafe { old.as_ref() } {
                old.close_all();
            }
            // SAFETY: leaked just now.
            unsafe { &*new }
        }
        Err(current) => {
            // SAFETY: no other thread has seen `new`.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: as in `current`. It is not null, because another thread has stored it.
            unsafe { &*current }
        }
    }
}

/// Returns the host of the calling process, even if its fork was not reported.
#[inline]
pub(crate) fn of_this_process() -> &'static Host {
    let (generation, found) = current();
    if found.pid == this_process::id() { found } else { of_forked_process(*generation) }
}

#[cold]
fn of_forked_process(generation: u32) -> &'static Host {
    // Of several threads that notice the fork, one advances the generation.
    let next = generation.wrapping_add(1);
    if GENERATION.compare_exchange(generation, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        forget_container();
    }
    &current().1
}
