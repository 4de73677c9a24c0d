//! Reading one layer: where it stands, what it found wrong, and what it set.

use std::collections::{BTreeMap, HashSet};

use super::foreign;
use super::nearest::suggestion;
use super::node::{Entry, Node, Value, quoted};

/// Which layer, and which node of it.
pub(super) type Place = (usize, u32);

/// More than this nobody reads; a file of nothing but mistakes must not cost more and more.
const MAX_FOUND: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The layer that is read.
    pub(super) layer: usize,
    path: String,
    /// What is wrong.
    pub(super) found: Vec<(Place, String)>,
    /// How many problems are not among `found`.
    pub(super) unsaid: usize,
    /// Who set each key last.
    pub(super) origins: BTreeMap<String, Place>,
    /// Keys of Flowcept's that mean nothing here, with the layer.
    pub(super) foreign: Vec<(usize, String)>,
    /// Keys whose values hold a `${…}`, with the layer.
    pub(super) interpolated: Vec<(usize, String)>,
}

impl Reader {
    /// The key that is read, as `section.key`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Goes down one key.
    pub(super) fn within(&mut self, entry: &Entry, read: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(&entry.key);
        read(self);
        self.path.truncate(length);
    }

    /// The keys of a section, each once.
    pub(super) fn section<'n>(&mut self, node: &'n Node) -> Vec<&'n Entry> {
        let entries = match &node.value {
            // A section whose keys are all commented out.
            Value::Null => return Vec::new(),
            Value::Map(entries) => entries,
            _ if node.is_interpolated() => {
                self.interpolated();
                return Vec::new();
            }
            _ => {
                let wanted = match self.path.as_str() {
                    "" => "settings must be sections such as `telemetry_capture:`".to_owned(),
                    path => format!("{path} must hold keys such as `name: value`"),
                };
                let message = format!("{wanted}, not {}", node.named());
                self.wrong(node.number, message);
                return Vec::new();
            }
        };
        let mut seen = HashSet::new();
        let mut once = Vec::new();
        for entry in entries {
            if seen.insert(entry.key.as_str()) {
                once.push(entry);
            } else {
                let key = quoted(&entry.key, "a key");
                let message = format!("{key} stands twice in {}: the first is used", self.whose());
                self.wrong(entry.number, message);
            }
        }
        once
    }

    fn whose(&self) -> String {
        if self.path.is_empty() { "the file".to_owned() } else { self.path.clone() }
    }

    /// A key that does not exist; `valid` do.
    pub(super) fn unknown(&mut self, entry: &Entry, valid: &[&str]) {
        let mut path = String::new();
        self.within(entry, |reader| path.push_str(&reader.path));
        if foreign::is_flowcepts(&path) {
            self.foreign.push((self.layer, path));
            return;
        }
        let key = quoted(&entry.key, "key");
        let suggestion = suggestion(&entry.key, valid);
        let message = match self.path.as_str() {
            "" => format!("unknown section {key}: {suggestion}"),
            path => format!("unknown key {key} in {path}: {suggestion}"),
        };
        self.wrong(entry.number, message);
    }

    pub(super) fn wrong(&mut self, number: u32, message: String) {
        if self.found.len() < MAX_FOUND {
            self.found.push(((self.layer, number), message));
        } else {
            self.unsaid += 1;
        }
    }

    /// The key has a value from here.
    pub(super) fn set(&mut self, node: &Node) {
        self.origins.insert(self.path.clone(), (self.layer, node.number));
    }

    /// The value would have to be filled in, which is not done here.
    pub(super) fn interpolated(&mut self) {
        self.interpolated.push((self.layer, self.path.clone()));
    }
}
