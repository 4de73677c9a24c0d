//! The collections of a database.

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

    /// One document per task.
    pub(super) fn tasks(&self) -> Collection<RawDocumentBuf> {
        self.named("tasks")
    }

    /// One document per workflow, joined from the records of its processes.
    pub(super) fn workflows(&self) -> Collection<RawDocumentBuf> {
        self.named("workflows")
    }

    /// The record of each process of a workflow.
    pub(super) fn processes(&self) -> Collection<RawDocumentBuf> {
        self.named("workflow_processes")
    }

    /// Records of other kinds, each once.
    pub(super) fn others(&self) -> Collection<RawDocumentBuf> {
        self.named("other_records")
    }

    /// Records that the server refused to store elsewhere, with its reason.
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
