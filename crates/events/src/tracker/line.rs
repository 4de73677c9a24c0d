//! Events as lines of a sink, written without an event in between: what all events of a device have in common is text already.
//!
//! What this cannot write goes the long way, through [`Entry::to_event`]. A property test holds the two together.

use std::ops::BitOr as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::activity::Activity;
use super::collector::Reading;
use super::entry::{DeviceFacts, Entry, Session};
use super::health::Health;
use super::host_memory::HostMemory;
use crate::events::python::is_blank;
use crate::events::{Facts, Identity, Schema, SinkWriter, Target, escape_line_ends};
use runlore_core::Result;

/// Writes the events of a tracker into its sink.
#[derive(Debug)]
pub(super) struct Lines {
    session: Arc<Session>,
    /// None where the sink is of a schema that only the long way knows.
    forms: Option<Vec<Form>>,
}

/// What the lines of a device have in common as long as its collector is as it is.
#[derive(Debug)]
struct Form {
    device: Arc<DeviceFacts>,
    health: Arc<Health>,
    /// Up to the time.
    head: Vec<u8>,
    /// From the collector to the device.
    middle: Vec<u8>,
    /// The fields that the metadata begins with.
    metadata: Vec<u8>,
    /// The lengths of the names in it, and of those that other fields of ours may have: a bit each.
    lengths: u64,
    reading: Read,
    kind: Told,
    context: Told,
}

/// What the lines of all events between two samples have in common.
#[derive(Debug, Default)]
struct Read {
    of: Option<Arc<Reading>>,
    /// Up to the change.
    before: Vec<u8>,
    /// From there to the context.
    after: Vec<u8>,
    /// The host's fields of the metadata.
    host: Vec<u8>,
}

/// A field that most events say as the one before did.
#[derive(Debug, Default)]
struct Told {
    of: Option<Arc<str>>,
    text: Vec<u8>,
}

impl Told {
    fn take(&mut self, name: &str, text: &Arc<str>) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, text)) {
            self.text.clear();
            put(&mut self.text, name, &**text);
            escape_line_ends(&mut self.text, 0);
            self.of = Some(Arc::clone(text));
        }
    }
}

impl Lines {
    pub(super) fn new(session: Arc<Session>, target: Target) -> Self {
        Self { session, forms: (target.schema == Schema::V4).then(Vec::new) }
    }

    /// Adds an event to a sink.
    ///
    /// # Errors
    ///
    /// Where the event is none that the sink's schema can say.
    pub(super) fn append(&mut self, entry: &Entry, sink: &mut SinkWriter) -> Result<()> {
        let session = Arc::clone(&self.session);
        match self.form_of(entry) {
            Some(form) => {
                form.reading.take(&entry.state.reading);
                form.kind.take("event_type", &entry.kind);
                form.context.take("context", &entry.context);
                sink.append_line(&entry.facts(&session.identity), |line| form.write(entry, line));
                Ok(())
            }
            None => sink.append(&entry.to_event(&self.session)),
        }
    }

    /// The form of an event; none where it has to go the long way.
    fn form_of(&mut self, entry: &Entry) -> Option<&mut Form> {
        let forms = self.forms.as_mut()?;
        let place = forms.iter().position(|form| Arc::ptr_eq(&form.device, &entry.state.device));
        let at = match place {
            Some(at) if Arc::ptr_eq(&forms[at].health, &entry.state.health) => at,
            known => {
                let form = Form::of(entry, &self.session)?;
                match known {
                    Some(at) => {
                        forms[at] = form;
                        at
                    }
                    None => {
                        forms.push(form);
                        forms.len() - 1
                    }
                }
            }
        };
        let form = &mut forms[at];
        let is_reserved = |name: &str| form.may_have(name) && entry.is_reserved(name);
        let is_long = is_blank(&entry.kind)
            || entry.metadata.iter().any(|(name, _)| is_reserved(name))
            || entry.state.said.iter().any(|said| said.keys().any(|name| is_reserved(name)));
        (!is_long).then_some(form)
    }
}

impl Entry {
    /// What it brings to the rollups of a sink.
    fn facts(&self, identity: &Identity) -> Facts<'_> {
        let Reading { allocated, reserved, used, .. } = *self.state.reading;
        let said = self.state.said.iter().flat_map(|said| said.iter());
        let (mut has_reason, mut dump) = (false, None);
        for (name, value) in said.chain(self.own()) {
            match name.as_str() {
                "oom_reason" => has_reason = true,
                "oom_dump_path" => dump = value.as_str(),
                _ => {}
            }
        }
        Facts {
            timestamp_ns: self.at_ns,
            event_type: &self.kind,
            rank: identity.rank,
            local_rank: identity.local_rank,
            world_size: identity.world_size,
            device_id: self.state.device.about.device_id,
            allocated,
            reserved,
            used,
            has_reason,
            dump,
        }
    }

    /// Whether a name in an event's metadata is one that the tracker itself has something to say under.
    fn is_reserved(&self, name: &str) -> bool {
        self.state.device.metadata.contains_key(name) || reserved().any(|reserved| reserved == name)
    }
}

/// The names that events of any device may have.
fn reserved() -> impl Iterator<Item = &'static str> {
    Health::NAMES
        .into_iter()
        .chain(HostMemory::NAMES)
        .chain(Activity::NAMES)
        .chain(["task_id", "open_task_ids"])
}

impl Read {
    fn take(&mut self, reading: &Arc<Reading>) {
        if self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, reading)) {
            return;
        }
        for text in [&mut self.before, &mut self.after, &mut self.host] {
            text.clear();
        }
        put(&mut self.before, "allocator_allocated_bytes", &reading.allocated);
        put(&mut self.before, "allocator_reserved_bytes", &reading.reserved);
        put(&mut self.before, "allocator_active_bytes", &reading.active);
        put(&mut self.before, "allocator_inactive_bytes", &reading.inactive);
        put(&mut self.after, "device_used_bytes", &reading.used);
        put(&mut self.after, "device_free_bytes", &reading.free);
        put(&mut self.after, "device_total_bytes", &reading.total);
        if let Some(host) = &reading.host {
            for (name, number) in host.numbers().filter(|(_, number)| number.is_some()) {
                put(&mut self.host, name, &number);
            }
            if let Some(pressure) = host.pressure {
                put(&mut self.host, HostMemory::PRESSURE, &pressure);
            }
        }
        self.of = Some(Arc::clone(reading));
    }
}

impl Form {
    /// None where such events are not valid, which the long way says in so many words.
    fn of(entry: &Entry, session: &Session) -> Option<Self> {
        let event = entry.to_event(session);
        event.to_record(Schema::V4).ok()?;
        let mut head = b"{\"schema_version\":4".to_vec();
        put(&mut head, "session_id", &event.session_id);
        head.extend_from_slice(b",\"timestamp_ns\":");
        let mut middle = Vec::new();
        put(&mut middle, "collector", &event.collector);
        put(&mut middle, "sampling_interval_ms", &event.sampling_interval_ms);
        put(&mut middle, "pid", &event.pid);
        put(&mut middle, "host", &event.host);
        put(&mut middle, "job_id", &event.job_id);
        put(&mut middle, "rank", &event.rank);
        put(&mut middle, "local_rank", &event.local_rank);
        put(&mut middle, "world_size", &event.world_size);
        put(&mut middle, "device_id", &event.device_id);
        let fields = entry.common();
        let mut metadata = serde_json::to_vec(&fields).ok()?;
        // More fields follow.
        metadata.pop();
        for text in [&mut head, &mut middle, &mut metadata] {
            escape_line_ends(text, 0);
        }
        let (device, health) = (Arc::clone(&entry.state.device), Arc::clone(&entry.state.health));
        let lengths = reserved().map(length_of).chain(fields.keys().map(|name| length_of(name)));
        let lengths = lengths.fold(0, u64::bitor);
        let (reading, kind, context) = (Read::default(), Told::default(), Told::default());
        Some(Self { device, health, head, middle, metadata, lengths, reading, kind, context })
    }

    /// Whether it may have a field of its own by this name. Most names of programs are shorter than any of ours.
    fn may_have(&self, name: &str) -> bool {
        self.lengths & length_of(name) != 0
    }

    /// Appends an event as JSON.
    fn write(&self, entry: &Entry, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.head);
        put_value(to, &entry.at_ns);
        to.extend_from_slice(&self.kind.text);
        to.extend_from_slice(&self.middle);
        to.extend_from_slice(&self.reading.before);
        put(to, "allocator_change_bytes", &entry.change());
        to.extend_from_slice(&self.reading.after);
        to.extend_from_slice(&self.context.text);
        to.extend_from_slice(b",\"metadata\":");
        to.extend_from_slice(&self.metadata);
        to.extend_from_slice(&self.reading.host);
        if let Some(activity) = entry.state.reading.activity.filter(|_| &*entry.kind == "sample") {
            activity.numbers().for_each(|(name, number)| put(to, name, &number));
        }
        if let Some(task) = entry.state.tasks.first() {
            put(to, "task_id", task.text(&mut [0; 36]));
            if entry.state.tasks.len() > 1 {
                let all: Vec<String> = entry.state.tasks.iter().map(ToString::to_string).collect();
                put(to, "open_task_ids", &all);
            }
        }
        let own = to.len();
        if let Some(said) = &entry.state.said {
            let is_told = |name: &str| entry.own().any(|(own, _)| own == name);
            put_fields(to, said.iter().filter(|(name, _)| !is_told(name)));
        }
        put_fields(to, entry.own());
        escape_line_ends(to, own);
        to.extend_from_slice(b"}}\n");
    }
}

/// A bit for the length of a name.
fn length_of(name: &str) -> u64 {
    1 << name.len().min(63)
}

fn put_fields<'f>(to: &mut Vec<u8>, fields: impl Iterator<Item = (&'f String, &'f Value)>) {
    for (name, value) in fields {
        to.push(b',');
        put_value(to, name);
        to.push(b':');
        put_value(to, value);
    }
}

/// Adds a field after others. Its name is one that needs no escaping.
fn put(to: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    to.extend_from_slice(b",\"");
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b"\":");
    put_value(to, value);
}

/// Nothing in an event can fail to become JSON.
fn put_value(to: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    if serde_json::to_writer(&mut *to, value).is_err() {
        to.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::events::{SessionStatus, SessionSummary, SinkOptions};
    use crate::tracker::entry::State;
    use crate::tracker::host_memory;
    use runlore_core::record::Id;

    static DEVICE: LazyLock<Arc<DeviceFacts>> =
        LazyLock::new(|| Arc::new(DeviceFacts::new(host_memory::about("process"))));
    static HEALTH: LazyLock<Arc<Health>> = LazyLock::new(Arc::default);

    fn session() -> Session {
        Session {
            id: "s\u{2028}1".to_owned(),
            host: "h\"ost".to_owned(),
            pid: 7,
            identity: Identity {
                rank: 1,
                world_size: 2,
                job_id: Some("job".to_owned()),
                ..Identity::default()
            },
            interval_ms: 100,
            started_ns: 5,
        }
    }

    fn text() -> impl Strategy<Value = String> {
        "[a-z\u{1c}\u{85}\u{2028}\u{2029}é\"\\\\\n ]{0,8}"
    }

    fn bytes() -> impl Strategy<Value = Option<u64>> {
        proptest::option::of(any::<u64>())
    }

    fn fields() -> impl Strategy<Value = Map<String, Value>> {
        // Names that only the program has, and one that the tracker has too.
        let name = prop_oneof![4 => text(), 1 => Just("rss_bytes".to_owned()), 1 => Just("backend".to_owned())];
        let value = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
            text().prop_map(|text| json!([text, null, {"x": true}])),
        ];
        proptest::collection::vec((name, value), 0..4)
            .prop_map(|fields| fields.into_iter().collect())
    }

    fn reading() -> impl Strategy<Value = Reading> {
        let host = (bytes(), bytes(), bytes(), bytes(), proptest::option::of(0.0..100.0)).prop_map(
            |(rss, swap_used, container_used, processes, pressure)| HostMemory {
                rss,
                swap_used,
                container_used,
                processes,
                pressure,
                ..HostMemory::default()
            },
        );
        let activity = (proptest::option::of(0.0..1e9), proptest::option::of(0.0..100.0)).prop_map(
            |(sent_bytes_per_sec, cpu_percent)| Activity {
                sent_bytes_per_sec,
                cpu_percent,
                ..Activity::default()
            },
        );
        let beside = (proptest::option::of(host), proptest::option::of(activity));
        (bytes(), bytes(), bytes(), bytes(), bytes(), beside).prop_map(
            |(allocated, reserved, used, free, total, (host, activity))| {
                let memory =
                    Reading { allocated, reserved, used, free, total, ..Reading::default() };
                let reading = Reading { host, activity, ..memory };
                reading.within(host_memory::about("process").supported)
            },
        )
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let own = (fields(), fields(), proptest::collection::vec(any::<u64>(), 0..3));
        let kind = prop_oneof![text(), Just("sample".to_owned())];
        (any::<u64>(), kind, reading(), any::<Option<i64>>(), text(), own).prop_map(
            |(at_ns, kind, reading, change, context, (metadata, said, tasks))| Entry {
                at_ns,
                kind: kind.into(),
                state: Arc::new(State {
                    device: Arc::clone(&DEVICE),
                    reading: Arc::new(reading),
                    health: Arc::clone(&HEALTH),
                    said: (!said.is_empty()).then(|| Arc::new(said)),
                    tasks: tasks.into_iter().map(Id::at).collect(),
                }),
                change,
                context: context.into(),
                metadata: metadata.into_iter().collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn a_line_says_what_the_event_says(entries in proptest::collection::vec(entry(), 1..4)) {
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let session = Arc::new(session());
            let mut sinks = folders.each_ref().map(|folder| {
                let first = entries[0].to_event(&session);
                SinkWriter::open(folder.path(), SinkOptions { sync: false, ..SinkOptions::default() }, SessionSummary::of(&first)).unwrap()
            });
            let mut lines = Lines::new(Arc::clone(&session), Schema::V4.into());
            for entry in &entries {
                let short = lines.append(entry, &mut sinks[0]).map_err(|error| error.to_string());
                let long = sinks[1].append(&entry.to_event(&session)).map_err(|error| error.to_string());
                prop_assert_eq!(short, long);
            }
            for sink in sinks {
                sink.close(SessionStatus::Completed, i64::MAX).unwrap();
            }
            let rollups = folders.each_ref().map(|folder| {
                let text = std::fs::read(folder.path().join("rollups.json")).unwrap();
                serde_json::from_slice::<Value>(&text).unwrap()["sessions"].take()
            });
            let written = folders.each_ref().map(|folder| {
                let text = std::fs::read_to_string(folder.path().join("segment-000001.jsonl")).unwrap();
                // Readers may take other characters for the end of a line, too.
                assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']));
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
            });
            prop_assert_eq!(&written[0], &written[1]);
            prop_assert_eq!(&rollups[0], &rollups[1]);
        }
    }
}
