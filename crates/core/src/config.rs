//! The settings of this process, loaded once, on first use.

use std::sync::OnceLock;

use crate::notice::notice;
use crate::record::{Limits, hash, redact};
use crate::settings::Settings;
use crate::store::{is_known, set_file_mode};
use crate::{Error, ErrorKind, Result};

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Returns the settings of this process. Problems in a file are reported once, and the rest of the
/// file is used.
pub fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(load)
}

#[cold]
fn load() -> &'static Settings {
    let loaded = Settings::load();
    let problems: Vec<String> = loaded.problems().iter().map(ToString::to_string).collect();
    let (settings, is_first) = install(loaded.settings);
    // Another thread may have been faster, and has reported the problems.
    if is_first {
        problems.iter().for_each(|problem| notice(problem));
        for unheard in not_in_force(settings) {
            notice(&format!("{unheard} is not in this version: the setting has no effect"));
        }
    }
    settings
}

/// Uses these settings, unless others are in use already. Returns those in use, and whether they
/// are these.
fn install(settings: Settings) -> (&'static Settings, bool) {
    let mut is_first = false;
    let installed = SETTINGS.get_or_init(|| {
        is_first = true;
        apply(&settings);
        settings
    });
    (installed, is_first)
}

/// Uses these settings in this process instead of looking for a file.
///
/// Call this before the first workflow or task. Later calls return an error.
///
/// ```
/// use runlore::settings::Settings;
///
/// let mut settings = Settings::load().settings;
/// settings.instrumentation.limits.items = 10;
/// runlore::configure(settings)?;
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn configure(settings: Settings) -> Result<()> {
    if install(settings).1 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Settings,
        "settings are in use already: call `configure` before the first workflow or task",
    ))
}

/// Returns the settings that have no effect in this build, so that the user is warned about them.
fn not_in_force(settings: &Settings) -> Vec<&'static str> {
    let databases = &settings.databases;
    [
        (
            databases.sqlite.enabled && !is_known("sqlite"),
            "databases.sqlite (this program is built without the feature `sqlite`)",
        ),
        (
            databases.mongodb.enabled && !is_known("mongodb"),
            "databases.mongodb (this program is built without the feature `mongodb`)",
        ),
        (
            !databases.jsonl.enabled && !databases.sqlite.enabled && !databases.mongodb.enabled,
            "databases.jsonl.enabled: false",
        ),
    ]
    .into_iter()
    .filter_map(|(is_set, name)| is_set.then_some(name))
    .collect()
}

/// Passes settings on to modules that cannot depend on this one.
fn apply(settings: &Settings) {
    let limits = &settings.instrumentation.limits;
    let bytes = u32::try_from(limits.value_bytes.get()).unwrap_or(u32::MAX);
    Limits { bytes, items: limits.items, depth: limits.depth }.set();
    hash::choose(settings.instrumentation.hash);
    redact::use_redact_settings(settings);
    set_file_mode(settings.recorder.file_mode);
}
