//! Checks which threads the process has.

/// Returns whether there are no threads except the calling one and Runlore's own, so that no other
/// thread can record anything. `false` if the system does not provide this.
pub(super) fn is_alone() -> bool {
    #[cfg(target_os = "linux")]
    {
        let own = runlore_core::thread::current_id().to_string();
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
        threads.flatten().filter(|thread| thread.file_name().to_str() != Some(&own)).all(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm"));
            // A thread that has just ended has no name any more.
            name.is_ok_and(|name| name.is_empty() || name.starts_with("runlore-"))
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}
