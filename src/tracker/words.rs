//! Numbers as Stormlog's events say them.

/// `200.00 MB`, `12.00 GB`: units of 1024.
pub(super) fn bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if scaled < 1024.0 {
            return format!("{scaled:.2} {unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.2} PB")
}

/// `81.2%`.
pub(super) fn percent(percent: f64) -> String {
    format!("{percent:.1}%")
}
