//! Layers of settings: one per file, and one per environment variable.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::node::{self, Entry, Node, NotYaml, Value};
use super::types::Settings;

/// The largest settings file that is read.
const MAX_BYTES: usize = 256 << 10;

/// A layer that has not been read yet.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Text { name: String, text: String },
    Variable { name: String, value: String },
}

/// A layer that has been read.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) source: Source,
    /// The text that the nodes were parsed from. Empty for a variable.
    text: String,
}

impl Layer {
    /// Reads a layer. Returns an error in place of the node if the whole layer is unusable.
    pub(super) fn open(source: Source) -> (Self, Result<Option<Node>, NotYaml>) {
        let text = match &source {
            Source::File(path) => read(path),
            Source::Text { text, .. } => Ok(text.clone()),
            Source::Variable { name, value } => {
                let node = match right_name(name) {
                    Some(right) => Err(NotYaml {
                        message: format!("two underscores stand between levels: `{right}`"),
                        place: None,
                    }),
                    None => Ok(Some(variable(name, value))),
                };
                return (Self { source, text: String::new() }, node);
            }
        };
        match text {
            Ok(text) => {
                let node = node::parse(&text);
                (Self { source, text }, node)
            }
            Err(problem) => (Self { source, text: String::new() }, Err(problem)),
        }
    }

    /// Returns the layer's name, for messages.
    pub(super) fn name(&self) -> String {
        match &self.source {
            Source::File(path) => {
                // A file in the working directory is shown without `./`.
                path.strip_prefix("./").unwrap_or(path).display().to_string()
            }
            Source::Text { name, .. } | Source::Variable { name, .. } => name.clone(),
        }
    }

    /// Returns the line and column of a node.
    pub(super) fn place(&self, number: u32) -> Option<(usize, usize)> {
        match self.source {
            Source::Variable { .. } => None,
            _ => node::locate(&self.text, number),
        }
    }
}

/// Reads the text of a file. The error says why that failed.
pub(super) fn read(path: &Path) -> Result<String, NotYaml> {
    let problem = |message: &str| NotYaml { message: message.to_owned(), place: None };
    if path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    let cannot = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => problem("there is no such file"),
        kind => problem(&format!("cannot be read: {kind}")),
    };
    let metadata = fs::metadata(path).map_err(|error| cannot(&error))?;
    if metadata.is_dir() {
        return Err(problem("is a folder, not a file"));
    }
    if !metadata.is_file() {
        // Opening a pipe could block the program.
        return Err(problem("is not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() > MAX_BYTES {
        return Err(problem("is longer than 256 KiB, which settings never are"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = good.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&good[start..]).chars().count() + 1;
        NotYaml { message: "is not UTF-8 text".to_owned(), place: Some((line, column)) }
    })
}

/// Returns the name of the environment variable for a key.
pub(super) fn variable_of(path: &str) -> String {
    format!("RUNLORE_{}", path.to_uppercase().replace('.', "__"))
}

/// Returns the intended variable if the name matches a key except for its underscores.
pub(super) fn right_name(name: &str) -> Option<String> {
    if name.contains("__") {
        return None;
    }
    let squeezed = |text: &str| text.replace('_', "");
    let meant = squeezed(name);
    let keys = Settings::default().keys();
    let mut names =
        keys.iter().filter(|(key, _)| key.contains('.')).map(|(key, _)| variable_of(key));
    names.find(|right| squeezed(right) == meant)
}

/// Turns `RUNLORE_SECTION__KEY=value` into the tree that a file would have.
fn variable(name: &str, value: &str) -> Node {
    let text = || Node { number: 0, value: Value::Text(value.to_owned()) };
    let node = match node::parse(value) {
        Ok(Some(node)) => match node.value {
            // A variable holds one value, so `a: b` without braces is text and not a mapping.
            Value::List(_) | Value::Map(_) if !value.trim_start().starts_with(['[', '{']) => text(),
            _ => node,
        },
        Ok(None) => Node { number: 0, value: Value::Null },
        // Text that is not valid YAML, such as `@me`.
        Err(_) => text(),
    };
    let path = name.strip_prefix("RUNLORE_").unwrap_or(name).to_lowercase();
    path.split("__").collect::<Vec<_>>().into_iter().rev().fold(node, |node, key| Node {
        number: 0,
        value: Value::Map(vec![Entry { number: 0, key: key.to_owned(), node }]),
    })
}
