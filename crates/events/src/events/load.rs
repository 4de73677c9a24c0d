//! Loads all sessions of a file or a sink at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::event::TelemetryEvent;
use super::problem::Problem;
use super::projection::{self, ProjectedRecord};
use super::reader::{ReadOptions, Reader, read_with};
use super::session::{Inferred, SessionSummary};
use super::shared::Text;
use super::{Invalid, Target};
use runlore_core::{Error, ErrorKind, Result};

/// Sessions with all their events, created by [`load`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// The sessions, the most relevant first: completed before interrupted, incomplete and running
    /// ones, and the latest first among equals.
    pub sessions: Vec<LoadedSession>,
    /// Everything that could not be read.
    pub problems: Vec<Problem>,
}

/// One session with its events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadedSession {
    /// The session as a whole.
    pub summary: SessionSummary,
    /// Its events, ordered by time.
    pub events: Vec<TelemetryEvent>,
    /// The files that contain the events.
    pub sources: Vec<PathBuf>,
}

/// Loads all sessions of a file or of a sink's folder.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-load-{}.json", std::process::id()));
/// std::fs::write(&path, r#"[{"timestamp": 2, "type": "stop"}, {"timestamp": 1, "type": "start"}]"#)?;
/// let loaded = runlore::events::load(&path)?;
/// let session = loaded.session(None)?.unwrap();
/// assert_eq!(session.summary.status.as_str(), "completed");
/// assert_eq!(session.events[0].event_type, "start");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of [`read`](super::read). Problems inside the files are in [`Loaded::problems`].
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    load_with(path, &ReadOptions::default())
}

/// Loads sessions as [`load`] does, with options.
///
/// # Errors
///
/// As [`load`].
pub fn load_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Loaded> {
    let mut reader = read_with(path, options)?;
    let mut problems = Vec::new();
    let mut events: HashMap<Text, (Vec<TelemetryEvent>, BTreeSet<usize>)> = HashMap::new();
    while let Some(event) = reader.next() {
        match event {
            Ok(event) => {
                let (all, sources) = match events.get_mut(&event.session_id) {
                    Some(session) => session,
                    None => events.entry(event.session_id.clone()).or_default(),
                };
                sources.insert(reader.current_file());
                all.push(event);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let source = reader.source_name();
    let paths = |files: BTreeSet<usize>| -> Vec<PathBuf> {
        files.into_iter().map(|file| reader.path_of(file).to_owned()).collect()
    };
    let mut sessions = Vec::new();
    for summary in reader.summaries() {
        let (events, sources) = events.remove(&*summary.session_id).unwrap_or_default();
        let last = events.iter().map(|event| event.timestamp_ns).max();
        let summary = summary.clone().ended_by(last.and_then(|last| i64::try_from(last).ok()));
        sessions.push(LoadedSession { summary, events, sources: paths(sources) });
    }
    for (_, (events, sources)) in events {
        let mut inferred: Option<Inferred> = None;
        for event in &events {
            match &mut inferred {
                Some(inferred) => inferred.add(event),
                None => inferred = Some(Inferred::new(event, &source)),
            }
        }
        if let Some(inferred) = inferred {
            let (summary, sources) = (inferred.summary(), paths(sources));
            sessions.push(LoadedSession { summary, events, sources });
        }
    }
    for session in &mut sessions {
        session.events.sort_by_key(|event| event.timestamp_ns);
    }
    sessions.sort_by_cached_key(|session| session.summary.preference());
    Ok(Loaded { sessions, problems })
}

impl Loaded {
    /// Returns the session with this id. Without an id, returns the most relevant session that has
    /// events, or else the first session. `None` if there are no sessions and no id is given.
    ///
    /// # Errors
    ///
    /// If no session has this id.
    pub fn session(&self, id: Option<&str>) -> Result<Option<&LoadedSession>> {
        let Some(id) = id else {
            let with_events = self.sessions.iter().find(|session| !session.events.is_empty());
            return Ok(with_events.or_else(|| self.sessions.first()));
        };
        let found = self.sessions.iter().find(|session| session.summary.session_id == id);
        found.map(Some).ok_or_else(|| {
            Error::new(ErrorKind::Record, format!("Requested session_id not found: {id}"))
        })
    }
}

impl LoadedSession {
    /// Converts the events to backend-neutral records.
    ///
    /// # Errors
    ///
    /// If an event is not valid, or the schema cannot express it.
    pub fn records(&self, target: impl Into<Target>) -> Result<Vec<ProjectedRecord>, Invalid> {
        let target = target.into();
        self.events.iter().map(|event| event.project(target)).collect()
    }

    /// Returns the distinct resources that were observed, in the order of their first event.
    pub fn resources(&self) -> Vec<projection::Resource> {
        unique(self.events.iter().map(projection::resource))
    }

    /// Returns the distinct correlation keys of the events, in the order of their first event.
    pub fn correlations(&self) -> Vec<projection::Correlation> {
        unique(self.events.iter().map(projection::correlation))
    }
}

fn unique<T: serde::Serialize>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(serde_json::to_string(one).unwrap_or_default())).collect()
}

/// Summarises all sessions of a file or a sink without keeping their events, in constant memory.
#[derive(Debug, Default)]
pub struct Sessions {
    counted: BTreeMap<Text, (Inferred, u64)>,
}

impl Sessions {
    /// Counts an event.
    pub fn add(&mut self, event: &TelemetryEvent, reader: &Reader) {
        match self.counted.get_mut(&event.session_id) {
            Some((inferred, count)) => {
                inferred.add(event);
                *count += 1;
            }
            None => {
                let inferred = Inferred::new(event, &reader.source_name());
                self.counted.insert(event.session_id.clone(), (inferred, 1));
            }
        }
    }

    /// Returns the sessions and the number of events of each, the most relevant session first.
    pub fn finish(mut self, reader: &Reader) -> Vec<(SessionSummary, u64)> {
        let mut all = Vec::new();
        for summary in reader.summaries() {
            let counted = self.counted.remove(&*summary.session_id);
            let summary = summary.clone().ended_by(counted.as_ref().map(|(seen, _)| seen.last()));
            all.push((summary, counted.map_or(0, |(_, count)| count)));
        }
        all.extend(self.counted.into_values().map(|(inferred, count)| (inferred.summary(), count)));
        all.sort_by_cached_key(|(summary, _)| summary.preference());
        all
    }
}
