//! The collections, by what they hold.

use mongodb::bson::RawDocumentBuf;
use mongodb::{Collection, Database};

use runlore_query::query;

/// The collections of a database.
#[derive(Debug, Clone)]
pub(super) struct Collections {
    database: Database,
}

impl Collections {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }

    fn named(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection(name)
    }

    /// One document a task.
    pub(super) fn tasks(&self) -> Collection<RawDocumentBuf> {
        self.named("tasks")
    }

    /// One document a workflow, joined of what its processes told.
    pub(super) fn workflows(&self) -> Collection<RawDocumentBuf> {
        self.named("workflows")
    }

    /// What each process of a workflow told of it.
    pub(super) fn processes(&self) -> Collection<RawDocumentBuf> {
        self.named("workflow_processes")
    }

    /// Records of other kinds, each once.
    pub(super) fn others(&self) -> Collection<RawDocumentBuf> {
        self.named("other_records")
    }

    /// Records that the server would not have among the others, with its reason.
    pub(super) fn refused(&self) -> Collection<RawDocumentBuf> {
        self.named("refused_records")
    }

    pub(super) fn of(&self, of: query::Collection) -> Collection<RawDocumentBuf> {
        match of {
            query::Collection::Tasks => self.tasks(),
            query::Collection::Workflows => self.workflows(),
        }
    }
}
