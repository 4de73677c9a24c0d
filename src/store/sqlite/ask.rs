//! Questions: what the indexes can answer is asked of SQLite, and a look at each document has the last word.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use rusqlite::params_from_iter;
use rusqlite::types::{Value as SqlValue, ValueRef};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::needed::needed_columns;
use super::read::{SqliteSource, Table, Which};
use crate::Result;
use crate::query::find::sort::{Direction, Sort};
use crate::query::source::{has_hash, through};
use crate::query::wanted::Wanted;
use crate::query::{Collection, CountedRuns, Documents, Find, Pipeline, Records, Runs, Source};
use crate::record::Record;

impl From<Collection> for Table {
    fn from(of: Collection) -> Self {
        match of {
            Collection::Tasks => Self::Task,
            Collection::Workflows => Self::Workflow,
        }
    }
}

/// What of a question SQLite answers.
#[derive(Debug)]
pub(super) struct Plan {
    /// Gives the numbers of rows, in order; none where all rows are looked at in the order they were written.
    pub(super) sql: Option<String>,
    pub(super) values: Vec<SqlValue>,
    /// Whether they come in the order that was asked for.
    is_sorted: bool,
    /// Whether they are no more than what was asked for.
    is_cut: bool,
}

impl Plan {
    /// How to find what is asked for. `is_plain` where no column hides something.
    pub(super) fn of(find: &Find, table: Table, is_plain: bool) -> Self {
        let condition = is_plain.then(|| Condition::of(&find.filter, table)).flatten();
        let order = is_plain.then(|| order_by(&find.sort, table)).flatten();
        let is_exact = condition.as_ref().is_some_and(|condition| condition.is_exact);
        let is_sorted = order.is_some();
        let is_all = condition.as_ref().is_none_or(|condition| condition.sql == "1");
        if is_all && (find.sort.is_empty() || !is_sorted) {
            return Self { sql: None, values: Vec::new(), is_sorted, is_cut: false };
        }
        let (mut sql, mut values) = (format!("SELECT id FROM {}", table.name()), Vec::new());
        if let Some(condition) = condition.filter(|_| !is_all) {
            _ = write!(sql, " WHERE {}", condition.sql);
            values = condition.values;
        }
        _ = write!(sql, " ORDER BY {}id", order.unwrap_or_default());
        let is_cut = is_exact && is_sorted && (find.limit.is_some() || find.skip > 0);
        if is_cut {
            sql.push_str(" LIMIT ? OFFSET ?");
            let number = |count: u64| SqlValue::Integer(count.try_into().unwrap_or(i64::MAX));
            values.extend([find.limit.map_or(SqlValue::Integer(-1), number), number(find.skip)]);
        }
        Self { sql: Some(sql), values, is_sorted, is_cut }
    }
}

/// The beginning of `ORDER BY`; none where the columns do not tell.
fn order_by(sort: &Sort, table: Table) -> Option<String> {
    let mut order = String::new();
    for (path, direction) in sort.keys() {
        let column = table.column(path)?;
        let way = if *direction == Direction::Descending { " DESC" } else { "" };
        _ = write!(order, "{column}{way}, ");
    }
    Some(order)
}

impl SqliteSource {
    /// Whether the columns of a table show all that its documents have in those fields.
    fn is_plain(&self, table: Table) -> Result<bool> {
        let sql =
            format!("SELECT NOT EXISTS (SELECT 1 FROM {} WHERE odd IS NOT NULL)", table.name());
        self.reader
            .with(|connection| connection.prepare_cached(&sql)?.query_row([], |row| row.get(0)))
    }

    /// How a question would be answered, as SQLite explains it; none where all rows are looked at.
    #[cfg(test)]
    fn explain(&self, of: Collection, find: &Find) -> Option<Vec<String>> {
        let plan = Plan::of(find, of.into(), true);
        let sql = format!("EXPLAIN QUERY PLAN {}", plan.sql?);
        let steps = self.reader.with(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(plan.values), |row| row.get(3))?;
            rows.collect()
        });
        Some(steps.unwrap())
    }

    /// Which rows a plan finds.
    fn run(&self, plan: Plan, table: Table) -> Result<Which> {
        let Some(sql) = plan.sql else { return Ok(Which::all(table)) };
        let ids = self.reader.with(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(plan.values), |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<i64>>>()
        })?;
        Ok(Which::these(table, ids))
    }

    fn parsed(&self, of: Which) -> Documents<'_> {
        self.parsed_parts(of, None)
    }

    /// Documents with no more than is wanted of each.
    fn parsed_parts(&self, of: Which, wanted: Option<Wanted>) -> Documents<'_> {
        Box::new(self.texts(of).map(move |text| {
            let text = text?;
            let read = match &wanted {
                Some(wanted) => wanted.read(&text),
                None => serde_json::from_str(&text),
            };
            read.map_err(|error| self.bad_document(error))
        }))
    }

    /// Documents that have only what these columns show: far less to read, where nothing else matters.
    fn shown(&self, of: Which, columns: Vec<&'static str>) -> Documents<'_> {
        let list = if columns.is_empty() { "1".to_owned() } else { columns.join(", ") };
        Box::new(self.rows(of, &list, move |row| {
            let mut document = Map::new();
            for (at, name) in columns.iter().enumerate() {
                let value = match row.get_ref(at + 1)? {
                    ValueRef::Integer(number) => number.into(),
                    ValueRef::Real(number) => number.into(),
                    ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
                    // Missing; a column has nothing else.
                    ValueRef::Null | ValueRef::Blob(_) => continue,
                };
                document.insert((*name).to_owned(), value);
            }
            Ok(Value::Object(document))
        }))
    }
}

impl Source for SqliteSource {
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        Ok(self.parsed(Which::all(of.into())))
    }

    fn records(&self) -> Result<Records<'_>> {
        Ok(Box::new(SqliteSource::records(self)))
    }

    fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Documents<'a>> {
        let table = Table::from(of);
        let plan = Plan::of(find, table, self.is_plain(table)?);
        let (is_sorted, is_cut) = (plan.is_sorted, plan.is_cut);
        let documents = self.parsed_parts(self.run(plan, table)?, Wanted::of(find));
        if !is_sorted {
            return Ok(through(documents, |documents| find.apply(documents)));
        }
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let (skip, limit) = match is_cut {
            true => (0, usize::MAX),
            false => (whole(find.skip), find.limit.map_or(usize::MAX, whole)),
        };
        Ok(through(documents, |documents| {
            let matching = documents.filter(|document| find.filter.matches(document));
            matching.skip(skip).take(limit).map(|document| find.project(document))
        }))
    }

    fn aggregate<'a>(&'a self, of: Collection, pipeline: &'a Pipeline) -> Result<Documents<'a>> {
        let (find, done) = pipeline.beginning();
        let table = Table::from(of);
        let is_plain = self.is_plain(table)?;
        let plan = Plan::of(&find, table, is_plain);
        // A limit that SQLite has not kept is kept by the pipeline.
        let done = if plan.is_sorted && (plan.is_cut || find.limit.is_none()) { done } else { 0 };
        let rows = self.run(plan, table)?;
        let columns = is_plain.then(|| needed_columns(pipeline.stages(), table)).flatten();
        let documents = match columns {
            Some(columns) => self.shown(rows, columns),
            None => self.parsed(rows),
        };
        Ok(match done {
            0 => through(documents, |documents| pipeline.apply(documents)),
            _ => through(documents, move |documents| {
                let matching = documents.filter(move |document| find.filter.matches(document));
                pipeline.apply_from(done, matching)
            }),
        })
    }

    fn listed(&self) -> Result<Runs> {
        if !self.is_plain(Table::Task)? {
            return self.runs();
        }
        let mut listed = CountedRuns::default();
        for document in self.parsed(Which::all(Table::Workflow)) {
            listed.add(document.and_then(Record::from_json));
        }
        // The index of both columns tells it.
        let sql = "SELECT workflow_id, min(started_at) FROM task GROUP BY workflow_id";
        self.reader.with(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let workflow_id: Option<String> = row.get(0)?;
                listed.list(workflow_id.as_deref().unwrap_or_default(), row.get(1)?);
            }
            Ok(())
        })?;
        Ok(listed.finish())
    }

    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        let parts =
            [(Table::Workflow, None), (Table::Task, Some(Wanted::paths(CountedRuns::FIELDS)))];
        for (table, wanted) in parts {
            for document in self.parsed_parts(Which::all(table), wanted) {
                counted.add(document.and_then(Record::from_json));
            }
        }
        Ok(counted.finish())
    }

    fn tasks_with<'a>(&'a self, hashes: &'a HashSet<String>) -> Result<Documents<'a>> {
        let sql = "SELECT task FROM value_hash WHERE hash = ?1";
        let ids: BTreeSet<i64> = self.reader.with(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut ids = BTreeSet::new();
            for hash in hashes {
                for id in statement.query_map([hash], |row| row.get(0))? {
                    ids.insert(id?);
                }
            }
            Ok(ids)
        })?;
        let ids = ids.into_iter().collect();
        // A record may have changed since.
        let has = move |task: &Value| has_hash(task, hashes);
        let tasks = self.parsed(Which::these(Table::Task, ids));
        Ok(Box::new(tasks.filter(move |task| task.as_ref().map_or(true, has))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::field;
    use crate::store::Sink;

    fn source(folder: &tempfile::TempDir) -> SqliteSource {
        let path = folder.path().join("x.db");
        let mut sink = Sink::open(format!("sqlite://{}", path.display()), "test").unwrap();
        for n in 0..200 {
            let task = json!({
                "type": "task", "task_id": format!("t{n}"), "workflow_id": format!("w{}", n % 3),
                "parent_task_id": format!("t{}", n / 10), "activity_id": format!("a{}", n % 5),
                "status": if n % 7 == 0 { "ERROR" } else { "FINISHED" }, "started_at": f64::from(n),
                "hashes": {"used": {"x": format!("h{}", n % 50)}},
            });
            sink.add(&Record::from_json(task).unwrap()).unwrap();
        }
        sink.finish().unwrap();
        SqliteSource::open(path).unwrap()
    }

    fn ids(documents: Documents<'_>) -> Vec<String> {
        let id = |task: Value| task["task_id"].as_str().unwrap().to_owned();
        documents.map(|task| id(task.unwrap())).collect()
    }

    #[test]
    fn the_usual_questions_never_look_at_every_row() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(&folder);
        let last = Find::new().filter(field("workflow_id").eq("w1")).sort("-started_at").limit(50);
        let both = field("activity_id").eq("a1").and(field("status").eq("ERROR"));
        let cases = [
            ("one task", Find::new().filter(field("task_id").eq("t7"))),
            ("children", Find::new().filter(field("parent_task_id").eq("t7"))),
            ("last of a workflow", last),
            ("activity and status", Find::new().filter(both.clone())),
            ("some of them", Find::new().filter(both).limit(20)),
            (
                "errors, newest first",
                Find::new().filter(field("status").eq("ERROR")).sort("-started_at").limit(20),
            ),
            ("of a campaign", Find::new().filter(field("campaign_id").eq("c"))),
            (
                "since a moment",
                Find::new().filter(field("started_at").gt(190)).sort("started_at").limit(5),
            ),
        ];
        let mut explained = String::new();
        for (what, find) in cases {
            let steps = source.explain(Collection::Tasks, &find).expect(what);
            assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{what}: {steps:?}");
            _ = writeln!(explained, "{what}: {}", steps.join("; "));
        }
        insta::assert_snapshot!(explained);
    }

    #[test]
    fn answers_are_those_of_the_evaluation_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(&folder);
        let last = Find::new().filter(field("workflow_id").eq("w1")).sort("-started_at");
        let last = last.limit(3).skip(1).fields(["task_id"]);
        let found = source.find(Collection::Tasks, &last).unwrap();
        assert_eq!(ids(found), ["t196", "t193", "t190"]);
        let pipeline = Pipeline::parse(
            r#"[{"$match": {"status": "ERROR"}}, {"$sort": {"started_at": -1}}, {"$limit": 2},
                {"$project": {"task_id": 1}}]"#,
        )
        .unwrap();
        assert_eq!(ids(source.aggregate(Collection::Tasks, &pipeline).unwrap()), ["t196", "t189"]);
        assert_eq!(
            ids(source.tasks_with(&HashSet::from(["h49".to_owned()])).unwrap()),
            ["t49", "t99", "t149", "t199"]
        );
    }
}
