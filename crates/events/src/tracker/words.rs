//! Numbers as Stormlog's events say them, but for the names of units.

/// `200.00 MiB`, `12.00 GiB`. Stormlog says MB and GB of the same.
pub(super) fn bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            return format!("{scaled:.2} {unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.2} PiB")
}

/// `81.2%`.
pub(super) fn percent(percent: f64) -> String {
    format!("{percent:.1}%")
}
