//! Merges the layers of settings, and reports the problems and the origin of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::alias;
use super::checks::{self, Below};
use super::layer::{Layer, Source};
use super::nearest::listed;
use super::node;
use super::problem::{Problem, Severity};
use super::reader::{NodeKey, Reader};
use super::setting::Setting as _;
use super::types::Settings;
use crate::fork::get_or_make;

/// The documented default settings: the text of `settings.yaml`.
pub const DEFAULT_YAML: &str = include_str!("../../settings.yaml");

impl Default for Settings {
    fn default() -> Self {
        static DEFAULT: OnceLock<Settings> = OnceLock::new();
        let read = || {
            let mut settings = Settings::blank();
            if let Ok(Some(node)) = node::parse(DEFAULT_YAML) {
                settings.read(&node, &mut Reader::default());
            }
            settings
        };
        get_or_make(&DEFAULT, read).clone()
    }
}

/// Loaded settings, the origin of each value, and the problems found. Made by [`Settings::load`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The settings. A key with an invalid value keeps the value of the layer below.
    pub settings: Settings,
    problems: Vec<Problem>,
    layers: Vec<Layer>,
    origins: BTreeMap<String, NodeKey>,
}

/// The origin of a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The defaults.
    Default,
    /// A line of a file.
    File {
        /// The file's name, as messages show it.
        name: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// One key of [`Loaded::keys`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// The key's path, such as `telemetry_capture.cpu`.
    pub path: String,
    /// The key's value.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

impl Loaded {
    /// Returns the errors and notices, in the order of the layers.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns whether there are no errors. There may be notices.
    pub fn is_fine(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity < Severity::Error)
    }

    /// Returns the settings, or the first error if there is one.
    pub fn strict(self) -> crate::Result<Settings> {
        let first = self.problems.into_iter().find(|problem| problem.severity >= Severity::Error);
        first.map_or(Ok(self.settings), |problem| Err(problem.into()))
    }

    /// Returns the files that were read. A later file overrides an earlier one.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().filter_map(|layer| match &layer.source {
            Source::File(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns every key with its value and origin.
    ///
    /// ```
    /// use runlore::settings::{Origin, Search};
    ///
    /// let loaded = Search::nowhere().variables([("RUNLORE_TELEMETRY_CAPTURE__CPU", "no")]).load();
    /// let cpu = &loaded.keys()[0];
    /// assert_eq!(cpu.path, "telemetry_capture.cpu");
    /// assert_eq!(cpu.origin, Origin::Variable("RUNLORE_TELEMETRY_CAPTURE__CPU".to_owned()));
    /// ```
    pub fn keys(&self) -> Vec<Key> {
        let keys = self.settings.keys().into_iter();
        keys.map(|(path, value)| Key { origin: self.origin(&path), path, value }).collect()
    }

    fn origin(&self, path: &str) -> Origin {
        let Some((layer, number)) = self.origins.get(path) else { return Origin::Default };
        let layer = &self.layers[*layer];
        match &layer.source {
            Source::Variable { name, .. } => Origin::Variable(name.clone()),
            _ => {
                let line = layer.place(*number).map_or(1, |(line, _)| line);
                Origin::File { name: layer.name(), line }
            }
        }
    }
}

/// Loads the layers, the lowest first.
pub(super) fn load(sources: Vec<Source>) -> Loaded {
    let mut settings = Settings::default();
    let mut reader = Reader::default();
    let mut layers = Vec::new();
    let mut problems = Vec::new();
    for source in sources {
        reader.layer = layers.len();
        let (layer, mut node) = Layer::open(source);
        if let Ok(Some(node)) = &mut node {
            alias::resolve_redact(node);
        }
        if let Ok(Some(node)) = &mut node
            && let Some((number, message)) = alias::resolve(node)
        {
            reader.wrong(number, message);
        }
        let mut tell = |severity, place, message: String| {
            problems
                .push((reader.layer, Problem { severity, source: layer.name(), place, message }));
        };
        match node {
            Ok(Some(node)) => {
                let below = Below { settings: settings.clone(), origins: reader.origins.clone() };
                settings.read(&node, &mut reader);
                checks::check_layer(&mut settings, &below, &mut reader);
            }
            Ok(None) => {
                let message = "holds no settings: the defaults stand".to_owned();
                tell(Severity::Notice, None, message);
            }
            Err(problem) => tell(Severity::Error, problem.place, problem.message),
        }
        layers.push(layer);
    }
    checks::check_all(&mut settings, &mut reader);
    for ((layer, number), message) in std::mem::take(&mut reader.found) {
        let (source, place) = (layers[layer].name(), layers[layer].place(number));
        let problem = Problem { severity: Severity::Error, source, place, message };
        problems.push((layer, problem));
    }
    for (layer, message) in notices(&reader) {
        let source = layers[layer].name();
        problems
            .push((layer, Problem { severity: Severity::Notice, source, place: None, message }));
    }
    if let Some(hash) = checks::hash_notice(&settings)
        && let Some((layer, number)) = reader.origins.get("instrumentation.hash")
    {
        let (source, place) = (layers[*layer].name(), layers[*layer].place(*number));
        let message = hash.to_owned();
        problems.push((*layer, Problem { severity: Severity::Notice, source, place, message }));
    }
    problems.sort_by_key(|(layer, problem)| (*layer, problem.place.is_none(), problem.place));
    let mut problems: Vec<Problem> = problems.into_iter().map(|(_, problem)| problem).collect();
    if reader.unsaid > 0
        && let Some(last) = layers.last()
    {
        let message = format!("{} more problems like these", reader.unsaid);
        let (severity, source) = (Severity::Error, last.name());
        problems.push(Problem { severity, source, place: None, message });
    }
    Loaded { settings, problems, layers, origins: reader.origins }
}

/// Returns one sentence per layer about the keys that were recognised but ignored.
fn notices(reader: &Reader) -> BTreeMap<usize, String> {
    let mut notices = BTreeMap::new();
    let of = |all: &[(usize, String)], layer: usize| -> Vec<String> {
        all.iter().filter(|(of, _)| *of == layer).map(|(_, path)| path.clone()).collect()
    };
    for (layer, _) in reader.foreign.iter().chain(&reader.interpolated) {
        let (foreign, interpolated) =
            (of(&reader.foreign, *layer), of(&reader.interpolated, *layer));
        let mut parts = Vec::new();
        if !foreign.is_empty() {
            let keys = listed(&foreign);
            parts.push(format!("left aside, as Flowcept's keys that mean nothing here: {keys}"));
        }
        if !interpolated.is_empty() {
            let keys = listed(&interpolated);
            parts.push(format!("left as before, since `${{…}}` is not filled in: {keys}"));
        }
        notices.insert(*layer, parts.join("; "));
    }
    notices
}

impl Settings {
    /// Loads the settings of this process.
    ///
    /// The layers, from the lowest to the highest:
    ///
    /// * the defaults
    /// * the file named by `RUNLORE_SETTINGS_PATH`; without that variable, the `settings.yaml` in
    ///   the user's configuration folder and then `./settings.yaml`
    /// * environment variables such as `RUNLORE_TELEMETRY_CAPTURE__CPU`
    ///
    /// This never fails. Invalid values are reported in [`Loaded::problems`] and change nothing.
    ///
    /// ```
    /// let loaded = runlore::settings::Settings::load();
    /// for problem in loaded.problems() {
    ///     eprintln!("{problem}");
    /// }
    /// let settings = loaded.settings;
    /// ```
    pub fn load() -> Loaded {
        super::Search::new().load()
    }

    /// Loads the settings in a file. They override the defaults; environment variables override
    /// them.
    pub fn load_from(path: impl Into<PathBuf>) -> Loaded {
        super::Search::new().path(path).load()
    }
}
