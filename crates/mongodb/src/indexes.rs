//! The indexes: those that Flowcept creates, and those that our queries need.

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::options::IndexOptions;

use super::collections::Collections;
use super::document::{HASHES, PLAIN};
use super::problem::{INDEX_IS_THERE, code};

/// The exact start time of a task.
const START: &str = "_runlore.own.started_at";

/// Creates the indexes that are missing.
pub(super) async fn make(collections: &Collections) -> Result<()> {
    let unique = |keys: Document| {
        let mut options = IndexOptions::default();
        options.unique = Some(true);
        let mut index = IndexModel::default();
        (index.keys, index.options) = (keys, Some(options));
        index
    };
    let plain = |keys: Document| {
        let mut index = IndexModel::default();
        index.keys = keys;
        index
    };
    let tasks = [
        unique(doc! {"task_id": 1}),
        plain(doc! {"workflow_id": 1}),
        plain(doc! {"parent_task_id": 1}),
        plain(doc! {"campaign_id": 1}),
        plain(doc! {"workflow_id": 1, START: 1}),
        plain(doc! {"activity_id": 1, "status": 1}),
        plain(doc! {"status": 1, START: 1}),
        plain(doc! {START: 1}),
        plain(doc! {"started_at": 1}),
        plain(doc! {HASHES: 1}),
        plain(doc! {PLAIN: 1}),
    ];
    let workflows = [
        unique(doc! {"workflow_id": 1}),
        plain(doc! {"parent_workflow_id": 1}),
        plain(doc! {"campaign_id": 1}),
        plain(doc! {PLAIN: 1}),
    ];
    let processes = [plain(doc! {"workflow_id": 1})];
    let all = [
        (collections.tasks(), &tasks[..]),
        (collections.workflows(), &workflows[..]),
        (collections.processes(), &processes[..]),
    ];
    for (collection, indexes) in all {
        match collection.create_indexes(indexes.iter().cloned()).await {
            Err(error) if code(&error).is_some_and(|code| INDEX_IS_THERE.contains(&code)) => {
                // One of the indexes exists with other options, so create the others one by one.
                for index in indexes {
                    match collection.create_index(index.clone()).await {
                        Err(error)
                            if code(&error).is_none_or(|code| !INDEX_IS_THERE.contains(&code)) =>
                        {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
            }
            other => drop(other?),
        }
    }
    Ok(())
}
