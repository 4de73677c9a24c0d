//! Writes a paired START and END as a JSON record, field by field.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::event::{End, Ending, ItemKind, Key, Marks, Measured, u32_at};
use super::json::{self, Done, FieldKey, Name, Object, key};
use super::resources::Resources;
use super::shrink::Forgotten;
use super::site::Site;
use super::task::Task;
use runlore_core::clock;
use runlore_core::identity::Identity;
use runlore_core::record::{Id, Notes, Status, ValueView, hash};
use runlore_core::store::{RecordHead, RecordKind, ValueHash};
use runlore_core::usage;
use runlore_telemetry::Snapshot;

/// The item size beyond which outputs are found with a hash map instead of a linear search.
const MANY_ITEMS: usize = 4 << 10;

/// The reason for missing `resources` of a task without captures.
const NO_BUDGET: &str = "held back by telemetry_capture.max_overhead_percent";

/// The reason for missing process figures of a task with shared captures.
const SHARED: &str = "the captures are shared with other tasks";

/// Enough for the values of most tasks.
const FEW_VALUES: usize = 8;

/// The fields that the records of one run share.
#[derive(Debug)]
pub(super) struct Common {
    workflow_id: String,
    campaign_id: String,
    /// The two ids as JSON fields.
    workflow: String,
    process: String,
    pid: u32,
    places: Places,
}

/// A cache of the locations of manually recorded tasks with their JSON, last used first: few
/// locations make many records.
#[derive(Debug, Default)]
struct Places(RefCell<VecDeque<(Vec<u8>, String)>>);

impl Places {
    /// The maximum number of entries.
    const MOST: usize = 64;

    /// Adds a location to a record.
    fn add(&self, record: &mut Object<'_>, place: &[u8]) {
        let mut known = self.0.borrow_mut();
        match known.iter().position(|(bytes, _)| *bytes == place) {
            Some(at) => known.swap(0, at),
            None => {
                known.truncate(Self::MOST - 1);
                let told =
                    json::fields(|record| record.field(key!("code"), &SourceLocation(place)));
                known.push_front((place.to_vec(), told));
            }
        }
        record.ready(&known[0].1);
    }
}

impl Common {
    pub(super) fn new(
        workflow_id: &str,
        campaign_id: &str,
        hostname: &str,
        pid: u32,
        identity: &Identity,
    ) -> Self {
        let Identity { rank, local_rank, world_size, job_id, problem: _ } = identity;
        Self {
            workflow_id: workflow_id.to_owned(),
            campaign_id: campaign_id.to_owned(),
            pid,
            workflow: json::fields(|record| {
                record.field(key!("workflow_id"), workflow_id)?;
                record.field(key!("campaign_id"), campaign_id)
            }),
            process: json::fields(|record| {
                record.field(key!("hostname"), hostname)?;
                record.field(key!("pid"), &pid)?;
                for (key, number) in [
                    (key!("rank"), rank),
                    (key!("local_rank"), local_rank),
                    (key!("world_size"), world_size),
                ] {
                    if let Some(number) = number {
                        record.field(key, number)?;
                    }
                }
                job_id.iter().try_for_each(|job| record.field(key!("job_id"), job))
            }),
            places: Places::default(),
        }
    }
}

/// A task that is to be written to a store.
pub(super) struct TaskView<'a> {
    pub(super) task: &'a Task,
    pub(super) common: &'a Common,
}

impl TaskView<'_> {
    /// Appends the record as JSON, and returns its head.
    pub(super) fn write(&self, to: &mut Vec<u8>) -> serde_json::Result<RecordHead<'static>> {
        let (task, common) = (self.task, self.common);
        let notes = Notes::default();
        let status = task.status();
        let measured = task.measured();
        let mut head = self.head(status, measured.as_ref());
        let mut record = Object::new(to);
        record.ready(r#""type":"task""#);
        record.id(key!("task_id"), task.start.id);
        record.ready(&common.workflow);
        match (task.text(ItemKind::Activity), task.site) {
            (None, Some(site)) => {
                record.once(&site.name, |it| it.text(key!("activity_id"), site.spec.name));
            }
            (name, _) => record.text(key!("activity_id"), name.unwrap_or("unknown"))?,
        }
        if let Some(parent) = task.start.parent {
            record.id(key!("parent_task_id"), parent);
        }
        match task.site {
            Some(site) if !task.has(ItemKind::Subtype) && !task.has(ItemKind::Tag) => {
                record.once(&site.classes, |it| classes(it, task));
            }
            _ => classes(&mut record, task)?,
        }
        if let Some(group) = task.all(ItemKind::GroupId).next().and_then(|item| item.id()) {
            record.id(key!("group_id"), group);
        } else if let Some(group) = task.text(ItemKind::Group) {
            record.text(key!("group_id"), group)?;
        }
        let values = Values::of(task);
        for (key, kind) in [
            (key!("used"), ItemKind::Used),
            (key!("generated"), ItemKind::Generated),
            (key!("custom_metadata"), ItemKind::Metadata),
        ] {
            values.write(&mut record, key, kind, &notes)?;
        }
        record.field(key!("started_at"), &clock::seconds(task.start.wall_ns))?;
        if let Some(duration) = head.duration_ns {
            let ended_at = task.start.wall_ns.saturating_add(duration);
            record.field(key!("ended_at"), &clock::seconds(ended_at))?;
            record.field(key!("duration_ns"), &duration)?;
        }
        record.plain(key!("status"), status.as_str());
        if let Some(end) = task.end {
            if end.ending == Ending::Dropped {
                record.field(key!("ended_early"), &true)?;
            }
            if status == Status::Error {
                let failure = Failure { task, ending: end.ending };
                record.field(key!("stderr"), &failure.sentence())?;
                record.field(key!("error"), &failure)?;
            }
        }
        for (key, kind) in [
            (key!("telemetry_at_start"), ItemKind::TelemetryAtStart),
            (key!("telemetry_at_end"), ItemKind::TelemetryAtEnd),
        ] {
            let Some(capture) = task.all(kind).next() else { continue };
            if !record.written(key, |to| Snapshot(capture.payload).write_json(to)) {
                notes.add(key.name().to_owned(), "it was damaged on its way to the store".into());
            }
        }
        if let Some(measured) = measured {
            record.field(key!("capture"), &Capture::of(&measured))?;
            if !measured.is_counted {
                notes.add("resources".to_owned(), usage::UNAVAILABLE.into());
            }
        } else if task.has(ItemKind::NoCaptures) {
            record.ready(r#""capture":{"mode":"none","reason":"budget"}"#);
        }
        let child = task
            .all(ItemKind::ChildUsage)
            .next()
            .map(|item| ValueView::new(item.payload).to_json());
        if measured.is_some() || child.is_some() {
            let (process, by_children) = (task.process_use(), task.by_children);
            let energy = match task.energy_use() {
                Some(Ok(used)) => Some(used),
                Some(Err(reason)) => {
                    notes.add("resources.joules".to_owned(), reason.into());
                    None
                }
                None => None,
            };
            if task.has_shared_captures() && task.counts_process() {
                for name in ["read_bytes", "write_bytes", "rss_bytes"] {
                    notes.add(format!("resources.{name}"), SHARED.into());
                }
            }
            let used = Resources { measured, process, by_children, energy, child };
            record.field(key!("resources"), &used)?;
        }
        record.ready(&common.process);
        let thread = &task.thread;
        record.ready(
            thread.json.get_or_init(|| json::fields(|it| it.field(key!("thread"), &**thread))),
        );
        match task.site {
            // Recovered sites of other builds may belong to loops without a location.
            Some(site) if task.start.is_brief || site.spec.file.is_empty() => {}
            Some(site) => {
                record.once(&site.code, |record| record.field(key!("code"), &Code(site)));
            }
            None => {
                let place = task.all(ItemKind::Code).next().map_or(&[][..], |item| item.payload);
                common.places.add(&mut record, place);
            }
        }
        head.hashes = hashes_of(&values, &notes);
        if !head.hashes.is_empty() {
            record.field(key!("hashes"), &Hashes(&head.hashes))?;
        }
        for item in task.all(ItemKind::Unavailable) {
            if let Key::Name(what) = item.key() {
                notes.add(what.to_owned(), item.text().to_owned().into());
            }
        }
        let forgotten = task.all(ItemKind::Forgotten).next().map(|item| item.payload);
        let Forgotten { outputs, messages } = forgotten.map(Forgotten::read).unwrap_or_default();
        if task.start.lost_items {
            notes.add("used".to_owned(), "the record was too large for the queue".into());
        }
        let lost_outputs = task.end.is_some_and(|end| end.lost_items);
        if lost_outputs || outputs > 0 {
            let full = lost_outputs.then(|| "the queue was full".to_owned());
            let reasons: Vec<_> = full.into_iter().chain(too_many(outputs)).collect();
            notes.add("generated".to_owned(), reasons.join("; ").into());
        }
        if let Some(reason) = too_many(messages) {
            notes.add("error".to_owned(), reason.into());
        }
        let mut notes = notes.take();
        if task.has(ItemKind::NoCaptures) {
            notes.push(("resources".to_owned(), NO_BUDGET.into()));
        }
        if !notes.is_empty() {
            record.field(key!("unavailable"), &Pairs(&notes))?;
        }
        record.end();
        Ok(head)
    }

    /// Returns the head of the record, without the hashes.
    fn head(&self, status: Status, measured: Option<&Measured>) -> RecordHead<'static> {
        let (task, common) = (self.task, self.common);
        let text = |id: Id| id.text(&mut [0; 36]).to_owned().into();
        let activity = match (task.text(ItemKind::Activity), task.site) {
            (None, Some(site)) => site.spec.name.into(),
            (name, _) => name.unwrap_or("unknown").to_owned().into(),
        };
        let elapsed = |end: End| end.monotonic_ns.saturating_sub(task.start.monotonic_ns);
        RecordHead {
            kind: RecordKind::Task,
            task_id: Some(text(task.start.id)),
            workflow_id: Some(common.workflow_id.clone().into()),
            campaign_id: Some(common.campaign_id.clone().into()),
            parent_task_id: task.start.parent.map(text),
            activity_id: Some(activity),
            status: Some(status),
            pid: Some(common.pid.into()),
            started_at: Some(clock::seconds(task.start.wall_ns)),
            duration_ns: task.end.map(elapsed),
            capture_ns: measured.map_or(0, |it| it.start_ns + it.end_ns),
            hashes: Vec::new(),
            is_exact: true,
        }
    }
}

/// Adds the subtype and tags of a task.
fn classes(record: &mut Object<'_>, task: &Task) -> Done {
    let spec = task.site.map(|site| &site.spec);
    if let Some(name) = task.text(ItemKind::Subtype).or(spec.and_then(|spec| spec.subtype)) {
        record.text(key!("subtype"), name)?;
    }
    let tags = spec.map_or(&[][..], |spec| spec.tags);
    if !tags.is_empty() || task.has(ItemKind::Tag) {
        let said = task.all(ItemKind::Tag).map(|item| item.text());
        record.field(key!("tags"), &tags.iter().copied().chain(said).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn too_many(forgotten: u64) -> Option<String> {
    (forgotten > 0).then(|| format!("{forgotten} more were told than a record holds"))
}

/// How a task was measured, and the cost of measuring.
#[derive(serde::Serialize)]
struct Capture {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ns: Option<u64>,
    start_ns: u64,
    end_ns: u64,
    nested_ns: u64,
}

impl Capture {
    fn of(measured: &Measured) -> Self {
        let Measured { start_ns, end_ns, nested_ns, shared_age_ns, .. } = *measured;
        let mode = if shared_age_ns.is_some() { "shared" } else { "own" };
        Self { mode, age_ns: shared_age_ns, start_ns, end_ns, nested_ns }
    }
}

/// A value with its name.
struct Entry<'a> {
    /// `Used`, `Generated` or `Metadata`.
    kind: ItemKind,
    name: Name<'a>,
    value: ValueView<'a>,
    marks: Marks,
}

/// The inputs, outputs and metadata of a task, in one list. Most tasks have few values, and a list
/// per kind would cost more than searching this one.
struct Values<'a>(Vec<Entry<'a>>);

impl<'a> Values<'a> {
    fn of(task: &'a Task) -> Self {
        let mut values = Vec::with_capacity(FEW_VALUES);
        // The position of each output, for tasks that may have thousands of them.
        let mut outputs = (task.items().0.len() > MANY_ITEMS).then(HashMap::new);
        for item in task.items() {
            let kind = item.kind;
            if !matches!(kind, ItemKind::Used | ItemKind::Generated | ItemKind::Metadata) {
                continue;
            }
            let name = match item.key() {
                Key::Name(name) => Name::Dynamic(name),
                Key::Index(index) => task
                    .site
                    .and_then(|site| site.name_of(kind, index))
                    .map_or(Name::Dynamic("value"), Name::Static),
            };
            let value = ValueView::new(item.payload);
            let entry = Entry { kind, name, value, marks: item.marks };
            if kind == ItemKind::Generated && entry.value.is_unit() {
                continue;
            }
            // A name that is given twice is written once, with its last value.
            let is_same =
                |known: &Entry<'_>| known.kind == kind && known.name.text() == name.text();
            let next = values.len();
            let place = match &mut outputs {
                Some(outputs) if kind == ItemKind::Generated => {
                    *outputs.entry(name.text()).or_insert(next)
                }
                _ => values.iter().position(is_same).unwrap_or(next),
            };
            match values.get_mut(place) {
                Some(known) => *known = entry,
                None => values.push(entry),
            }
        }
        if task.site.is_some_and(|site| site.spec.spread) {
            values = values.into_iter().flat_map(Entry::spread).collect();
        }
        Self(values)
    }

    /// Adds the values of one kind to a record, if there are any.
    fn write(&self, record: &mut Object<'_>, key: FieldKey, kind: ItemKind, notes: &Notes) -> Done {
        let mut is_open = false;
        for Entry { name, value, marks, .. } in self.0.iter().filter(|entry| entry.kind == kind) {
            if !std::mem::replace(&mut is_open, true) {
                record.open(key);
            }
            record.named(*name, |to| {
                value.noting(&[key.name(), name.text()], notes, marks.cut).write_json(to)
            })?;
        }
        if is_open {
            record.close();
        }
        Ok(())
    }
}

impl Entry<'_> {
    /// Replaces an output that is a map by its fields.
    fn spread(self) -> Vec<Self> {
        if self.kind != ItemKind::Generated || !self.value.is_map() {
            return vec![self];
        }
        let fields = self.value.fields().into_iter();
        fields.map(|(name, value)| Entry { name: Name::Dynamic(name), value, ..self }).collect()
    }
}

/// Hashes the values. If a value has no hash, the reason goes to `notes`.
fn hashes_of(values: &Values<'_>, notes: &Notes) -> Vec<ValueHash<'static>> {
    let mut hashes = Vec::new();
    let mut form = hash::Form::default();
    for Entry { kind, name, value, marks } in &values.0 {
        let side = match kind {
            ItemKind::Used => "used",
            ItemKind::Generated => "generated",
            _ => continue,
        };
        if marks.redacted {
            continue;
        }
        match hash::of_captured(*value, marks.cut, marks.no_hash, &mut form) {
            Ok(Some(hash)) => hashes.push(ValueHash {
                side,
                name: name.text().to_owned().into(),
                hash: hash.text().into(),
            }),
            Ok(None) => {}
            Err(why) => {
                if let Some(reason) = why.reason() {
                    notes.add(format!("hashes.{side}.{}", name.text()), reason.into());
                }
            }
        }
    }
    hashes
}

/// `{used: {name: hash}, generated: {name: hash}}`
struct Hashes<'a>(&'a [ValueHash<'static>]);

impl Serialize for Hashes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for side in ["used", "generated"] {
            let hashes = self.0.iter().filter(|hash| hash.side == side);
            let pairs: Vec<_> = hashes.map(|hash| (&*hash.name, &*hash.hash)).collect();
            if !pairs.is_empty() {
                map.serialize_entry(side, &Pairs(&pairs))?;
            }
        }
        map.end()
    }
}

/// Serialises pairs as an object.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Serialize, V: Serialize> Serialize for Pairs<'_, K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

struct Failure<'a> {
    task: &'a Task,
    ending: Ending,
}

impl<'a> Failure<'a> {
    fn messages(&self) -> Vec<&'a str> {
        let messages: Vec<_> =
            self.task.all(ItemKind::ErrorMessage).map(|item| item.text()).collect();
        match (messages.is_empty(), self.ending) {
            (false, _) => messages,
            (true, Ending::Cancelled) => {
                vec!["cancelled: the future was dropped before it finished"]
            }
            (true, Ending::Panicked) => vec!["panicked"],
            (true, _) => vec!["failed"],
        }
    }

    fn sentence(&self) -> String {
        self.messages().join(": ")
    }
}

impl Serialize for Failure<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let kind = match self.ending {
            Ending::Panicked => "panic",
            Ending::Cancelled => "cancelled",
            _ => "error",
        };
        map.serialize_entry("kind", kind)?;
        if let Some(name) = self.task.text(ItemKind::ErrorType) {
            map.serialize_entry("type", name)?;
        }
        let messages = self.messages();
        map.serialize_entry("message", messages[0])?;
        if messages.len() > 1 {
            map.serialize_entry("chain", &messages[1..])?;
        }
        let frames: Vec<_> = self.task.all(ItemKind::Backtrace).map(|item| item.text()).collect();
        if !frames.is_empty() {
            map.serialize_entry("backtrace", &frames)?;
        }
        map.end()
    }
}

/// The location of an annotated function or a loop.
struct Code(&'static Site);

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let spec = &self.0.spec;
        let mut map = serializer.serialize_map(None)?;
        if !spec.crate_name.is_empty() {
            map.serialize_entry("crate", spec.crate_name)?;
            map.serialize_entry("version", spec.crate_version)?;
            map.serialize_entry("module", spec.module)?;
        }
        if let Some(function) = self.0.function() {
            map.serialize_entry("function", function)?;
        }
        map.serialize_entry("file", spec.file)?;
        map.serialize_entry("line", &spec.line)?;
        map.serialize_entry("column", &spec.column)?;
        if let Some(commit) = spec.commit {
            map.serialize_entry("commit", commit)?;
        }
        map.end()
    }
}

/// The location of a manually recorded task, or of a loop without a site: line, column and file.
struct SourceLocation<'a>(&'a [u8]);

impl Serialize for SourceLocation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.0.is_empty() {
            let (place, file) = self.0.split_at(self.0.len().min(8));
            map.serialize_entry("file", &String::from_utf8_lossy(file))?;
            map.serialize_entry("line", &u32_at(place, 0))?;
            map.serialize_entry("column", &u32_at(place, 4))?;
        }
        map.end()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::rc::Rc;

    use serde_json::{Value, json};

    use super::super::event::{End, Start, push_item};
    use super::super::thread::Thread;
    use super::*;
    use runlore_core::record::Id;
    use runlore_core::usage::Usage;
    use runlore_telemetry::{TelemetryCapture, TelemetryType, Types};

    /// Returns the record of a task with two process captures. They are shared with this age, or
    /// its own.
    fn recorded(shared_age_ns: Option<u64>) -> Value {
        let types = Types::from([TelemetryType::ProcessInfo]);
        let capture = TelemetryCapture::new(types);
        let mut items = Vec::new();
        for kind in [ItemKind::TelemetryAtStart, ItemKind::TelemetryAtEnd] {
            push_item(&mut items, kind, Key::Index(0), |items| {
                capture.capture_into(types, items);
                Marks::default()
            });
        }
        let mut usage = Usage::NONE;
        usage.cpu_ns = 7;
        let measured = Measured {
            own: usage,
            inclusive: usage,
            peak_bytes: 0,
            start_ns: 1,
            end_ns: 2,
            nested_ns: 3,
            is_counted: true,
            is_shared: false,
            children_are_shared: false,
            is_thinned: false,
            shared_age_ns,
        };
        push_item(&mut items, ItemKind::Measured, Key::Index(0), |items| {
            measured.write(items);
            Marks::default()
        });
        let start = Start {
            id: Id::new(),
            parent: None,
            site: 0,
            workflow: 1,
            monotonic_ns: 0,
            wall_ns: 0,
            lost_items: false,
            is_brief: false,
        };
        let mut task = Task::begun(start, items, Rc::new(Thread::new(1, b"main")), None);
        let (id, ending) = (start.id, Ending::Finished);
        task.end(End { id, monotonic_ns: 5, ending, lost_items: false }, &[]);
        let common = Common::new("w", "c", "node1", 7, &Identity::default());
        let mut line = Vec::new();
        TaskView { task: &task, common: &common }.write(&mut line).unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_shared_capture_says_its_age_and_nothing_of_the_process_meanwhile() {
        let own = recorded(None);
        let cost = json!({"mode": "own", "start_ns": 1, "end_ns": 2, "nested_ns": 3});
        assert_eq!(own["capture"], cost);
        assert!(own["resources"].get("rss_bytes").is_some(), "{own}");
        let shared = recorded(Some(2_000));
        assert_eq!(shared["capture"]["mode"], "shared");
        assert_eq!(shared["capture"]["age_ns"], 2_000);
        assert!(shared.get("telemetry_at_end").is_some());
        assert_eq!(shared["resources"]["cpu_ns"]["self"], 7);
        for name in ["read_bytes", "write_bytes", "rss_bytes"] {
            assert!(shared["resources"].get(name).is_none(), "{shared}");
            let reason = &shared["unavailable"][format!("resources.{name}")];
            assert_eq!(reason, SHARED, "{shared}");
        }
    }
}
