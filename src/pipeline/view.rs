//! A paired START and END as a record, written field by field into any format.

use std::rc::Rc;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::event::{End, Ending, Item, ItemKind, Items, Key, Start, u32_at};
use super::site::Site;
use crate::clock;
use crate::record::{Notes, Status, ValueView, hash};

/// A thread that tasks ran on.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) id: u64,
    pub(super) name: Option<String>,
}

/// A task as the writer has it: open while `end` is missing.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) start: Start,
    pub(super) end: Option<End>,
    /// The items of START, of what was added, and of END, one after the other.
    pub(super) items: Vec<u8>,
    pub(super) thread: Rc<Thread>,
}

impl Task {
    fn site(&self) -> Option<&'static Site> {
        Site::of(self.start.site)
    }

    fn items(&self) -> Items<'_> {
        Items(&self.items)
    }

    fn all(&self, kind: ItemKind) -> impl Iterator<Item = Item<'_>> {
        self.items().filter(move |item| item.kind == kind)
    }

    fn text(&self, kind: ItemKind) -> Option<&str> {
        self.all(kind).next().map(|item| item.text())
    }

    pub(super) fn status(&self) -> Status {
        match self.end {
            None => Status::Running,
            Some(End { ending: Ending::Finished | Ending::Dropped, .. })
                if self.text(ItemKind::ErrorMessage).is_none() =>
            {
                Status::Finished
            }
            Some(_) => Status::Error,
        }
    }
}

/// What the tasks of one run have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) workflow_id: String,
    pub(super) campaign_id: String,
    pub(super) hostname: String,
    pub(super) pid: u32,
}

/// A task on its way into a store.
pub(super) struct TaskView<'a> {
    pub(super) task: &'a Task,
    pub(super) common: &'a Common,
}

impl Serialize for TaskView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (task, common) = (self.task, self.common);
        let site = task.site().map(|site| &site.spec);
        let notes = Notes::default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "task")?;
        map.serialize_entry("task_id", &task.start.id)?;
        map.serialize_entry("workflow_id", &common.workflow_id)?;
        map.serialize_entry("campaign_id", &common.campaign_id)?;
        let activity = task.text(ItemKind::Activity).or(site.map(|site| site.name));
        map.serialize_entry("activity_id", activity.unwrap_or("unknown"))?;
        if let Some(parent) = task.start.parent {
            map.serialize_entry("parent_task_id", &parent)?;
        }
        if let Some(subtype) = task.text(ItemKind::Subtype).or(site.and_then(|site| site.subtype)) {
            map.serialize_entry("subtype", subtype)?;
        }
        let tags: Vec<&str> = site
            .map_or(&[][..], |site| site.tags)
            .iter()
            .copied()
            .chain(task.all(ItemKind::Tag).map(|item| item.text()))
            .collect();
        if !tags.is_empty() {
            map.serialize_entry("tags", &tags)?;
        }
        if let Some(group) = task.text(ItemKind::Group) {
            map.serialize_entry("group_id", group)?;
        }
        for (name, section) in [
            ("used", Section::Used),
            ("generated", Section::Generated),
            ("custom_metadata", Section::Metadata),
        ] {
            let values = Values { task, site: task.site(), section, path: name, notes: &notes };
            if values.iter().next().is_some() {
                map.serialize_entry(name, &values)?;
            }
        }
        map.serialize_entry("started_at", &clock::seconds(task.start.wall_ns))?;
        if let Some(end) = task.end {
            let duration = end.monotonic_ns.saturating_sub(task.start.monotonic_ns);
            map.serialize_entry("ended_at", &clock::seconds(task.start.wall_ns + duration))?;
            map.serialize_entry("duration_ns", &duration)?;
        }
        map.serialize_entry("status", &task.status())?;
        if let Some(end) = task.end {
            if end.ending == Ending::Dropped {
                map.serialize_entry("ended_early", &true)?;
            }
            if task.status() == Status::Error {
                let failure = Failure { task, ending: end.ending };
                map.serialize_entry("stderr", &failure.sentence())?;
                map.serialize_entry("error", &failure)?;
            }
        }
        map.serialize_entry("hostname", &common.hostname)?;
        map.serialize_entry("pid", &common.pid)?;
        map.serialize_entry("thread", &*task.thread)?;
        map.serialize_entry("code", &Code { task, site: task.site() })?;
        let hashes = Hashes::of(task);
        if !hashes.is_empty() {
            map.serialize_entry("hashes", &hashes)?;
        }
        for item in task.all(ItemKind::Unavailable) {
            if let Key::Name(what) = item.key {
                notes.add(what.to_owned(), item.text().to_owned().into());
            }
        }
        if task.start.lost_items {
            notes.add("used".to_owned(), "the record was too large for the queue".into());
        }
        if task.end.is_some_and(|end| end.lost_items) {
            notes.add("generated".to_owned(), "the queue was full".into());
        }
        let notes = notes.take();
        if !notes.is_empty() {
            map.serialize_entry("unavailable", &Pairs(&notes))?;
        }
        map.end()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Used,
    Generated,
    Metadata,
}

/// The values of one section of a record, by name.
struct Values<'a> {
    task: &'a Task,
    site: Option<&'static Site>,
    section: Section,
    path: &'static str,
    notes: &'a Notes,
}

impl<'a> Values<'a> {
    /// Names, values, and what to know of them. A name given twice is told once, with its last value.
    fn iter(&self) -> impl Iterator<Item = (&'a str, ValueView<'a>, Item<'a>)> {
        let section = self.section;
        let (kind, names) = match (section, self.site) {
            (Section::Used, site) => (ItemKind::Used, site.map(|site| site.spec.used)),
            (Section::Generated, site) => {
                (ItemKind::Generated, site.map(|site| site.spec.generated))
            }
            (Section::Metadata, site) => (ItemKind::Metadata, site.map(|site| site.spec.metadata)),
        };
        let names = names.unwrap_or_default();
        let items = self.task.items();
        let mut found: Vec<(&'a str, ValueView<'a>, Item<'a>)> = Vec::new();
        for item in items.filter(|item| item.kind == kind) {
            let name = match item.key {
                Key::Name(name) => name,
                Key::Index(index) => names.get(usize::from(index)).copied().unwrap_or("value"),
            };
            let value = ValueView::new(item.payload);
            if section == Section::Generated && value.is_unit() {
                continue;
            }
            match found.iter_mut().find(|(known, ..)| *known == name) {
                Some(known) => *known = (name, value, item),
                None => found.push((name, value, item)),
            }
        }
        let spread =
            section == Section::Generated && self.site.is_some_and(|site| site.spec.spread);
        if spread {
            found = found
                .into_iter()
                .flat_map(|(name, value, item)| {
                    if value.is_map() {
                        value
                            .fields()
                            .into_iter()
                            .map(|(name, value)| (name, value, item))
                            .collect()
                    } else {
                        vec![(name, value, item)]
                    }
                })
                .collect();
        }
        found.into_iter()
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value, _) in self.iter() {
            let path = format!("{}.{name}", self.path);
            map.serialize_entry(name, &value.noting(&path, self.notes))?;
        }
        map.end()
    }
}

/// `{used: {name: hash}, generated: {name: hash}}`
struct Hashes {
    used: Vec<(String, String)>,
    generated: Vec<(String, String)>,
}

impl Hashes {
    fn of(task: &Task) -> Self {
        let notes = Notes::default();
        let mut form = hash::Form::default();
        let mut section = |section, path| {
            let values = Values { task, site: task.site(), section, path, notes: &notes };
            values
                .iter()
                .filter(|(_, _, item)| !item.marks.redacted)
                .filter_map(|(name, value, item)| {
                    let hash = hash::of_captured(value, item.marks.cut, &mut form)?;
                    Some((name.to_owned(), hash))
                })
                .collect()
        };
        Self {
            used: section(Section::Used, "used"),
            generated: section(Section::Generated, "generated"),
        }
    }

    fn is_empty(&self) -> bool {
        self.used.is_empty() && self.generated.is_empty()
    }
}

impl Serialize for Hashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, hashes) in [("used", &self.used), ("generated", &self.generated)] {
            if !hashes.is_empty() {
                map.serialize_entry(name, &Pairs(hashes))?;
            }
        }
        map.end()
    }
}

/// Pairs as an object.
struct Pairs<'a, V>(&'a [(String, V)]);

impl<V: Serialize> Serialize for Pairs<'_, V> {
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
        map.end()
    }
}

impl Serialize for Thread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        map.end()
    }
}

struct Code<'a> {
    task: &'a Task,
    site: Option<&'static Site>,
}

impl Serialize for Code<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(Site { spec, .. }) = self.site {
            map.serialize_entry("crate", spec.crate_name)?;
            map.serialize_entry("version", spec.crate_version)?;
            map.serialize_entry("module", spec.module)?;
            map.serialize_entry("file", spec.file)?;
            map.serialize_entry("line", &spec.line)?;
            map.serialize_entry("column", &spec.column)?;
            if let Some(commit) = spec.commit {
                map.serialize_entry("commit", commit)?;
            }
        } else if let Some(item) = self.task.all(ItemKind::Code).next() {
            let (place, file) = item.payload.split_at(item.payload.len().min(8));
            map.serialize_entry("file", &String::from_utf8_lossy(file))?;
            map.serialize_entry("line", &u32_at(place, 0))?;
            map.serialize_entry("column", &u32_at(place, 4))?;
        }
        map.end()
    }
}
