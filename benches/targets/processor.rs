//! Which processor a thread runs on.
#![allow(unsafe_code)]

use std::mem::size_of_val;

/// Keeps the calling thread on one of the processors that it may use: the one of this number, counted round and round. Threads that it
/// has started before go where they like.
pub(crate) fn stay_on(number: usize) {
    // SAFETY: a set of processors is plain numbers, for which zeros are none.
    let (mut may, mut only): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    let size = size_of_val(&may);
    // SAFETY: both sets are as long as is said, and the numbers of processors are below what a set holds.
    unsafe {
        let known = libc::sched_getaffinity(0, size, &raw mut may);
        assert_eq!(known, 0, "this system does not tell its processors");
        let usable = 0..libc::CPU_SETSIZE as usize;
        let usable: Vec<usize> = usable.filter(|at| libc::CPU_ISSET(*at, &may)).collect();
        libc::CPU_SET(usable[number % usable.len()], &mut only);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const only), 0, "it may run there");
    }
}
