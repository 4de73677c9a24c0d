//! Formats numbers as Stormlog's events do, except for the names of units.

/// Formats bytes, such as `200.00 MiB` or `12.00 GiB`. Stormlog writes MB and GB for the same
/// values.
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

/// Formats a percentage, such as `81.2%`.
pub(super) fn percent(percent: f64) -> String {
    format!("{percent:.1}%")
}
