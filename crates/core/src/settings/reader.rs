//! The state while layers are read: the current key, the problems found, and which layer set each
//! key.

use std::collections::{BTreeMap, HashSet};

use super::foreign;
use super::nearest::suggestion;
use super::node::{Entry, Node, Value, quoted};

/// The number of a layer, and the number of a node in it.
pub(super) type NodeKey = (usize, u32);

/// The most problems that are reported. A file with nothing but mistakes must not cost more and
/// more.
const MAX_FOUND: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The layer that is being read.
    pub(super) layer: usize,
    path: String,
    /// The problems found so far.
    pub(super) found: Vec<(NodeKey, String)>,
    /// How many more problems there were than `found` has.
    pub(super) unsaid: usize,
    /// For each key, the place that last set it.
    pub(super) origins: BTreeMap<String, NodeKey>,
    /// Flowcept's keys that have no meaning here, each with its layer.
    pub(super) foreign: Vec<(usize, String)>,
    /// Keys whose values contain a `${…}`, each with its layer.
    pub(super) interpolated: Vec<(usize, String)>,
}

impl Reader {
    /// Returns the path of the current key, as `section.key`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Calls `read` with `entry` as the current key.
    pub(super) fn within(&mut self, entry: &Entry, read: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(&entry.key);
        read(self);
        self.path.truncate(length);
    }

    /// Returns the entries of a section. If a key occurs twice, the first one is used.
    pub(super) fn section<'n>(&mut self, node: &'n Node) -> Vec<&'n Entry> {
        let entries = match &node.value {
            // All keys of the section are commented out.
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

    /// Reports an unknown key. `valid` are the keys that exist.
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

    /// Notes that this node set the current key.
    pub(super) fn set(&mut self, node: &Node) {
        self.origins.insert(self.path.clone(), (self.layer, node.number));
    }

    /// Notes that the current key has a `${…}`, which is not interpolated here.
    pub(super) fn interpolated(&mut self) {
        self.interpolated.push((self.layer, self.path.clone()));
    }
}
