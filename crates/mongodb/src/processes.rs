//! Stores workflows: the record of each process, and one document joined from all of them.

use mongodb::bson::{Bson, DateTime, RawDocumentBuf, doc};

use super::collections::Collections;
use super::decode::Stored;
use super::document::{Label, REGISTERED, now};
use super::shrink;
use super::upsert::{IN_VAIN, Upserts, not_json};
use runlore_core::record::WorkflowObject;
use runlore_core::store::join::{join_process, speak_as_one};
use runlore_core::{Error, ErrorKind, Result};

/// The maximum number of attempts: many processes of a workflow may start or end at once.
const ATTEMPTS: usize = 200;

/// The record of a workflow from one process.
#[derive(Debug)]
pub(super) struct Process {
    id: String,
    revision: i64,
    pub(super) text: String,
}

/// The result of an attempt to store a workflow.
enum Attempt {
    Done,
    /// Another process changed it first, so try again.
    Again,
    /// No document was found, but the server reports a duplicate.
    InVain(String),
}

impl Upserts<'_> {
    /// Returns the records that the processes of a workflow wrote about it.
    pub(super) fn processes(&self, workflow_id: &str) -> Result<Vec<Process>> {
        let found = self.all(doc! {"workflow_id": workflow_id}, Collections::processes)?;
        let read = |document: &RawDocumentBuf| {
            Some(Process {
                id: document.get_str("_id").ok()?.to_owned(),
                revision: document.get_i64("rev").ok()?,
                text: document.get_str("json").ok()?.to_owned(),
            })
        };
        Ok(found.iter().filter_map(read).collect())
    }

    /// Stores a record of a workflow.
    pub(super) fn workflow(&mut self, workflow: &WorkflowObject) -> Result<()> {
        let mut in_vain = 0;
        for _ in 0..ATTEMPTS {
            match self.try_workflow(workflow)? {
                Attempt::Done => return Ok(()),
                Attempt::Again => in_vain = 0,
                Attempt::InVain(why) => {
                    in_vain += 1;
                    if in_vain == IN_VAIN {
                        // Another document has the same value in a field with a unique index.
                        let text = serde_json::to_string(workflow).map_err(not_json)?;
                        return self.refused(&text, &why, true);
                    }
                }
            }
        }
        let text = format!(
            "{}: other programs keep changing the workflow {}",
            self.connection.shown(),
            workflow.workflow_id
        );
        Err(Error::new(ErrorKind::Store, text))
    }

    fn try_workflow(&mut self, workflow: &WorkflowObject) -> Result<Attempt> {
        let id = &workflow.workflow_id;
        // Read the joined document before the processes. A writer stores its process before it
        // replaces the joined document, so the processes read here include all that were joined.
        let joined = self.all(doc! {"workflow_id": id}, Collections::workflows)?;
        let joined = joined.first().map(|document| Stored::of(document)).transpose()?;
        let known = self.processes(id)?;
        let mut processes = Vec::with_capacity(known.len() + 1);
        for process in &known {
            processes.push(serde_json::from_str(&process.text).map_err(not_json)?);
        }
        // The joined document may be another program's own record of the workflow.
        let foreign = joined.as_ref().filter(|joined| joined.revision.is_none());
        if let Some(foreign) = foreign.filter(|_| known.is_empty()) {
            processes.push(serde_json::from_value(foreign.json.clone()).map_err(not_json)?);
        }
        let at = join_process(&mut processes, workflow.clone());
        if !self.upsert_process(&processes[at], known.get(at))? {
            return Ok(Attempt::Again);
        }
        let Some(spoken) = speak_as_one(processes) else { return Ok(Attempt::Done) };
        let json = serde_json::to_value(&spoken).map_err(not_json)?;
        let text = json.to_string();
        match joined {
            Some(joined) if joined.json == json => Ok(Attempt::Done),
            Some(joined) => {
                let label = Label {
                    id: joined.id.clone(),
                    revision: joined.revision.map_or(0, |revision| revision + 1),
                    registered: joined.registered.unwrap_or_else(now),
                    unique_id: None,
                    is_sealed: false,
                };
                let document = shrink::fitting(&text, &label)?;
                let replaced = self.replace_in(Collections::workflows, &joined, document)?;
                Ok(match self.settled(replaced, &text)? {
                    true => Attempt::Done,
                    false => Attempt::Again,
                })
            }
            None => {
                let label = Label::new(self.documents.next_id());
                let document = shrink::fitting(&text, &label)?;
                let into = self.collections().workflows();
                let there = self.insert_new(&into, vec![(document, &text)])?;
                Ok(there.map_or(Attempt::Done, Attempt::InVain))
            }
        }
    }

    /// Stores the record of a process in place of its earlier one. `false` if another writer was
    /// faster.
    fn upsert_process(
        &mut self,
        process: &WorkflowObject,
        known: Option<&Process>,
    ) -> Result<bool> {
        let text = serde_json::to_string(process).map_err(not_json)?;
        let document = |id: &str, revision: i64| {
            let document = doc! {
                "_id": id, "workflow_id": &process.workflow_id, "rev": revision, "json": &text,
                // The date lets a TTL index expire the document.
                REGISTERED: DateTime::from_millis(now()),
            };
            RawDocumentBuf::try_from(&document)
                .map_err(|error| Error::new(ErrorKind::Record, error.to_string()))
        };
        let Some(known) = known else {
            let host = process.hostname.as_deref().unwrap_or_default();
            let pid = process.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let id = format!("{}/{host}/{pid}", process.workflow_id);
            let into = self.collections().processes();
            return Ok(self.insert_new(&into, vec![(document(&id, 0)?, &text)])?.is_none());
        };
        if known.text == text {
            return Ok(true);
        }
        let filter = doc! {"_id": &known.id, "rev": known.revision};
        let document = document(&known.id, known.revision + 1)?;
        let replaced = self.patiently(move |collections| {
            let (filter, document) = (filter.clone(), document.clone());
            async move {
                let done = collections.processes().replace_one(filter, &document).await?;
                Ok(done.matched_count > 0)
            }
        })?;
        self.settled(replaced, &text)
    }
}

/// Makes the document for a record of another kind. Its id is the hash of the record.
pub(super) fn other(text: &str) -> Result<RawDocumentBuf> {
    let mut sorted: serde_json::Value = serde_json::from_str(text).map_err(not_json)?;
    sorted.sort_all_objects();
    let hash = twox_hash::XxHash3_128::oneshot(sorted.to_string().as_bytes());
    let document = doc! {
        "_id": Bson::String(format!("{hash:032x}")), "json": text,
        REGISTERED: DateTime::from_millis(now()),
    };
    RawDocumentBuf::try_from(&document)
        .map_err(|error| Error::new(ErrorKind::Record, error.to_string()))
}
