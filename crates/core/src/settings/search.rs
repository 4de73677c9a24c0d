//! Where settings are found.

use std::path::{Path, PathBuf};

use super::layer::{self, Source};
use super::load::{self, Loaded};
use super::node::{self, Value};
use super::types::Settings;

/// The variable that names the file.
pub(super) const PATH_VARIABLE: &str = "RUNLORE_SETTINGS_PATH";

/// Variables of Runlore that are no keys.
const NOT_KEYS: &[&str] =
    &[PATH_VARIABLE, "RUNLORE_CONTEXT", "RUNLORE_GIT_COMMIT", "RUNLORE_STORE"];

/// Top-level keys that no other program's `settings.yaml` has.
const OURS: &[&str] =
    &["telemetry_capture", "instrumentation", "recorder", "sys_metadata", "extra_metadata"];

/// Where to look for settings: [`Settings::load`] with the places changed.
///
/// ```
/// use runlore::settings::Search;
///
/// let loaded = Search::nowhere()
///     .text("settings.yaml", "databases: {jsonl: {path: data}}")
///     .variables([("RUNLORE_TELEMETRY_CAPTURE__MEM", "no")])
///     .load();
/// assert!(loaded.is_fine());
/// assert_eq!(loaded.settings.databases.jsonl.path.to_str(), Some("data"));
/// assert!(!loaded.settings.telemetry_capture.mem);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is read before `load`"]
pub struct Search {
    explicit: Option<Source>,
    folder: Option<PathBuf>,
    user_file: Option<PathBuf>,
    variables: Vec<(String, String)>,
}

impl Search {
    /// The places of this process: the working directory, the user's configuration folder, the environment.
    pub fn new() -> Self {
        // Not `vars`, which panics at what is not Unicode.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("RUNLORE_"))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        Self {
            explicit: None,
            folder: Some(PathBuf::from(".")),
            user_file: user_folder().map(|folder| folder.join("settings.yaml")),
            variables: variables.collect(),
        }
    }

    /// No place at all: the defaults.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// A file to read instead of those that would be looked for.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(Source::File(path.into()));
        self
    }

    /// A text to read instead of a file; `name` stands for the file in messages.
    pub fn text(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.explicit = Some(Source::Text { name: name.into(), text: text.into() });
        self
    }

    /// The folder whose `settings.yaml` is read if it has a key of ours.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The user's own file, beneath that of the folder.
    pub fn user_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.user_file = Some(path.into());
        self
    }

    /// The variables to look at instead of the environment's.
    pub fn variables<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables = variables.collect();
        self
    }

    /// Reads everything. This never fails: what is wrong is told, and changes nothing.
    pub fn load(self) -> Loaded {
        load::load(self.sources())
    }

    /// The layers, the lowest first.
    fn sources(self) -> Vec<Source> {
        let mut sources = Vec::new();
        let named = || {
            let named = self.variables.iter().find(|(name, _)| name == PATH_VARIABLE);
            named.filter(|(_, path)| !path.is_empty()).map(|(_, path)| Source::File(path.into()))
        };
        match self.explicit.or_else(named) {
            Some(source) => sources.push(source),
            None => {
                let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
                sources.extend(self.user_file.filter(is_there).map(Source::File));
                let beside = self.folder.map(|folder| folder.join("settings.yaml"));
                sources.extend(beside.filter(|path| is_ours(path)).map(Source::File));
            }
        }
        let mut variables = self.variables;
        variables.retain(|(name, _)| is_key(name));
        variables.sort();
        let variables = variables.into_iter().map(|(name, value)| Source::Variable { name, value });
        sources.extend(variables);
        sources
    }
}

/// Whether a file that was not asked for is meant for us. Many programs have a `settings.yaml`.
fn is_ours(path: &Path) -> bool {
    let Ok(text) = layer::read(path) else { return false };
    match node::parse(&text) {
        Ok(Some(node::Node { value: Value::Map(entries), .. })) => {
            entries.iter().any(|entry| OURS.contains(&entry.key.as_str()))
                // `databases` and `experiment` may be anybody's: then every key in them must be ours.
                || load::load(vec![Source::Text { name: String::new(), text }]).is_fine()
        }
        Ok(_) => false,
        // A file of ours with a mistake in it must not be passed over.
        Err(_) => text.lines().any(|line| {
            let key = line.split(':').next().unwrap_or_default();
            key.len() < line.len() && OURS.contains(&key)
        }),
    }
}

/// Whether a variable stands for a key or a section. One that lacks but an underscore does too, so that the mistake is
/// told; others are somebody else's.
fn is_key(name: &str) -> bool {
    let Some(path) = name.strip_prefix("RUNLORE_") else { return false };
    if NOT_KEYS.contains(&name) || path.starts_with("TEST_") {
        return false;
    }
    let section = path.to_lowercase();
    path.contains("__")
        || Settings::default().keys().iter().any(|(key, _)| key.split('.').next() == Some(&section))
        || layer::right_name(name).is_some()
}

/// The folder of the user's configuration for this program.
fn user_folder() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = std::env::home_dir().filter(|path| path.is_absolute());
    let folder = if cfg!(windows) {
        variable("APPDATA")
    } else {
        let own = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
        variable("XDG_CONFIG_HOME").or_else(|| Some(home?.join(own)))
    };
    folder.map(|folder| folder.join("runlore"))
}
