//! Which threads the process has.

/// Whether no thread but the calling one and Runlore's own is there: nobody else can record anything. `false` where the
/// system does not say.
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
