//! The entries of a session's log, one per line.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::pipeline::ending::Ending;
use crate::pipeline::owner::Owner;
use crate::pipeline::site::SiteRecord;
use crate::pipeline::spool;
use runlore_core::context::Number;
use runlore_core::identity::Identity;
use runlore_core::record::WorkflowObject;
use runlore_core::store::{Store, is_recovered};

/// The version of the file format. Readers leave other versions alone.
pub(in crate::pipeline) const FORMAT: u32 = 3;

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::pipeline) enum Entry {
    /// The first line.
    Session {
        format: u32,
        #[serde(flatten)]
        owner: Owner,
    },
    Run(RunEntry),
    /// The file that the records of a run go to.
    File {
        run: Number,
        path: PathBuf,
    },
    /// A run whose last record is stored.
    Ended {
        run: Number,
    },
    Site {
        number: u32,
        site: SiteRecord,
    },
    ProcessEnd(ProcessEnd),
}

/// How the process is about to end. This also ends the open runs.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::pipeline) struct ProcessEnd {
    pub(in crate::pipeline) ending: Ending,
    /// In Unix seconds.
    pub(in crate::pipeline) at: f64,
}

/// The subject of a line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum About {
    Run { number: Number },
    File { run: Number },
    Ended { run: Number },
    Session(IgnoredAny),
    Site(IgnoredAny),
    ProcessEnd(IgnoredAny),
}

impl About {
    /// Returns whether it concerns one of these runs, or all runs.
    pub(super) fn is_of(&self, runs: &HashSet<Number>) -> bool {
        match self {
            Self::Run { number: run } | Self::File { run } | Self::Ended { run } => {
                runs.contains(run)
            }
            Self::Session(_) | Self::Site(_) | Self::ProcessEnd(_) => true,
        }
    }
}

/// A run, with everything that another process needs to recover it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::pipeline) struct RunEntry {
    pub(in crate::pipeline) number: Number,
    pub(in crate::pipeline) workflow_id: String,
    pub(in crate::pipeline) campaign_id: String,
    pub(in crate::pipeline) hostname: String,
    pub(in crate::pipeline) name: String,
    #[serde(default)]
    pub(in crate::pipeline) identity: Identity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::pipeline) workflow: Option<Box<WorkflowObject>>,
    /// Its stores. If empty, JSON lines files in this folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::pipeline) stores: Vec<StoreOfRun>,
}

/// A store of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::pipeline) enum StoreOfRun {
    /// JSON lines files in this folder.
    Files,
    /// A store in this folder, by its URI.
    Here(String),
    /// A store elsewhere, by its label in spools.
    Elsewhere(String),
}

impl StoreOfRun {
    pub(super) fn of(store: &dyn Store, folder: &Path) -> Option<Self> {
        let uri = store.uri()?;
        // The queue of a store on another machine is in this folder, but its records are not.
        let is_here = store.folder() == Some(folder) && !store.is_remote();
        Some(match is_here {
            true if is_recovered(&uri) => Self::Here(uri),
            true => Self::Files,
            false => Self::Elsewhere(spool::label(&uri)),
        })
    }
}
