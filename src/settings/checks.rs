//! What a value must be beyond its type.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::Reader;
use super::types::{HashKind, Settings};
use super::units::Bytes;

/// Puts values that cannot be back to their defaults, and tells.
pub(super) fn check(settings: &mut Settings, reader: &mut Reader) {
    let defaults = Settings::default();
    let mut check = Check { reader };
    let (limits, default) = (&mut settings.instrumentation.limits, defaults.instrumentation.limits);
    let sizes = Bytes::new(16)..=Bytes::new(1 << 20);
    check.within(
        "instrumentation.limits.value_bytes",
        &mut limits.value_bytes,
        default.value_bytes,
        sizes,
    );
    check.within("instrumentation.limits.items", &mut limits.items, default.items, 1..=1_000_000);
    check.within("instrumentation.limits.depth", &mut limits.depth, default.depth, 1..=64);

    let (ml, default) = (&mut settings.instrumentation.ml, defaults.instrumentation.ml);
    let every = (&mut ml.capture_epochs_at_every, default.capture_epochs_at_every);
    check.within("instrumentation.ml.capture_epochs_at_every", every.0, every.1, 1..=u32::MAX);

    let (recorder, default) = (&mut settings.recorder, defaults.recorder);
    let ring = Bytes::new(16 << 10)..=Bytes::new(64 << 20);
    check.within("recorder.ring_bytes", &mut recorder.ring_bytes, default.ring_bytes, ring);
    if !recorder.ring_bytes.get().is_power_of_two() {
        check.wrong("recorder.ring_bytes", "must be a power of two, such as `256KiB`");
        recorder.ring_bytes = default.ring_bytes;
    }
    let budget = recorder.ring_bytes..=Bytes::new(64 << 30);
    check.within("recorder.budget_bytes", &mut recorder.budget_bytes, default.budget_bytes, budget);
    let backlog = Bytes::new(64 << 10)..=Bytes::new(64 << 30);
    check.within(
        "recorder.backlog_bytes",
        &mut recorder.backlog_bytes,
        default.backlog_bytes,
        backlog,
    );
    let spool = Bytes::new(64 << 10)..=Bytes::new(1 << 50);
    check.within("recorder.spool_bytes", &mut recorder.spool_bytes, default.spool_bytes, spool);
    let records = 1..=1_000_000;
    check.within(
        "recorder.flush_records",
        &mut recorder.flush_records,
        default.flush_records,
        records,
    );
    for (path, value, default, least, most) in [
        ("recorder.max_wait_ms", &mut recorder.max_wait_ms, default.max_wait_ms, 0, 60),
        ("recorder.flush_ms", &mut recorder.flush_ms, default.flush_ms, 1, 3600),
    ] {
        if *value < Duration::from_millis(least) || *value > Duration::from_secs(most) {
            check.wrong(path, &format!("must be from {least}ms to {most}s"));
            *value = default;
        }
    }

    let jsonl = &mut settings.databases.jsonl;
    if jsonl.rotate_bytes.is_some_and(|bytes| bytes < Bytes::new(4096)) {
        check.wrong("databases.jsonl.rotate_bytes", "must be at least 4KiB, or `~` for never");
        jsonl.rotate_bytes = None;
    }
    if jsonl.rotate_age.is_some_and(|age| age < Duration::from_secs(1)) {
        check.wrong("databases.jsonl.rotate_age", "must be at least 1s, or `~` for never");
        jsonl.rotate_age = None;
    }
    if jsonl.keep_bytes.is_some_and(|bytes| bytes < Bytes::new(4096)) {
        check.wrong("databases.jsonl.keep_bytes", "must be at least 4KiB, or `~` to keep all");
        jsonl.keep_bytes = None;
    }
    let keep = [
        ("databases.jsonl.keep_files", &mut jsonl.keep_files),
        ("databases.jsonl.keep_days", &mut jsonl.keep_days),
    ];
    for (path, value) in keep {
        if *value == Some(0) {
            // A slip of the finger must not delete everything.
            check.wrong(path, "must be at least 1, or `~` to keep all");
            *value = None;
        }
    }
    let telemetry = &mut settings.telemetry_capture;
    if let [word] = &*telemetry.gpu
        && ["no", "off", "false"].contains(&word.as_str())
    {
        // As for the other types of telemetry.
        telemetry.gpu.clear();
    }
    let unknown: Vec<String> =
        telemetry.gpu.iter().filter_map(|name| telemetry.gpu_vendor.complaint(name)).collect();
    if !unknown.is_empty() {
        // The rest of the list stands, and so does where it came from.
        let origin = check.reader.origins.get("telemetry_capture.gpu").copied();
        let complaint = format!("names what is not there: {}", unknown.join("; "));
        check.wrong("telemetry_capture.gpu", &complaint);
        let path = "telemetry_capture.gpu".to_owned();
        check.reader.origins.extend(origin.map(|origin| (path, origin)));
        telemetry.gpu.retain(|name| telemetry.gpu_vendor.complaint(name).is_none());
    }
    let percent = &mut telemetry.max_overhead_percent;
    if percent.is_some_and(|percent| !(percent > 0.0 && percent <= 100.0)) {
        check.wrong(
            "telemetry_capture.max_overhead_percent",
            "must be above 0 and at most 100, or `~`",
        );
        *percent = None;
    }
}

struct Check<'a> {
    reader: &'a mut Reader,
}

impl Check<'_> {
    fn within<T: PartialOrd + Copy + std::fmt::Display>(
        &mut self,
        path: &str,
        value: &mut T,
        default: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(value) {
            self.wrong(path, &format!("must be from {} to {}", range.start(), range.end()));
            *value = default;
        }
    }

    fn wrong(&mut self, path: &str, wanted: &str) {
        let Some((layer, number)) = self.reader.origins.remove(path) else { return };
        self.reader.layer = layer;
        self.reader.wrong(number, format!("{path} {wanted}"));
    }
}

/// What to say of a hash that this program was built without.
pub(super) fn hash_notice(settings: &Settings) -> Option<&'static str> {
    let is_lacking = settings.instrumentation.hash == HashKind::Blake3 && !cfg!(feature = "blake3");
    is_lacking.then_some(
        "instrumentation.hash: this program is built without `blake3`, values are hashed with `xxh3`; add the feature \
         `blake3` of the crate `runlore` to change that",
    )
}
