//! Where the records are, and what to say when there are none.

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

/// How many problems are told one by one.
const TOLD: usize = 3;

/// The store that the command line, the environment or the settings name.
#[derive(Debug)]
pub(crate) struct Store {
    place: OsString,
    /// Whether the command line names it: another command has to name it again.
    is_named: bool,
    /// Where records go to beside that, when this program records.
    more: Vec<OsString>,
    /// What is to be said when it is opened.
    notices: Vec<String>,
    /// What has been told: a command may read the store twice.
    told: RefCell<HashSet<String>>,
}

impl Store {
    /// `--store`, else the variable that names the stores of a program, else the stores that the settings name. Of several, the
    /// first is read.
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

    /// Several stores; none where there is none.
    fn of_all(places: Vec<OsString>) -> Option<Self> {
        let mut stores = places.into_iter().map(Self::at);
        let first = stores.next()?;
        Some(Self { more: stores.map(|store| store.place).collect(), ..first })
    }

    /// Those that the settings enable and this program can open.
    fn of_settings() -> Self {
        let loaded = Settings::load();
        // A name that is misspelt may be the one that was to name the store.
        let wrong = loaded.problems().iter().filter(|problem| problem.severity >= Severity::Error);
        let wrong: Vec<String> = wrong.map(ToString::to_string).collect();
        let settings = loaded.settings;
        let mut store = Self::enabled_by(&settings);
        store.notices.extend(wrong);
        store
    }

    fn enabled_by(settings: &Settings) -> Self {
        let from_here = |uri: String| match Path::new(&uri).is_relative() && !uri.contains("://") {
            true => Path::new(".").join(&uri).into_os_string(),
            false => uri.into(),
        };
        let places = runlore::store::default_uris(settings).into_iter().map(from_here);
        let store = Self::of_all(places.collect()).unwrap_or_else(|| Self::at("runlore".into()));
        let databases = &settings.databases;
        if cfg!(feature = "mongodb") || !databases.mongodb.enabled {
            return store;
        }
        if !databases.jsonl.enabled && !databases.sqlite.enabled {
            // Opening it says what is missing.
            return Self::at("mongodb://".into());
        }
        let notice = format!(
            "the settings enable MongoDB, which this program is built without; {} is read instead (`cargo install --path cli --features mongodb` builds one with it)",
            store.display()
        );
        Self { notices: vec![notice], ..store }
    }

    /// The store at a place.
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

    /// All of the stores, each by itself: the one that is read first.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        std::iter::once(&self.place).chain(&self.more).map(|place| Self::at(place.clone()))
    }

    /// The program, with what it has to be told to ask the same store.
    pub(crate) fn program(&self) -> String {
        match self.is_named {
            true => format!("runlore --store {}", self.display()),
            false => "runlore".to_owned(),
        }
    }

    /// What was said to be the store: a path or a URI.
    pub(crate) fn place(&self) -> &OsStr {
        &self.place
    }

    /// The folder or file, if it is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let place = self.place.to_str();
        match place.and_then(|place| place.split_once("://")) {
            None => Some(PathBuf::from(&self.place)),
            Some(("sqlite", path)) => Some(PathBuf::from(path)),
            Some(_) => None,
        }
    }

    /// Whether it is no path but half a URI, which opening it tells.
    pub(crate) fn is_written_wrongly(&self) -> bool {
        self.path().is_some_and(|path| is_written_wrongly(&path))
    }

    /// Whether it is an SQLite file, or would be one.
    pub(crate) fn is_database(&self) -> bool {
        let is_named =
            |place: &str| place.starts_with("sqlite://") || runlore::store::names_database(place);
        self.place.to_str().is_some_and(is_named)
    }

    /// The folder in which records wait for the store.
    pub(crate) fn spool(&self, settings: &Settings) -> Option<PathBuf> {
        settings.recorder.spool.clone().or_else(|| self.folder())
    }

    /// Whether it is a server, which may be away.
    pub(crate) fn is_server(&self) -> bool {
        self.place.to_str().is_some_and(|place| place.starts_with("mongodb"))
            && self.path().is_none()
    }

    /// The folder in which programs that write to the store keep their queues.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        #[cfg(feature = "mongodb")]
        if self.is_server() {
            let files = Settings::load().settings.databases.jsonl.path;
            return Some(files.join(runlore::store::mongodb::FOLDER));
        }
        let path = self.path()?;
        if !self.is_database() && !path.is_file() {
            // `./runlore` is where `sqlite://runlore/runlore.db` has its queues, too.
            let plain = path.strip_prefix(".").ok().filter(|path| !path.as_os_str().is_empty());
            return Some(plain.map(Path::to_owned).unwrap_or(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(folder.unwrap_or(Path::new(".")).to_owned())
    }

    /// The store, as people are told of it.
    pub(crate) fn display(&self) -> impl fmt::Display {
        // A URI may have a password in it.
        runlore::record::scrub(&self.place.to_string_lossy())
    }

    /// Says something that opening the store would say too: once.
    pub(crate) fn say(&self, what: &str) {
        if self.told.borrow_mut().insert(what.to_owned()) {
            say(what);
        }
    }

    /// Refuses a pipe or a device.
    pub(crate) fn refuse_special(&self) -> Result<(), Failure> {
        Ok(runlore::store::StoreChoice::from(self.place.as_os_str()).refuse_special()?)
    }

    /// Tells of a file that will never take a record.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_database()
            && let Some(path) = self.path()
        {
            runlore::store::sqlite::check_file(path)?;
        }
        Ok(())
    }

    /// What is recorded there.
    pub(crate) fn open(&self) -> Result<Provenance, Failure> {
        self.notices.iter().for_each(|notice| self.say(notice));
        if let Some(path) = self.path()
            && !is_written_wrongly(&path)
            && matches!(path.try_exists(), Ok(false))
        {
            let what = if path.extension().is_some() { "file" } else { "folder" };
            return Err(nothing(&format!("no {what} {}", path.display())));
        }
        Ok(Provenance::open(&self.place)?)
    }

    /// The runs, oldest first: at least one.
    pub(crate) fn runs(&self, records: &Provenance) -> Result<Vec<RunSummary>, Failure> {
        self.some(records, records.runs()?)
    }

    /// The same for whoever does not need their tasks counted.
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
            return Err(nothing(&format!("there is no record in {}", self.display())));
        }
        Ok(runs)
    }

    /// Tells which records could not be read: the rest was.
    pub(crate) fn tell(&self, records: &Provenance) {
        let mut told = self.told.borrow_mut();
        let mut problems = records.problems();
        problems.retain(|problem| told.insert(problem.clone()));
        for problem in problems.iter().take(TOLD) {
            say(problem);
        }
        if problems.len() > TOLD {
            let more = (problems.len() - TOLD) as u64;
            say(&format!("{} like these", counted(more, "more problem", "more problems")));
        }
    }
}

/// Whether this is no path but half a URI, which opening it tells.
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
