//! Questions: the server answers what it can be trusted with, and a look at each document does the rest.

use std::collections::HashSet;

use mongodb::bson::{Document, doc};
use mongodb::options::FindOptions;
use serde_json::Value;

use super::collections::Collections;
use super::condition::{Condition, Form, order_of};
use super::decode::Stored;
use super::document::{ADDED, HASHES, OURS, OWN, PLAIN, TIMES};
use super::read::{MongodbSource, Pages, from_text};
use crate::Result;
use crate::query::find::projection::{Field, Projection};
use crate::query::pipeline::accumulator::Accumulator;
use crate::query::pipeline::{Expression, Stage};
use crate::query::source::{has_hash, through};
use crate::query::{Collection, CountedRuns, Documents, Find, Pipeline, Records, Runs, Source};
use crate::record::{Record, TaskObject, WorkflowObject};

/// Up to so many documents are held to find out whether the last of them has an equal.
const HELD: u64 = 1000;
/// Hashes that are asked for at once.
const HASHES_AT_ONCE: usize = 10_000;

fn in_order() -> Document {
    doc! {"_id": 1}
}

fn options(sort: Document) -> FindOptions {
    let mut options = FindOptions::default();
    options.sort = Some(sort);
    options.allow_disk_use = Some(true);
    options
}

fn of(
    collection: Collection,
) -> fn(&Collections) -> mongodb::Collection<mongodb::bson::RawDocumentBuf> {
    match collection {
        Collection::Tasks => Collections::tasks,
        Collection::Workflows => Collections::workflows,
    }
}

/// A condition that those documents meet too which do not show all that their records have.
fn with_odd(condition: Document) -> Document {
    match condition.is_empty() {
        true => condition,
        false => doc! {"$or": [condition, {PLAIN: null}]},
    }
}

impl MongodbSource {
    /// All records that may match, in the order they were first written.
    fn candidates(&self, collection: Collection, condition: Document) -> Result<Documents<'_>> {
        let found = self.found(of(collection), with_odd(condition), options(in_order()))?;
        Ok(Box::new(found.records()))
    }

    /// The first few in an order, with one more if there is one: by an index, which keeps no order among equals.
    fn first_few(
        &self,
        collection: Collection,
        condition: &Document,
        find: &Find,
        count: u64,
    ) -> Result<Option<Vec<Value>>> {
        let mut options = options(order_of(&find.sort, Form::Stored));
        options.limit = i64::try_from(count + 1).ok();
        let found = self.found(of(collection), condition.clone(), options)?;
        let found: Vec<Stored> = found.stored().collect::<Result<_>>()?;
        let mut alone = Find::new();
        alone.sort.clone_from(&find.sort);
        if found.len() as u64 > count
            && let [.., last, more] = &*found
        {
            // Whichever of two equals comes first stays first.
            let mut pair = alone.apply([more.json.clone(), last.json.clone()]);
            if pair.next().as_ref() == Some(&more.json) {
                return Ok(None);
            }
        }
        let mut found = found;
        found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        found.sort_by_key(|stored| stored.id.as_object_id().map(|id| id.bytes()));
        Ok(Some(alone.apply(found.into_iter().map(|stored| stored.json)).collect()))
    }
}

impl Source for MongodbSource {
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        self.candidates(of, Document::new())
    }

    fn records(&self) -> Result<Records<'_>> {
        let record = |json: Result<Value>| Record::from_json(json?);
        let workflows = self.documents(Collection::Workflows)?.map(record);
        let tasks = self.documents(Collection::Tasks)?.map(record);
        let others = self.found(Collections::others, Document::new(), options(in_order()))?;
        let others = others.map(|document| Record::from_json(from_text(&document?)?));
        Ok(Box::new(workflows.chain(tasks).chain(others)))
    }

    fn find<'a>(&'a self, collection: Collection, find: &'a Find) -> Result<Documents<'a>> {
        let condition = Condition::of(&find.filter, Form::Stored);
        if !condition.is_exact || !self.is_plain(collection)? {
            let candidates = self.candidates(collection, condition.document)?;
            return Ok(through(candidates, |documents| find.apply(documents)));
        }
        if let Some(limit) = find.limit.filter(|_| !find.sort.is_empty()) {
            let count = find.skip.saturating_add(limit);
            if count <= HELD
                && let Some(few) = self.first_few(collection, &condition.document, find, count)?
            {
                let few = few
                    .into_iter()
                    .skip(find.skip as usize)
                    .map(|document| Ok(find.project(document)));
                return Ok(Box::new(few));
            }
        }
        let mut sort = order_of(&find.sort, Form::Stored);
        sort.insert("_id", 1);
        let mut options = options(sort);
        options.skip = Some(find.skip);
        options.limit = find.limit.and_then(|limit| i64::try_from(limit).ok());
        options.projection = find.projection.as_ref().and_then(needed);
        let found = self.found(of(collection), condition.document, options)?;
        Ok(Box::new(found.records().map(|document| Ok(find.project(document?)))))
    }

    fn aggregate<'a>(&'a self, of: Collection, pipeline: &'a Pipeline) -> Result<Documents<'a>> {
        let (find, begun) = pipeline.beginning();
        let condition = Condition::of(&find.filter, Form::Stored);
        if condition.is_exact && self.is_plain(of)? {
            let sure = translated(&pipeline.stages()[begun..]);
            let done = begun + sure.len();
            let asked =
                asked(&find, condition.document.clone(), &pipeline.stages()[begun..done], sure);
            if let Some(answer) = self.aggregated(of, asked)? {
                let answers = Box::new(answer.answers());
                return Ok(through(answers, move |documents| pipeline.apply_from(done, documents)));
            }
        }
        let candidates = self.candidates(of, condition.document)?;
        Ok(through(candidates, |documents| pipeline.apply(documents)))
    }

    fn tasks_with<'a>(&'a self, hashes: &'a HashSet<String>) -> Result<Documents<'a>> {
        let all: Vec<&String> = hashes.iter().collect();
        let mut found = Vec::new();
        for some in all.chunks(HASHES_AT_ONCE) {
            let some: Vec<&str> = some.iter().map(|hash| hash.as_str()).collect();
            found.push(self.found(
                Collections::tasks,
                doc! {HASHES: {"$in": some}},
                options(in_order()),
            )?);
        }
        let mut seen = HashSet::new();
        let is_one = found.len() < 2;
        let tasks = found.into_iter().flat_map(Pages::stored);
        Ok(Box::new(tasks.filter_map(move |stored| match stored {
            Ok(stored) if !has_hash(&stored.json, hashes) => None,
            // Asked in parts, a task may come again.
            Ok(stored) if !is_one && !seen.insert(stored.id.to_string()) => None,
            Ok(stored) => Some(Ok(stored.json)),
            Err(error) => Some(Err(error)),
        })))
    }

    fn ancestors(&self, task_id: &str) -> Result<Vec<Value>> {
        let pipeline = vec![
            doc! {"$match": {"task_id": task_id}},
            doc! {"$graphLookup": {
                "from": "tasks", "startWith": "$parent_task_id", "connectFromField": "parent_task_id",
                "connectToField": "task_id", "as": "around", "depthField": "_depth",
            }},
            doc! {"$unwind": "$around"},
            doc! {"$sort": {"around._depth": 1}},
            doc! {"$replaceWith": "$around"},
            doc! {"$unset": "_depth"},
        ];
        let mut around = Vec::new();
        if let Some(pages) = self.aggregated(Collection::Tasks, pipeline)? {
            for task in pages.records() {
                let task = task?;
                // Records of other programs may go round in a circle.
                if task.get("task_id").and_then(Value::as_str) != Some(task_id) {
                    around.push(task);
                }
            }
        }
        Ok(around)
    }

    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        if let Some(refused) = self.refused()? {
            counted.add(Err(refused));
        }
        let groups = match self.is_plain(Collection::Tasks)? {
            true => self.aggregated(Collection::Tasks, vec![doc! {"$group": totals()}])?,
            false => None,
        };
        let Some(groups) = groups else {
            for record in self.records()? {
                counted.add(record);
            }
            return Ok(counted.finish());
        };
        for group in groups.answers() {
            let group = group?;
            let text = |value: &Value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            };
            let task = TaskObject {
                workflow_id: text(&group["_id"]),
                started_at: group["start"].as_f64(),
                ..TaskObject::default()
            };
            let count = |name: &str| group[name].as_u64().unwrap_or_default();
            let run = counted.run_of(&task);
            run.began(task.started_at);
            run.tasks += count("tasks");
            run.errors += count("errors");
            run.running += count("running");
            if count("measured") > 0 {
                let cpu = std::time::Duration::from_nanos(count("cpu"));
                *run.cpu.get_or_insert_default() += cpu;
            }
        }
        for workflow in self.documents(Collection::Workflows)? {
            let workflow = workflow.and_then(|json| {
                serde_json::from_value::<WorkflowObject>(json).map_err(super::put::not_json)
            });
            counted.add(workflow.map(Record::from));
        }
        Ok(counted.finish())
    }
}

/// How the tasks of each workflow stand.
fn totals() -> Document {
    let count = |status: &str| doc! {"$sum": {"$cond": [{"$eq": ["$status", status]}, 1, 0]}};
    let times =
        ["$resources.cpu_ns.self", "$resources.child.user_ns", "$resources.child.system_ns"];
    let number = |path: &str| doc! {"$cond": [{"$isNumber": path}, path, 0_i64]};
    let is_number = |path: &str| doc! {"$isNumber": path};
    let sum: Vec<_> = times.iter().map(|path| number(path)).collect();
    let any: Vec<_> = times.iter().map(|path| is_number(path)).collect();
    doc! {
        "_id": "$workflow_id",
        "tasks": {"$sum": 1},
        "errors": count("ERROR"),
        "running": count("RUNNING"),
        "start": {"$min": format!("${OWN}.started_at")},
        "cpu": {"$sum": {"$add": sum}},
        "measured": {"$sum": {"$cond": [{"$or": any}, 1, 0]}},
    }
}

/// The stored fields that a projection looks at; none for all of them.
fn needed(projection: &Projection) -> Option<Document> {
    if !projection.includes {
        return None;
    }
    let mut fields = doc! {OURS: 1};
    for (name, field) in &projection.fields {
        if !matches!(field, Field::Include | Field::Inside(_)) || name.contains('.') {
            return None;
        }
        if !super::document::is_shadowed(name) {
            fields.insert(name, 1);
        }
    }
    Some(fields)
}

/// A pipeline for the server: what it begins with, the documents in the form of records, and the rest.
fn asked(find: &Find, condition: Document, stages: &[Stage], rest: Vec<Document>) -> Vec<Document> {
    let mut asked = Vec::new();
    if !condition.is_empty() {
        asked.push(doc! {"$match": condition});
    }
    let mut sort = order_of(&find.sort, Form::Stored);
    if !sort.is_empty() || find.limit.is_some() || !is_same_in_any_order(stages) {
        sort.insert("_id", 1);
        asked.push(doc! {"$sort": sort});
    }
    if let Some(limit) = find.limit.and_then(|limit| i64::try_from(limit).ok()) {
        asked.push(doc! {"$limit": limit});
    }
    let shown: Vec<&str> = TIMES.into_iter().chain(ADDED).filter(|name| *name != OURS).collect();
    asked.push(doc! {"$unset": shown});
    asked.push(doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", format!("${OWN}")]}});
    asked.push(doc! {"$unset": OURS});
    asked.extend(rest);
    asked
}

/// Whether what comes out does not depend on the order of what goes in.
fn is_same_in_any_order(stages: &[Stage]) -> bool {
    for stage in stages {
        match stage {
            Stage::Match(_) | Stage::Project(_) | Stage::Unwind(_) => {}
            Stage::Count(_) => return true,
            Stage::Group(group) => {
                return group.fields.iter().all(|(_, field)| {
                    !matches!(
                        field,
                        Accumulator::First(_) | Accumulator::Last(_) | Accumulator::Push(_)
                    )
                });
            }
            Stage::Sort(_) | Stage::Limit(_) | Stage::Skip(_) => return false,
        }
    }
    false
}

/// The first stages as the server reads them, as far as it means the same by them.
fn translated(stages: &[Stage]) -> Vec<Document> {
    let translated = |stage: &Stage| {
        let is_sure = match stage {
            Stage::Match(filter) => {
                let condition = Condition::of(filter, Form::Record);
                return condition.is_exact.then(|| doc! {"$match": condition.document});
            }
            Stage::Group(group) => {
                is_path_or_null(&group.id) && group.fields.iter().all(|(_, field)| is_sure(field))
            }
            Stage::Sort(_) | Stage::Limit(_) | Stage::Skip(_) => true,
            Stage::Project(projection) => needed(projection).is_some(),
            Stage::Unwind(unwind) => unwind.index.is_none(),
            // Of nothing, some make a document.
            Stage::Count(_) => false,
        };
        is_sure.then(|| mongodb::bson::serialize_to_document(stage).ok())?
    };
    stages.iter().map_while(translated).collect()
}

fn is_path_or_null(expression: &Expression) -> bool {
    matches!(expression, Expression::Field(_))
        || matches!(expression, Expression::Literal(Value::Null))
}

fn is_sure(accumulator: &Accumulator) -> bool {
    match accumulator {
        Accumulator::Sum(Expression::Literal(_)) | Accumulator::Count => true,
        // A server's percentiles are near, and these are exact.
        Accumulator::Percentile(..) => false,
        Accumulator::Sum(input)
        | Accumulator::Avg(input)
        | Accumulator::Min(input)
        | Accumulator::Max(input)
        | Accumulator::First(input)
        | Accumulator::Last(input)
        | Accumulator::Push(input)
        | Accumulator::AddToSet(input) => matches!(input, Expression::Field(_)),
    }
}
