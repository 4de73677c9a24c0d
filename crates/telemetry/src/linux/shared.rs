//! The one [`Host`] of a process, and a new one after a fork.
#![allow(unsafe_code)]

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::Host;
use crate::container::ContainerReader;
use runlore_core::this_process;

/// How many forks were told of.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The host of the generation that last captured. Never freed: threads may be reading from it, and so may the parent of a
/// process that was forked without being told of.
static HOST: AtomicPtr<(u32, Host)> = AtomicPtr::new(ptr::null_mut());

/// The reader of the container, if the process is in one. Never freed, as above.
static CONTAINER: AtomicPtr<Option<ContainerReader>> = AtomicPtr::new(ptr::null_mut());

/// The reader of the container that the process is in. No lock: one that is held while the process forks would stay closed
/// in the child.
pub(super) fn container() -> Option<&'static ContainerReader> {
    let mut current = CONTAINER.load(Ordering::Acquire);
    if current.is_null() {
        let new = Box::into_raw(Box::new(ContainerReader::open().ok()));
        let swapped = CONTAINER.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        current = swapped.map_or_else(
            |current| {
                // SAFETY: nobody has seen it.
                drop(unsafe { Box::from_raw(new) });
                current
            },
            |_| new,
        );
    }
    // SAFETY: leaked above, and not null.
    unsafe { (*current).as_ref() }
}

/// Says that this process is a forked child. Only marks, so that it may be called wherever a fork handler may be.
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

/// The host of this process and its generation, if every fork was told of.
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
            // SAFETY: nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: as in `current`; it is not null, because another thread has put it there.
            unsafe { &*current }
        }
    }
}

/// The host of the calling process: its forks need not have been told of.
#[inline]
pub(crate) fn of_this_process() -> &'static Host {
    let (generation, found) = current();
    if found.pid == this_process::id() { found } else { of_forked_process(*generation) }
}

#[cold]
fn of_forked_process(generation: u32) -> &'static Host {
    // Of several threads that find this out, one tells.
    let next = generation.wrapping_add(1);
    if GENERATION.compare_exchange(generation, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        forget_container();
    }
    &current().1
}
