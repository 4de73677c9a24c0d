//! Finds the store to read, and reports when it is empty.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use runlore::Provenance;
use runlore::query::RunSummary;
use runlore::settings::{Settings, Severity};

use crate::failure::{Failure, say};
use crate::units::counted;

/// Maximum number of problems printed one by one.
const TOLD: usize = 3;

/// The store named by the command line, the environment or the settings.
#[derive(Debug)]
pub(crate) struct Store {
    place: OsString,
    /// Whether the command line names the store. Suggested commands must then name it, too.
    is_named: bool,
    /// Further stores to write to when this program records.
    more: Vec<OsString>,
    /// Messages to print when the store is opened.
    notices: Vec<String>,
    /// Messages already printed, because a command may read the store twice.
    told: RefCell<HashSet<String>>,
}

impl Store {
    /// Returns the store of `--store`, else of the environment variable `RUNLORE_STORE`, else of
    /// the settings. If there are several, the first is the one to read.
    pub(crate) fn new(place: Option<OsString>) -> Self {
        let named = || std::env::var_os("RUNLORE_STORE").filter(|place| !place.is_empty());
        let lines = |uris: OsString| match uris.to_str() {
            Some(text) => text.lines().filter(|uri| !uri.is_empty()).map(OsString::from).collect(),
            None => vec![uris],
        };
        place
            .map(|place| Self { is_named: true, ..Self::at(place) })
            .or_else(|| Self::of_all(lines(named()?)))
            .unwrap_or_else(Self::of_settings)
    }

    /// Creates a store from several places. `None` if the list is empty.
    fn of_all(places: Vec<OsString>) -> Option<Self> {
        let mut stores = places.into_iter().map(Self::at);
        let first = stores.next()?;
        Some(Self { more: stores.map(|store| store.place).collect(), ..first })
    }

    /// Returns the stores that the settings enable and that this program can open.
    fn of_settings() -> Self {
        let loaded = Settings::load();
        // A misspelt key may be the one that was meant to name the store.
        let wrong = loaded.problems().iter().filter(|problem| problem.severity >= Severity::Error);
        let wrong: Vec<String> = wrong.map(ToString::to_string).collect();
        let settings = loaded.settings;
        let mut store = Self::enabled_by(&settings);
        store.notices.extend(wrong);
        store
    }

    fn enabled_by(settings: &Settings) -> Self {
        let from_here = |uri: String| {
            if Path::new(&uri).is_relative() && !uri.contains("://") {
                Path::new(".").join(&uri).into_os_string()
            } else {
                uri.into()
            }
        };
        let places = runlore::store::default_uris(settings).into_iter().map(from_here);
        let store = Self::of_all(places.collect()).unwrap_or_else(|| Self::at("runlore".into()));
        let databases = &settings.databases;
        if cfg!(feature = "mongodb") || !databases.mongodb.enabled {
            return store;
        }
        if !databases.jsonl.enabled && !databases.sqlite.enabled {
            // Opening it reports what is missing.
            return Self::at("mongodb://".into());
        }
        let notice = format!(
            "the settings enable MongoDB, but this program was built without it, so {} is read instead; \
             to include it, run `cargo install --path cli --features mongodb`",
            store.display()
        );
        Self { notices: vec![notice], ..store }
    }

    /// Creates a store for a path or URI.
    pub(crate) fn at(place: OsString) -> Self {
        let place = match place.to_str().and_then(|place| place.strip_prefix("jsonl://")) {
            Some(folder) => folder.into(),
            None => place,
        };
        Self {
            place,
            is_named: false,
            more: Vec::new(),
            notices: Vec::new(),
            told: RefCell::default(),
        }
    }

    /// Iterates over all stores separately. The one to read comes first.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        std::iter::once(&self.place).chain(&self.more).map(|place| Self::at(place.clone()))
    }

    /// Returns the start of a command line that uses the same store, for suggestions.
    pub(crate) fn program(&self) -> String {
        if self.is_named {
            format!("runlore --store {}", self.display())
        } else {
            "runlore".to_owned()
        }
    }

    /// Returns the path or URI as given.
    pub(crate) fn place(&self) -> &OsStr {
        &self.place
    }

    /// Returns the path if the store is a folder or file.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let place = self.place.to_str();
        match place.and_then(|place| place.split_once("://")) {
            None => Some(PathBuf::from(&self.place)),
            Some(("sqlite", path)) => Some(PathBuf::from(path)),
            Some(_) => None,
        }
    }

    /// Whether the place is an incomplete URI. Opening it reports the error.
    pub(crate) fn is_written_wrongly(&self) -> bool {
        self.path().is_some_and(|path| is_written_wrongly(&path))
    }

    /// Whether the place names an SQLite file. The file need not exist.
    pub(crate) fn is_database(&self) -> bool {
        let is_named =
            |place: &str| place.starts_with("sqlite://") || runlore::store::names_database(place);
        self.place.to_str().is_some_and(is_named)
    }

    /// Returns the folder in which records wait for the store.
    pub(crate) fn spool(&self, settings: &Settings) -> Option<PathBuf> {
        settings.recorder.spool.clone().or_else(|| self.folder())
    }

    /// Whether the store is a server, which may be unreachable.
    pub(crate) fn is_server(&self) -> bool {
        self.place.to_str().is_some_and(|place| place.starts_with("mongodb"))
            && self.path().is_none()
    }

    /// Returns the folder in which programs that write to the store keep their queues.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        #[cfg(feature = "mongodb")]
        if self.is_server() {
            let files = Settings::load().settings.databases.jsonl.path;
            return Some(files.join(runlore::store::mongodb::FOLDER));
        }
        let path = self.path()?;
        if !self.is_database() && !path.is_file() {
            // Drop the leading `./`, because `sqlite://runlore/runlore.db` has its queues in the
            // same folder.
            let plain = path.strip_prefix(".").ok().filter(|path| !path.as_os_str().is_empty());
            return Some(plain.map(Path::to_owned).unwrap_or(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(folder.unwrap_or(Path::new(".")).to_owned())
    }

    /// Returns the store's name for display, without secrets.
    pub(crate) fn display(&self) -> impl fmt::Display {
        // A URI may contain a password.
        runlore::record::scrub(&self.place.to_string_lossy())
    }

    /// Prints a message, but only once.
    pub(crate) fn say(&self, what: &str) {
        if self.told.borrow_mut().insert(what.to_owned()) {
            say(what);
        }
    }

    /// Returns an error if the store is a pipe or a device.
    pub(crate) fn refuse_special(&self) -> Result<(), Failure> {
        Ok(runlore::store::StoreChoice::from(self.place.as_os_str()).refuse_special()?)
    }

    /// Returns an error if the store is a file that can never accept a record.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_database()
            && let Some(path) = self.path()
        {
            runlore::store::sqlite::check_file(path)?;
        }
        Ok(())
    }

    /// Opens the store for reading.
    pub(crate) fn open(&self) -> Result<Provenance, Failure> {
        self.notices.iter().for_each(|notice| self.say(notice));
        if let Some(path) = self.path()
            && !is_written_wrongly(&path)
            && matches!(path.try_exists(), Ok(false))
        {
            let what = if path.extension().is_some() { "file" } else { "folder" };
            return Err(nothing(&format!("the {what} {} does not exist", path.display())));
        }
        Ok(Provenance::open(&self.place)?)
    }

    /// Returns the runs, oldest first. Fails if the store has no runs.
    pub(crate) fn runs(&self, records: &Provenance) -> Result<Vec<RunSummary>, Failure> {
        self.some(records, records.runs()?)
    }

    /// Returns the runs without counting their tasks, oldest first. Fails if the store has no runs.
    pub(crate) fn listed(&self, records: &Provenance) -> Result<Vec<RunSummary>, Failure> {
        self.some(records, records.list_runs()?)
    }

    fn some(
        &self,
        records: &Provenance,
        runs: Vec<RunSummary>,
    ) -> Result<Vec<RunSummary>, Failure> {
        self.tell(records);
        if runs.is_empty() {
            return Err(nothing(&format!("{} has no records", self.display())));
        }
        Ok(runs)
    }

    /// Prints which records could not be read.
    pub(crate) fn tell(&self, records: &Provenance) {
        let mut told = self.told.borrow_mut();
        let mut problems = records.problems();
        problems.retain(|problem| told.insert(problem.clone()));
        for problem in problems.iter().take(TOLD) {
            say(problem);
        }
        if problems.len() > TOLD {
            let more = (problems.len() - TOLD) as u64;
            say(&format!("{} of this kind", counted(more, "more problem", "more problems")));
        }
    }
}

/// Whether the path is an incomplete URI. Opening it reports the error.
fn is_written_wrongly(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    text.is_empty() || scheme.is_some_and(|scheme| matches!(scheme, "jsonl" | "sqlite" | "mongodb"))
}

fn nothing(why: &str) -> Failure {
    Failure::new(format!(
        "nothing recorded here yet: {why}; run a program that starts a workflow, or try `runlore demo`"
    ))
}
