//! Where settings are looked for.

use std::path::{Path, PathBuf};

use super::layer::{self, Source};
use super::load::{self, Loaded};
use super::node::{self, Value};
use super::types::Settings;

/// The environment variable with the path of the settings file.
pub(super) const PATH_VARIABLE: &str = "RUNLORE_SETTINGS_PATH";

/// Runlore's environment variables that are not settings.
const NOT_KEYS: &[&str] =
    &[PATH_VARIABLE, "RUNLORE_CONTEXT", "RUNLORE_GIT_COMMIT", "RUNLORE_STORE"];

/// Top-level keys that no other program's `settings.yaml` has. One of them marks the file as
/// Runlore's.
const OURS: &[&str] =
    &["telemetry_capture", "instrumentation", "recorder", "sys_metadata", "extra_metadata"];

/// The places where settings are looked for. Does what [`Settings::load`] does, with other places.
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
    /// Looks in the working directory, the user's configuration folder and the environment of this
    /// process.
    pub fn new() -> Self {
        // `vars` panics on text that is not Unicode.
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

    /// Looks nowhere: the result is the defaults.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// Reads this file instead of searching for one.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(Source::File(path.into()));
        self
    }

    /// Reads this text instead of a file. Messages show `name` as the file's name.
    pub fn text(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.explicit = Some(Source::Text { name: name.into(), text: text.into() });
        self
    }

    /// Reads the `settings.yaml` of this folder, if it has a key of Runlore's.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Reads this file as the user's own. The folder's file overrides it.
    pub fn user_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.user_file = Some(path.into());
        self
    }

    /// Uses these variables instead of the environment's.
    pub fn variables<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables = variables.collect();
        self
    }

    /// Loads the settings. This never fails: problems are reported and change nothing.
    pub fn load(self) -> Loaded {
        load::load(self.sources())
    }

    /// Returns the layers, the lowest first.
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

/// Returns whether a `settings.yaml` that the user did not name is Runlore's. Many programs have a
/// file of that name.
fn is_ours(path: &Path) -> bool {
    let Ok(text) = layer::read(path) else { return false };
    match node::parse(&text) {
        Ok(Some(node::Node { value: Value::Map(entries), .. })) => {
            entries.iter().any(|entry| OURS.contains(&entry.key.as_str()))
                // Other programs may use `databases` and `experiment` too: then every key must be a
                // valid one.
                || load::load(vec![Source::Text { name: String::new(), text }]).is_fine()
        }
        Ok(_) => false,
        // Do not skip a Runlore file that has a syntax error.
        Err(_) => text.lines().any(|line| {
            let key = line.split(':').next().unwrap_or_default();
            key.len() < line.len() && OURS.contains(&key)
        }),
    }
}

/// Returns whether a variable stands for a key or a section. A name that only lacks an underscore
/// counts too, so that the mistake is reported. Other variables are not settings.
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

/// Returns Runlore's folder in the user's configuration folder.
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
