//! Events as lines of a sink, written without an event in between: what all events of a device have in common is text already.
//!
//! What this cannot write goes the long way, through [`Entry::to_event`]. A property test holds the two together.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::activity::Activity;
use super::collector::Reading;
use super::entry::{DeviceFacts, Entry, Session};
use super::health::Health;
use super::host_memory::HostMemory;
use crate::Result;
use crate::events::python::is_blank;
use crate::events::{Schema, SinkWriter, Target, escape_line_ends};

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
        match self.form_of(entry) {
            Some(form) => {
                sink.append_line(|line| form.write(entry, line));
                Ok(())
            }
            None => sink.append(&entry.to_event(&self.session)),
        }
    }

    /// The form of an event; none where it has to go the long way.
    fn form_of(&mut self, entry: &Entry) -> Option<&Form> {
        let forms = self.forms.as_mut()?;
        let said = entry.said.iter().flat_map(|said| said.iter());
        if is_blank(&entry.kind) || said.chain(entry.own()).any(|(name, _)| entry.is_reserved(name))
        {
            return None;
        }
        let place = forms.iter().position(|form| Arc::ptr_eq(&form.device, &entry.device));
        let at = match place {
            Some(at) if Arc::ptr_eq(&forms[at].health, &entry.health) => at,
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
        Some(&forms[at])
    }
}

impl Entry {
    /// Whether a name in an event's metadata is one that the tracker itself has something to say under.
    fn is_reserved(&self, name: &str) -> bool {
        self.device.metadata.contains_key(name)
            || Health::NAMES.contains(&name)
            || HostMemory::NAMES.contains(&name)
            || Activity::NAMES.contains(&name)
            || matches!(name, "task_id" | "open_task_ids")
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
        let mut fields = entry.device.metadata.clone();
        entry.health.put(&mut fields);
        let mut metadata = serde_json::to_vec(&fields).ok()?;
        // More fields follow.
        metadata.pop();
        for text in [&mut head, &mut middle, &mut metadata] {
            escape_line_ends(text, 0);
        }
        let (device, health) = (Arc::clone(&entry.device), Arc::clone(&entry.health));
        Some(Self { device, health, head, middle, metadata })
    }

    /// Appends an event as JSON.
    fn write(&self, entry: &Entry, to: &mut Vec<u8>) {
        let Reading { allocated, reserved, active, inactive, used, free, total, host, activity } =
            *entry.reading;
        to.extend_from_slice(&self.head);
        put_value(to, &entry.at_ns);
        put_text(to, "event_type", Some(&entry.kind));
        to.extend_from_slice(&self.middle);
        put(to, "allocator_allocated_bytes", &allocated);
        put(to, "allocator_reserved_bytes", &reserved);
        put(to, "allocator_active_bytes", &active);
        put(to, "allocator_inactive_bytes", &inactive);
        put(to, "allocator_change_bytes", &entry.change());
        put(to, "device_used_bytes", &used);
        put(to, "device_free_bytes", &free);
        put(to, "device_total_bytes", &total);
        put_text(to, "context", entry.context.as_deref());
        to.extend_from_slice(b",\"metadata\":");
        to.extend_from_slice(&self.metadata);
        if let Some(host) = host {
            for (name, number) in host.numbers() {
                if number.is_some() {
                    put(to, name, &number);
                }
            }
            if let Some(pressure) = host.pressure {
                put(to, HostMemory::PRESSURE, &pressure);
            }
        }
        if let Some(activity) = activity.filter(|_| entry.kind == "sample") {
            activity.numbers().for_each(|(name, number)| put(to, name, &number));
        }
        if let Some(task) = entry.tasks.first() {
            put(to, "task_id", task.text(&mut [0; 36]));
            if entry.tasks.len() > 1 {
                let all: Vec<String> = entry.tasks.iter().map(ToString::to_string).collect();
                put(to, "open_task_ids", &all);
            }
        }
        let own = to.len();
        if let Some(said) = &entry.said {
            let is_told = |name: &str| entry.own().any(|(own, _)| own == name);
            put_fields(to, said.iter().filter(|(name, _)| !is_told(name)));
        }
        put_fields(to, entry.own());
        escape_line_ends(to, own);
        to.extend_from_slice(b"}}\n");
    }
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

/// A field that anybody may have written.
fn put_text(to: &mut Vec<u8>, name: &str, text: Option<&str>) {
    let start = to.len();
    put(to, name, &text);
    escape_line_ends(to, start);
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
    use crate::events::{Identity, SessionSummary, SinkOptions};
    use crate::record::Id;
    use crate::tracker::host_memory;

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
        (any::<u64>(), kind, reading(), any::<Option<i64>>(), proptest::option::of(text()), own)
            .prop_map(|(at_ns, kind, reading, change, context, (metadata, said, tasks))| Entry {
                at_ns,
                kind: kind.into(),
                device: Arc::clone(&DEVICE),
                reading: Arc::new(reading),
                health: Arc::clone(&HEALTH),
                change,
                context: context.map(Into::into),
                metadata: metadata.into_iter().collect(),
                said: (!said.is_empty()).then(|| Arc::new(said)),
                tasks: tasks.into_iter().map(Id::at).collect(),
            })
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
            let written = sinks.map(|mut sink| {
                sink.flush().unwrap();
                let text = std::fs::read_to_string(sink.folder().join("segment-000001.jsonl")).unwrap();
                // Readers may take other characters for the end of a line, too.
                assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']));
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
            });
            prop_assert_eq!(&written[0], &written[1]);
        }
    }
}
