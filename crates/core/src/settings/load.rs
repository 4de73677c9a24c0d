//! Layers put together, and what there is to know about the result.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::alias;
use super::checks::{self, Below};
use super::layer::{Layer, Source};
use super::nearest::listed;
use super::node;
use super::problem::{Problem, Severity};
use super::reader::{Place, Reader};
use super::setting::Setting as _;
use super::types::Settings;
use crate::once::Once;

/// The documented default settings: the text of `settings.yaml`.
pub const DEFAULT_YAML: &str = include_str!("../../settings.yaml");

impl Default for Settings {
    fn default() -> Self {
        static DEFAULT: Once<Settings> = Once::new();
        let read = || {
            let mut settings = Settings::blank();
            if let Ok(Some(node)) = node::parse(DEFAULT_YAML) {
                settings.read(&node, &mut Reader::default());
            }
            settings
        };
        DEFAULT.get_or_init(read).clone()
    }
}

/// Settings, where each came from, and what was wrong on the way; made by [`Settings::load`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The settings. Keys that were wrong have the value of the layer below.
    pub settings: Settings,
    problems: Vec<Problem>,
    layers: Vec<Layer>,
    origins: BTreeMap<String, Place>,
}

/// Where the value of a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The defaults.
    Default,
    /// A file, at this line.
    File {
        /// The file's name as in messages.
        name: String,
        /// The line, from 1.
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
    /// Its path, such as `telemetry_capture.cpu`.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Where the value came from.
    pub origin: Origin,
}

impl Loaded {
    /// What was wrong, and what is worth knowing, in the order of the layers.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether nothing was wrong. There may be notices.
    pub fn is_fine(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity < Severity::Error)
    }

    /// The settings if nothing was wrong, otherwise the first problem.
    pub fn strict(self) -> crate::Result<Settings> {
        let first = self.problems.into_iter().find(|problem| problem.severity >= Severity::Error);
        first.map_or(Ok(self.settings), |problem| Err(problem.into()))
    }

    /// The files that were read, the one with the last word at the end.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().filter_map(|layer| match &layer.source {
            Source::File(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Every key, its value, and where it came from.
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

/// Reads the layers, the lowest first.
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

/// One sentence a layer about what was understood and left aside.
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
    /// The settings of this process: the file named by `RUNLORE_SETTINGS_PATH`, or else `./settings.yaml` over the one
    /// in the user's configuration folder; over them variables such as `RUNLORE_TELEMETRY_CAPTURE__CPU`; beneath them
    /// the defaults. This never fails: what is wrong is told in [`Loaded::problems`], and changes nothing.
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

    /// The settings in a file, over the defaults and beneath the variables of this process.
    pub fn load_from(path: impl Into<PathBuf>) -> Loaded {
        super::Search::new().path(path).load()
    }
}
