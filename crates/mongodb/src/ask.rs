//! Runs queries: the server does the parts that all servers do alike. The rest is evaluated here.

use std::collections::{HashMap, HashSet};

use mongodb::bson::{Document, doc};
use mongodb::options::FindOptions;
use serde_json::Value;

use super::collections::Collections;
use super::condition::{Condition, Form, both, odd, order_of};
use super::decode::Stored;
use super::document::{ADDED, HASHES, OURS, OWN, PLAIN, TIMES, is_shadowed};
use super::read::{MongodbSource, Pages, from_text};
use runlore_core::record::{Record, TaskObject, WorkflowObject};
use runlore_core::runs::{CountedRuns, Runs};
use runlore_core::{Error, ErrorKind, Result};
use runlore_query::engine::find::projection::{Field, Projection};
use runlore_query::engine::find::sort::Sort;
use runlore_query::engine::pipeline::accumulator::{Accumulator, percentiles};
use runlore_query::engine::pipeline::stage::Group;
use runlore_query::engine::pipeline::{Expression, Stage};
use runlore_query::query::source::{count, has_hash, parent_of, through};
use runlore_query::query::{Collection, Documents, Filter, Find, Pipeline, Records, Source, field};

/// The maximum number of documents to load for finding out whether the last one has a tie.
const HELD: u64 = 1000;
/// The maximum number of hashes per query.
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

/// Extends a condition to the odd documents, which can only be checked after reading them.
fn with_odd(condition: Document, odd: Document) -> Document {
    match condition.is_empty() {
        true => condition,
        false => doc! {"$or": [condition, odd]},
    }
}

/// Restricts a condition to documents whose fields represent the whole record.
fn plain(condition: Document) -> Document {
    both([condition, doc! {PLAIN: true}])
}

/// The request to the server for a query.
#[derive(Debug)]
struct Asked {
    filter: Document,
    options: FindOptions,
    /// What is left to do with the results.
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    /// The results are only candidates: apply the whole query to them.
    Everything,
    /// Take this many results from the start, merged with the odd documents that match the query.
    /// The condition selects the odd documents. `None` if there are none.
    Picking(u64, Option<Document>),
    /// Only convert the results to records.
    Nothing,
}

impl MongodbSource {
    /// Returns the server's plan for a query, as MongoDB's `explain` gives it. It shows whether an
    /// index is used.
    ///
    /// ```no_run
    /// use runlore::query::{Collection, Find, field};
    /// use runlore::store::mongodb::MongodbSource;
    ///
    /// let records = MongodbSource::open("mongodb://localhost:27017/runlore")?;
    /// let find = Find::new().filter(field("status").eq("ERROR")).sort("-started_at").limit(20);
    /// println!("{:#}", records.explain(Collection::Tasks, &find)?["queryPlanner"]["winningPlan"]);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, or does not support `explain`.
    pub fn explain(&self, of: Collection, find: &Find) -> Result<Value> {
        let asked = self.asked(of, find)?;
        self.explained(of, asked.filter, asked.options)
    }

    fn asked(&self, of: Collection, find: &Find) -> Result<Asked> {
        let condition = Condition::of(&find.filter, Form::Stored);
        let odd = odd(&find.filter);
        let has_odd = self.has(of, odd.clone())?;
        let held = find.limit.map(|limit| find.skip.saturating_add(limit));
        if let Some(count) = held.filter(|count| *count <= HELD && !find.sort.is_empty())
            && condition.is_exact
        {
            // Sort by an index, which leaves the order of equal documents open. One more document
            // shows whether the last one has a tie.
            let mut options = options(order_of(&find.sort, Form::Stored));
            options.limit = i64::try_from(count + 1).ok();
            let rest = Rest::Picking(count, has_odd.then_some(odd));
            return Ok(Asked { filter: condition.document, options, rest });
        }
        if has_odd || !condition.is_exact {
            let filter = with_odd(condition.document, odd);
            return Ok(Asked { filter, options: options(in_order()), rest: Rest::Everything });
        }
        let mut sort = order_of(&find.sort, Form::Stored);
        sort.insert("_id", 1);
        let mut options = options(sort);
        options.skip = Some(find.skip);
        options.limit = find.limit.and_then(|limit| i64::try_from(limit).ok());
        options.projection = find.projection.as_ref().and_then(needed);
        Ok(Asked { filter: condition.document, options, rest: Rest::Nothing })
    }

    /// Returns the first documents in an order, without the odd ones. Ties are in the order in
    /// which the documents were written.
    fn first_few(
        &self,
        collection: Collection,
        mut filter: Document,
        mut options: FindOptions,
        sort: &Sort,
        (count, has_odd): (u64, bool),
    ) -> Result<Vec<Result<Stored>>> {
        let ask = |filter: &Document, options: &FindOptions| {
            let found = self.found(of(collection), filter.clone(), options.clone())?;
            Ok::<Vec<_>, Error>(found.stored().collect())
        };
        let mut found = ask(&filter, &options)?;
        if has_odd {
            let all = found.len() as u64;
            found.retain(|stored| stored.as_ref().map_or(true, |stored| stored.is_plain));
            filter = plain(filter);
            // Query again only if needed: there may be no index for the extended condition.
            if all > count && found.len() as u64 != all {
                found = ask(&filter, &options)?;
            }
        }
        if found.len() as u64 > count
            && let [.., Ok(last), Ok(more)] = &*found
        {
            // The sort is stable, so `more` is picked only if both are equal.
            let pair = sort.first([more, last].into_iter(), Some(1), |stored| &stored.json);
            if std::ptr::eq(pair[0], more) {
                if let Some(sort) = &mut options.sort {
                    sort.insert("_id", 1);
                }
                found = ask(&filter, &options)?;
            }
        }
        found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(found)
    }

    /// Returns the first matching documents of the odd ones.
    fn odd_few(
        &self,
        collection: Collection,
        odd: Document,
        find: &Find,
        count: u64,
    ) -> Result<Vec<Result<Stored>>> {
        let found = self.found(of(collection), odd, options(in_order()))?;
        let mut problems = Vec::new();
        let stored = found
            .stored()
            .filter_map(|stored| stored.map_err(|problem| problems.push(Err(problem))).ok());
        let matching = stored.filter(|stored| find.filter.matches(&stored.json));
        let most = usize::try_from(count).ok();
        let few = find.sort.first(matching, most, |stored| &stored.json);
        Ok(problems.into_iter().chain(few.into_iter().map(Ok)).collect())
    }

    /// Finds the ancestors of a task if the server cannot follow the links itself. Loads all links
    /// of a workflow at once, because a task and its ancestors mostly belong to the same workflow.
    fn ancestors_by_links(&self, task_id: &str) -> Result<Documents<'_>> {
        let fields = ["task_id", "workflow_id", "parent_task_id"];
        let mut links: HashMap<String, Option<String>> = HashMap::new();
        let mut problems = Vec::new();
        let mut ask = |filter: Filter, links: &mut HashMap<_, _>| {
            let mut workflow = None;
            let find = Find::new().filter(filter).fields(fields);
            for task in self.find(Collection::Tasks, &find)? {
                let task = match task {
                    Err(problem) if problem.kind() == ErrorKind::Record => {
                        problems.push(Err(problem));
                        continue;
                    }
                    task => task?,
                };
                if let Some(id) = task.get("task_id").and_then(Value::as_str) {
                    links.insert(id.to_owned(), parent_of(&task));
                }
                workflow = task.get("workflow_id").and_then(Value::as_str).map(str::to_owned);
            }
            Ok::<_, Error>(workflow)
        };
        let mut around: Vec<String> = Vec::new();
        // Records of other programs may contain a cycle.
        let mut seen = HashSet::from([task_id.to_owned()]);
        let mut last = task_id.to_owned();
        loop {
            if !links.contains_key(&last) {
                let workflow = ask(field("task_id").eq(&*last), &mut links)?;
                if let Some(workflow) = workflow {
                    ask(field("workflow_id").eq(workflow), &mut links)?;
                }
            }
            let parent = links.get(&last).cloned().flatten();
            let Some(parent) = parent.filter(|parent| seen.insert(parent.clone())) else { break };
            around.push(parent.clone());
            last = parent;
        }
        let mut found = HashMap::new();
        let find = Find::new().filter(field("task_id").is_in(around.iter().map(String::as_str)));
        for task in self.find(Collection::Tasks, &find)? {
            match task {
                Err(problem) if problem.kind() == ErrorKind::Record => problems.push(Err(problem)),
                task => {
                    let task = task?;
                    let id = task.get("task_id").and_then(Value::as_str).map(str::to_owned);
                    found.extend(id.map(|id| (id, task)));
                }
            }
        }
        let tasks = around.into_iter().filter_map(move |id| found.remove(&id)).map(Ok);
        Ok(Box::new(problems.into_iter().chain(tasks)))
    }
}

impl Source for MongodbSource {
    fn documents(&self, collection: Collection) -> Result<Documents<'_>> {
        let found = self.found(of(collection), Document::new(), options(in_order()))?;
        Ok(Box::new(found.records()))
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
        let Asked { filter, options, rest } = self.asked(collection, find)?;
        let (count, odd) = match rest {
            Rest::Everything => {
                let candidates = Box::new(self.found(of(collection), filter, options)?.records());
                return Ok(through(candidates, |documents| find.apply(documents)));
            }
            Rest::Nothing => {
                let found = self.found(of(collection), filter, options)?;
                return Ok(Box::new(found.records().map(|document| Ok(find.project(document?)))));
            }
            Rest::Picking(count, odd) => (count, odd),
        };
        let picked = (count, odd.is_some());
        let mut few = self.first_few(collection, filter, options, &find.sort, picked)?;
        if let Some(odd) = odd {
            few.extend(self.odd_few(collection, odd, find, count)?);
        }
        let written = |stored: &Stored| stored.id.as_object_id().map(|id| id.bytes());
        few.sort_by_key(|stored| stored.as_ref().ok().and_then(written));
        let few = few.into_iter().map(|stored| Ok(stored?.json));
        Ok(through(Box::new(few), |documents| find.apply(documents)))
    }

    fn count(&self, collection: Collection, find: &Find) -> Result<(u64, Vec<Error>)> {
        let condition = Condition::of(&find.filter, Form::Stored);
        if condition.is_exact && !self.has(collection, odd(&find.filter))? {
            let group = doc! {"$group": {"_id": null, "count": {"$sum": 1}}};
            let pipeline = vec![doc! {"$match": condition.document}, group];
            if let Some(groups) = self.aggregated(collection, pipeline)? {
                // Without matching documents there is no group.
                let group = groups.answers().next().transpose()?.unwrap_or_default();
                return Ok((find.count_of(group["count"].as_u64().unwrap_or(0)), Vec::new()));
            }
        }
        count(self.find(collection, &find.for_count())?)
    }

    fn aggregate<'a>(
        &'a self,
        collection: Collection,
        pipeline: &'a Pipeline,
    ) -> Result<Documents<'a>> {
        let (find, begun) = pipeline.beginning();
        let condition = Condition::of(&find.filter, Form::Stored);
        let odd = odd(&find.filter);
        if condition.is_exact && !self.has(collection, odd.clone())? {
            let sure = Translated::of(&pipeline.stages()[begun..]);
            let done = begun + sure.done;
            let stages = &pipeline.stages()[begun..done];
            let asked = for_server(&find, condition.document.clone(), stages, sure.stages);
            if let Some(answer) = self.aggregated(collection, asked)? {
                let answers =
                    answer.answers().map(move |answer| Ok(ranked(answer?, sure.unranked)));
                let rest = move |documents| pipeline.apply_from(done, documents);
                return Ok(through(Box::new(answers), rest));
            }
        }
        let filter = with_odd(condition.document, odd);
        let candidates = self.found(of(collection), filter, options(in_order()))?;
        Ok(through(Box::new(candidates.records()), |documents| pipeline.apply(documents)))
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
            // With several queries, a task may be found more than once.
            Ok(stored) if !is_one && !seen.insert(stored.id.to_string()) => None,
            Ok(stored) => Some(Ok(stored.json)),
            Err(error) => Some(Err(error)),
        })))
    }

    fn ancestors(&self, task_id: &str) -> Result<Documents<'_>> {
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
        let Some(pages) = self.aggregated(Collection::Tasks, pipeline)? else {
            return self.ancestors_by_links(task_id);
        };
        // Records of other programs may contain a cycle that leads back to the task.
        let id = task_id.to_owned();
        let is_another =
            move |task: &Value| task.get("task_id").and_then(Value::as_str) != Some(&*id);
        let around = pages.records().filter(move |task| task.as_ref().map_or(true, &is_another));
        Ok(Box::new(around))
    }

    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        if let Some(refused) = self.refused()? {
            counted.add(Err(refused));
        }
        let has_odd = self.has(Collection::Tasks, doc! {PLAIN: null})?;
        let mut pipeline = vec![doc! {"$group": totals()}];
        if has_odd {
            pipeline.insert(0, doc! {"$match": plain(Document::new())});
        }
        let Some(groups) = self.aggregated(Collection::Tasks, pipeline)? else {
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
        if has_odd {
            let odd = self.found(Collections::tasks, doc! {PLAIN: null}, options(in_order()))?;
            for task in odd.records() {
                counted.add(task.and_then(Record::from_json));
            }
        }
        for workflow in self.documents(Collection::Workflows)? {
            let workflow = workflow.and_then(|json| {
                serde_json::from_value::<WorkflowObject>(json).map_err(super::upsert::not_json)
            });
            counted.add(workflow.map(Record::from));
        }
        Ok(counted.finish())
    }
}

/// Returns a `$group` that counts the tasks of each workflow by status, and sums their CPU time.
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

/// Returns the stored fields that a projection needs. `None` if it needs all of them.
fn needed(projection: &Projection) -> Option<Document> {
    let mut needed = doc! {OURS: 1};
    for (name, field) in projection.fields.iter().filter(|_| projection.includes) {
        if !is_shadowed(name) {
            add_needed(&mut needed, "", name, field)?;
        }
    }
    projection.includes.then_some(needed)
}

fn add_needed(needed: &mut Document, path: &str, name: &str, field: &Field) -> Option<()> {
    let is_name = !(name.is_empty() || name.starts_with('$') || name.contains(['.', '\0']));
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match field {
        _ if !is_name => None,
        Field::Include => {
            needed.insert(path, 1);
            Some(())
        }
        Field::Inside(fields) => {
            fields.iter().try_for_each(|(name, field)| add_needed(needed, &path, name, field))
        }
        Field::Exclude | Field::Compute(_) => None,
    }
}

/// Builds a pipeline for the server: the query it starts with, the conversion of the documents to
/// records, and the remaining stages.
fn for_server(
    find: &Find,
    condition: Document,
    stages: &[Stage],
    rest: Vec<Document>,
) -> Vec<Document> {
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

/// Returns whether the result of the stages does not depend on the order of their input.
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

/// The leading stages in the server's form, as far as all servers give the same results.
struct Translated<'a> {
    stages: Vec<Document>,
    /// The number of stages that were translated.
    done: usize,
    /// The last translated stage, if it is a group with percentiles. The server only collects their
    /// numbers, because its own percentiles are approximate.
    unranked: Option<&'a Group>,
}

impl<'a> Translated<'a> {
    fn of(stages: &'a [Stage]) -> Self {
        let mut translated = Self { stages: Vec::new(), done: 0, unranked: None };
        for stage in stages {
            let Some(documents) = of_stage(stage) else { break };
            translated.stages.extend(documents);
            translated.done += 1;
            if let Stage::Group(group) = stage
                && group.fields.iter().any(|(_, field)| shares_of(field).is_some())
            {
                translated.unranked = Some(group);
                break;
            }
        }
        translated
    }
}

fn of_stage(stage: &Stage) -> Option<Vec<Document>> {
    let is_sure = match stage {
        Stage::Match(filter) => {
            let condition = Condition::of(filter, Form::Record);
            return condition.is_exact.then(|| vec![doc! {"$match": condition.document}]);
        }
        // For empty input, the `$count` of some servers returns a document.
        Stage::Count(name) => {
            let count = doc! {"$group": {"_id": null, name: {"$sum": 1}}};
            return (name != "_id").then(|| vec![count, doc! {"$project": {"_id": 0, name: 1}}]);
        }
        Stage::Group(group) => {
            is_sure(&group.id) && group.fields.iter().all(|(_, field)| is_sure_gathering(field))
        }
        Stage::Sort(_) | Stage::Limit(_) | Stage::Skip(_) => true,
        Stage::Project(projection) => {
            return Some(vec![doc! {"$project": flattened(projection)?}]);
        }
        Stage::Unwind(unwind) => unwind.index.is_none(),
    };
    let mut document = is_sure.then(|| mongodb::bson::serialize_to_document(stage).ok())??;
    if let Stage::Group(group) = stage
        && let Ok(written) = document.get_document_mut("$group")
    {
        for (name, field) in &group.fields {
            if let Accumulator::Percentile(Expression::Field(path), _) = field {
                written.insert(name, doc! {"$push": format!("${path}")});
            }
        }
    }
    Some(vec![document])
}

fn shares_of(field: &Accumulator) -> Option<&[f64]> {
    match field {
        Accumulator::Percentile(_, shares) => Some(shares),
        _ => None,
    }
}

/// Replaces the collected numbers of a group by their percentiles.
fn ranked(mut answer: Value, of: Option<&Group>) -> Value {
    for (name, field) in of.into_iter().flat_map(|group| &group.fields) {
        if let Some(shares) = shares_of(field)
            && let Some(numbers) = answer.get_mut(name)
        {
            let all = numbers.as_array().into_iter().flatten().filter_map(Value::as_f64);
            *numbers = percentiles(all.collect(), shares);
        }
    }
    answer
}

fn is_sure(expression: &Expression) -> bool {
    match expression {
        Expression::Field(_) => true,
        Expression::Literal(value) => !(value.is_array() || value.is_object()),
        Expression::Object(fields) => fields.iter().all(|(_, inner)| is_sure(inner)),
        Expression::Array(items) => items.iter().all(is_sure),
        Expression::Root => false,
    }
}

/// Writes a projection with one dotted path per field. Some servers take a nested field for a
/// value.
fn flattened(projection: &Projection) -> Option<Document> {
    let mut flat = Document::new();
    for (name, field) in &projection.fields {
        match field {
            Field::Exclude if !projection.includes || name == "_id" => _ = flat.insert(name, 0),
            Field::Compute(expression) if name != "_id" && is_sure(expression) => {
                flat.insert(name, mongodb::bson::serialize_to_bson(expression).ok()?);
            }
            field => add_needed(&mut flat, "", name, field).filter(|()| projection.includes)?,
        }
    }
    Some(flat)
}

fn is_sure_gathering(accumulator: &Accumulator) -> bool {
    match accumulator {
        Accumulator::Sum(Expression::Literal(_)) | Accumulator::Count => true,
        Accumulator::Percentile(input, _)
        | Accumulator::Sum(input)
        | Accumulator::Avg(input)
        | Accumulator::Min(input)
        | Accumulator::Max(input)
        | Accumulator::First(input)
        | Accumulator::Last(input)
        | Accumulator::Push(input)
        | Accumulator::AddToSet(input) => matches!(input, Expression::Field(_)),
    }
}
