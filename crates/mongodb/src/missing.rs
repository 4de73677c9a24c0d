//! Finds out which records are already stored, so that writing them would change nothing.

use std::collections::HashSet;

use mongodb::bson::doc;

use super::collections::Collections;
use super::decode::Stored;
use super::processes;
use super::upsert::{Upserts, not_json};
use runlore_core::Result;
use runlore_core::record::{Record, TaskObject, WorkflowObject};
use runlore_core::store::Batch;
use runlore_core::store::join::{join_process, join_task};

impl Upserts<'_> {
    /// Returns which of these records are missing. A record is not missing if it, or a later state
    /// of it, is stored.
    pub(super) fn missing(&self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        // Writing reports what is not a valid record.
        let record = |text: &str| Record::from_json(serde_json::from_str(text).ok()?).ok();
        let records: Vec<Option<Record>> = batch.records().map(record).collect();
        let tasks = records.iter().flatten().filter_map(Record::as_task);
        let ids: Vec<&str> = tasks.map(|task| &*task.task_id).collect();
        let stored = self.stored(&ids)?;
        let others = self.others_among(&records)?;
        let has = |record: &Record| match record {
            Record::Task(task) => self.has_task(task, stored.get(&task.task_id).cloned()),
            Record::Workflow(workflow) => self.has_workflow(workflow),
            Record::Other(_) => Ok(others.contains(&id_of_other(record)?)),
        };
        records.iter().map(|record| Ok(!record.as_ref().map_or(Ok(false), has)?)).collect()
    }

    fn has_task(&self, task: &TaskObject, mut known: Option<Stored>) -> Result<bool> {
        let mut copy = 1;
        while let Some(there) = known {
            let mut joined: TaskObject =
                serde_json::from_value(there.json.clone()).map_err(not_json)?;
            if joined.workflow_id == task.workflow_id
                && join_task(&mut joined, task.clone()).is_ok()
            {
                return Ok(serde_json::to_value(&joined).map_err(not_json)? == there.json);
            }
            copy += 1;
            let unique = format!("{}#{copy}", task.task_id);
            known = self.stored(&[&unique])?.remove(&unique);
        }
        Ok(false)
    }

    fn has_workflow(&self, workflow: &WorkflowObject) -> Result<bool> {
        let known = self.processes(&workflow.workflow_id)?;
        let mut processes = Vec::with_capacity(known.len() + 1);
        for process in &known {
            processes.push(serde_json::from_str(&process.text).map_err(not_json)?);
        }
        let at = join_process(&mut processes, workflow.clone());
        let text = serde_json::to_string(&processes[at]).map_err(not_json)?;
        Ok(known.get(at).is_some_and(|known| known.text == text))
    }

    /// Returns the ids of those records of other kinds that are already stored.
    fn others_among(&self, records: &[Option<Record>]) -> Result<HashSet<String>> {
        let others = records.iter().flatten().filter(|record| matches!(record, Record::Other(_)));
        let ids: Vec<String> = others.map(id_of_other).collect::<Result<_>>()?;
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let found = self.all(doc! {"_id": {"$in": ids}}, Collections::others)?;
        let id = |document: &mongodb::bson::RawDocumentBuf| {
            document.get_str("_id").ok().map(str::to_owned)
        };
        Ok(found.iter().filter_map(id).collect())
    }
}

fn id_of_other(record: &Record) -> Result<String> {
    let document = processes::other(&record.to_json().to_string())?;
    Ok(document.get_str("_id").unwrap_or_default().to_owned())
}
