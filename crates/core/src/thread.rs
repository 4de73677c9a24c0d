//! The id of the calling thread, as records contain it.
#![allow(unsafe_code)]

/// Returns the system's id of the calling thread. Systems other than Linux get a number of ours,
/// which no other thread of the process has.
pub fn current_id() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: gettid has no preconditions.
        unsafe { libc::gettid() as u64 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        ID.try_with(|id| *id).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_id_and_shares_it_with_no_other() {
        assert_eq!(current_id(), current_id());
        assert_ne!(std::thread::spawn(current_id).join().unwrap(), current_id());
    }
}
