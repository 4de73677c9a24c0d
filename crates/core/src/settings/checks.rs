//! Checks of values that their types cannot express.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::{NodeKey, Reader};
use super::types::{HashKind, Settings};
use super::units::Bytes;

/// Checks the values that a layer set. An invalid one is reported and replaced by the value of the
/// layer below.
pub(super) fn check_layer(settings: &mut Settings, below: &Below, reader: &mut Reader) {
    let mut check = Check { reader, origins: &below.origins };
    let below = &below.settings;
    let (limits, old) = (&mut settings.instrumentation.limits, &below.instrumentation.limits);
    let sizes = Bytes::new(16)..=Bytes::new(1 << 20);
    check.within(
        "instrumentation.limits.value_bytes",
        &mut limits.value_bytes,
        old.value_bytes,
        sizes,
    );
    check.within("instrumentation.limits.items", &mut limits.items, old.items, 1..=1_000_000);
    check.within("instrumentation.limits.depth", &mut limits.depth, old.depth, 1..=64);

    let (ml, old) = (&mut settings.instrumentation.ml, &below.instrumentation.ml);
    let every = (&mut ml.capture_epochs_at_every, old.capture_epochs_at_every);
    check.within("instrumentation.ml.capture_epochs_at_every", every.0, every.1, 1..=u32::MAX);

    let (recorder, old) = (&mut settings.recorder, &below.recorder);
    let ring = Bytes::new(16 << 10)..=Bytes::new(64 << 20);
    check.within("recorder.ring_bytes", &mut recorder.ring_bytes, old.ring_bytes, ring);
    if !recorder.ring_bytes.get().is_power_of_two() {
        check.wrong("recorder.ring_bytes", "must be a power of two, such as `256KiB`");
        recorder.ring_bytes = old.ring_bytes;
    }
    let backlog = Bytes::new(64 << 10)..=Bytes::new(64 << 30);
    check.within("recorder.backlog_bytes", &mut recorder.backlog_bytes, old.backlog_bytes, backlog);
    let spool = Bytes::new(64 << 10)..=Bytes::new(1 << 50);
    check.within("recorder.spool_bytes", &mut recorder.spool_bytes, old.spool_bytes, spool);
    let overflow = Bytes::new(0)..=Bytes::new(1 << 50);
    let (bytes, old_bytes) = (&mut recorder.overflow_bytes, old.overflow_bytes);
    check.within("recorder.overflow_bytes", bytes, old_bytes, overflow);
    let records = 1..=1_000_000;
    check.within("recorder.flush_records", &mut recorder.flush_records, old.flush_records, records);
    for (path, value, old, least, most) in [
        ("recorder.max_wait_ms", &mut recorder.max_wait_ms, old.max_wait_ms, 0, 60),
        ("recorder.flush_ms", &mut recorder.flush_ms, old.flush_ms, 1, 3600),
    ] {
        if *value < Duration::from_millis(least) || *value > Duration::from_secs(most) {
            check.wrong(path, &format!("must be from {least}ms to {most}s"));
            *value = old;
        }
    }

    let (jsonl, old) = (&mut settings.databases.jsonl, &below.databases.jsonl);
    if jsonl.rotate_bytes.is_some_and(|bytes| bytes < Bytes::new(4096)) {
        check.wrong("databases.jsonl.rotate_bytes", "must be at least 4KiB, or `~` for never");
        jsonl.rotate_bytes = old.rotate_bytes;
    }
    if jsonl.rotate_age.is_some_and(|age| age < Duration::from_secs(1)) {
        check.wrong("databases.jsonl.rotate_age", "must be at least 1s, or `~` for never");
        jsonl.rotate_age = old.rotate_age;
    }
    if jsonl.keep_bytes.is_some_and(|bytes| bytes < Bytes::new(4096)) {
        check.wrong("databases.jsonl.keep_bytes", "must be at least 4KiB, or `~` to keep all");
        jsonl.keep_bytes = old.keep_bytes;
    }
    let keep = [
        ("databases.jsonl.keep_files", &mut jsonl.keep_files, old.keep_files),
        ("databases.jsonl.keep_days", &mut jsonl.keep_days, old.keep_days),
    ];
    for (path, value, old) in keep {
        if *value == Some(0) {
            // A typo must not delete everything.
            check.wrong(path, "must be at least 1, or `~` to keep all");
            *value = old;
        }
    }
    let percent = &mut settings.telemetry_capture.max_overhead_percent;
    if percent.is_some_and(|percent| !(percent > 0.0 && percent <= 100.0)) {
        check.wrong(
            "telemetry_capture.max_overhead_percent",
            "must be above 0 and at most 100, or `~`",
        );
        *percent = below.telemetry_capture.max_overhead_percent;
    }
}

/// Checks settings that depend on each other and may come from different layers.
pub(super) fn check_all(settings: &mut Settings, reader: &mut Reader) {
    let mut check = Check { reader, origins: &BTreeMap::new() };
    let recorder = &mut settings.recorder;
    let budget = recorder.ring_bytes..=Bytes::new(64 << 30);
    let default = Settings::default().recorder.budget_bytes;
    check.within("recorder.budget_bytes", &mut recorder.budget_bytes, default, budget);
    let telemetry = &mut settings.telemetry_capture;
    if let [word] = &*telemetry.gpu
        && ["no", "off", "false"].contains(&word.as_str())
    {
        // The other telemetry keys accept these words too.
        telemetry.gpu.clear();
    }
    let unknown: Vec<String> =
        telemetry.gpu.iter().filter_map(|name| telemetry.gpu_vendor.complaint(name)).collect();
    if !unknown.is_empty() {
        // The rest of the list stays in use, and so does its origin.
        let origin = check.reader.origins.get("telemetry_capture.gpu").copied();
        let complaint = format!("names what is not there: {}", unknown.join("; "));
        check.wrong("telemetry_capture.gpu", &complaint);
        let path = "telemetry_capture.gpu".to_owned();
        check.reader.origins.extend(origin.map(|origin| (path, origin)));
        telemetry.gpu.retain(|name| telemetry.gpu_vendor.complaint(name).is_none());
    }
}

/// The state before a layer was read.
pub(super) struct Below {
    pub(super) settings: Settings,
    pub(super) origins: BTreeMap<String, NodeKey>,
}

struct Check<'a> {
    reader: &'a mut Reader,
    /// The origins of the values that an invalid one is replaced by.
    origins: &'a BTreeMap<String, NodeKey>,
}

impl Check<'_> {
    fn within<T: PartialOrd + Copy + std::fmt::Display>(
        &mut self,
        path: &str,
        value: &mut T,
        old: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(value) {
            self.wrong(path, &format!("must be from {} to {}", range.start(), range.end()));
            *value = old;
        }
    }

    fn wrong(&mut self, path: &str, wanted: &str) {
        let Some((layer, number)) = self.reader.origins.remove(path) else { return };
        self.reader.origins.extend(self.origins.get(path).map(|old| (path.to_owned(), *old)));
        self.reader.layer = layer;
        self.reader.wrong(number, format!("{path} {wanted}"));
    }
}

/// Returns a notice if the settings choose a hash function that this program was built without.
pub(super) fn hash_notice(settings: &Settings) -> Option<&'static str> {
    let is_lacking = settings.instrumentation.hash == HashKind::Blake3 && !cfg!(feature = "blake3");
    is_lacking.then_some(
        "instrumentation.hash: this program is built without `blake3`, values are hashed with `xxh3`; add the feature \
         `blake3` of the crate `runlore` to change that",
    )
}
