//! Makes the records of a [`MemoryStore`] available to queries.

use runlore_core::Result;
use runlore_core::record::Record;
use runlore_core::store::MemoryStore;
use runlore_core::store::join::Workflows;

use crate::query::{Collection, Documents, Records, Source};

/// Returns a task only after it has ended.
impl Source for MemoryStore {
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        Ok(of.documents(Source::records(self)?))
    }

    fn records(&self) -> Result<Records<'_>> {
        let mut workflows = Workflows::default();
        let mut others = Vec::new();
        for record in self.records() {
            match record {
                Record::Workflow(workflow) => workflows.add(*workflow),
                other => others.push(Ok(other)),
            }
        }
        let workflows = workflows.joined().into_iter().map(|workflow| Ok(workflow.into()));
        Ok(Box::new(others.into_iter().chain(workflows)))
    }
}
