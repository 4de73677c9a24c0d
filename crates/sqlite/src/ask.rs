//! Runs queries: SQLite selects candidate rows by its indexes, then each document is checked.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use rusqlite::params_from_iter;
use rusqlite::types::{Value as SqlValue, ValueRef};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::needed::needed_columns;
use super::read::{SqliteSource, Table, Which};
use runlore_core::json::mask::FieldMask;
use runlore_core::record::Record;
use runlore_core::runs::{CountedRuns, Runs};
use runlore_core::{Error, Result};
use runlore_query::engine::find::sort::{Direction, Sort};
use runlore_query::engine::mask::mask_of;
use runlore_query::query::source::{count, has_hash, through};
use runlore_query::query::{Collection, Documents, Find, Pipeline, Records, Source};

impl From<Collection> for Table {
    fn from(of: Collection) -> Self {
        match of {
            Collection::Tasks => Self::Task,
            Collection::Workflows => Self::Workflow,
        }
    }
}

/// The part of a query that SQLite runs.
#[derive(Debug)]
pub(super) struct Plan {
    /// Selects row ids, in order. `None` to read all rows in the order they were written.
    sql: Option<String>,
    values: Vec<SqlValue>,
    /// Odd rows, which are always read because their columns do not have all values.
    needs_recheck: Vec<i64>,
    /// Whether the rows come in the requested order.
    is_sorted: bool,
    /// Whether the statement already applies the limit and skip of the query.
    is_cut: bool,
}

impl Plan {
    /// Plans a query. `needs_recheck` lists the rows with values that a
    /// column cannot represent.
    fn of(find: &Find, table: Table, needs_recheck: Vec<i64>) -> Self {
        let is_plain = needs_recheck.is_empty();
        let condition = Condition::of(&find.filter, table);
        let order = order_by(&find.sort, table);
        let is_exact = condition.as_ref().is_some_and(|condition| condition.is_exact);
        let is_part = find.limit.is_some() || (is_plain && find.skip > 0);
        let can_cut = is_exact && order.is_some() && is_part;
        // The position of such rows is known only after reading them. If there are any, sorting in
        // SQL is only useful together with a limit.
        let order = order.filter(|_| is_plain || can_cut || find.sort.is_empty());
        let is_sorted = order.is_some() && (is_plain || find.sort.is_empty());
        let is_all = condition.as_ref().is_none_or(|condition| condition.sql == "1");
        if is_all && (find.sort.is_empty() || order.is_none()) {
            return Self {
                sql: None,
                values: Vec::new(),
                needs_recheck: Vec::new(),
                is_sorted,
                is_cut: false,
            };
        }
        let (mut sql, mut values) = (format!("SELECT id FROM {}", table.name()), Vec::new());
        if let Some(condition) = condition.filter(|_| !is_all) {
            _ = write!(sql, " WHERE {}", condition.sql);
            values = condition.values;
        }
        _ = write!(sql, " ORDER BY {}id", order.unwrap_or_default());
        if can_cut {
            sql.push_str(" LIMIT ? OFFSET ?");
            // Every row found may turn out not to match when it is rechecked, so fetch that many more.
            let (more, skip) = match is_plain {
                true => (0, find.skip),
                false => (find.skip.saturating_add(needs_recheck.len() as u64), 0),
            };
            let number = |count: u64| SqlValue::Integer(count.try_into().unwrap_or(i64::MAX));
            let most = find.limit.map(|limit| number(limit.saturating_add(more)));
            values.extend([most.unwrap_or(SqlValue::Integer(-1)), number(skip)]);
        }
        Self { sql: Some(sql), values, needs_recheck, is_sorted, is_cut: can_cut && is_plain }
    }
}

/// Returns the beginning of the `ORDER BY` clause. `None` if a sort key has no column.
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
    /// Returns the rows whose documents must be checked again: a column cannot represent one of
    /// their values.
    fn needs_recheck(&self, table: Table) -> Result<Vec<i64>> {
        let sql = format!("SELECT id FROM {} WHERE odd IS NOT NULL", table.name());
        self.reader.with(|connection| {
            connection.prepare_cached(&sql)?.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn plan(&self, find: &Find, table: Table) -> Result<Plan> {
        Ok(Plan::of(find, table, self.needs_recheck(table)?))
    }

    /// Returns SQLite's query plan for a query. `None` if it reads all rows.
    #[cfg(test)]
    fn explain(&self, of: Collection, find: &Find) -> Option<Vec<String>> {
        let plan = self.plan(find, of.into()).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", plan.sql?);
        let steps = self.reader.with(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(plan.values), |row| row.get(3))?;
            rows.collect()
        });
        Some(steps.unwrap())
    }

    /// Returns the rows that a plan selects. If some need a recheck, all are in the order in which
    /// they were written.
    fn run(&self, plan: Plan, table: Table) -> Result<Which> {
        let Some(sql) = plan.sql else { return Ok(Which::all(table)) };
        let mut ids = self.reader.with(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(plan.values), |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<i64>>>()
        })?;
        if !plan.needs_recheck.is_empty() {
            ids.extend(plan.needs_recheck);
            ids.sort_unstable();
            ids.dedup();
        }
        Ok(Which::these(table, ids))
    }

    fn parsed(&self, of: Which) -> Documents<'_> {
        self.parsed_parts(of, None)
    }

    /// Parses documents, only the fields of `wanted` if given.
    fn parsed_parts(&self, of: Which, wanted: Option<FieldMask>) -> Documents<'_> {
        Box::new(self.texts(of).map(move |text| {
            let text = text?;
            let read = match &wanted {
                Some(wanted) => wanted.read(&text),
                None => serde_json::from_str(&text),
            };
            read.map_err(|error| self.bad_document(error))
        }))
    }

    /// Builds documents from these columns only, which reads far less. Rows that need a
    /// recheck are read in full.
    fn shown(&self, of: Which, columns: Vec<&'static str>) -> Documents<'_> {
        let list: String = columns.iter().map(|column| format!("{column}, ")).collect();
        let list = format!("{list}CASE WHEN odd IS NOT NULL THEN doc END");
        let rows = self.rows(of, &list, move |row| {
            if let Some(whole) = row.get::<_, Option<String>>(columns.len() + 1)? {
                return Ok(Err(whole));
            }
            let mut document = Map::new();
            for (at, name) in columns.iter().enumerate() {
                let value = match row.get_ref(at + 1)? {
                    ValueRef::Integer(number) => number.into(),
                    ValueRef::Real(number) => number.into(),
                    ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
                    // The field is missing. Columns contain no blobs.
                    ValueRef::Null | ValueRef::Blob(_) => continue,
                };
                document.insert((*name).to_owned(), value);
            }
            Ok(Ok(Value::Object(document)))
        });
        Box::new(rows.map(|row| match row? {
            Ok(document) => Ok(document),
            Err(whole) => serde_json::from_str(&whole).map_err(|error| self.bad_document(error)),
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
        let plan = self.plan(find, table)?;
        let (is_sorted, is_cut) = (plan.is_sorted, plan.is_cut);
        let documents = self.parsed_parts(self.run(plan, table)?, mask_of(find));
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

    fn count(&self, of: Collection, find: &Find) -> Result<(u64, Vec<Error>)> {
        let table = Table::from(of);
        let condition = Condition::of(&find.filter, table).filter(|condition| condition.is_exact);
        let Some(condition) = condition else { return count(self.find(of, &find.for_count())?) };
        let recheck = self.needs_recheck(table)?;
        let plain = if recheck.is_empty() { "" } else { " AND odd IS NULL" };
        let sql = format!("SELECT count(*) FROM {} WHERE ({}){plain}", table.name(), condition.sql);
        let matching: i64 = self.reader.with(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row(params_from_iter(&condition.values), |row| row.get(0))
        })?;
        let others = self.parsed(Which::these(table, recheck));
        let others = through(others, |others| others.filter(|it| find.filter.matches(it)));
        let (others, problems) = count(others)?;
        Ok((find.count_of(matching.unsigned_abs() + others), problems))
    }

    fn aggregate<'a>(&'a self, of: Collection, pipeline: &'a Pipeline) -> Result<Documents<'a>> {
        let (find, done) = pipeline.beginning();
        let table = Table::from(of);
        let plan = self.plan(&find, table)?;
        // If SQLite did not apply the limit, the pipeline must.
        let done = if plan.is_sorted && (plan.is_cut || find.limit.is_none()) { done } else { 0 };
        let rows = self.run(plan, table)?;
        let documents = match needed_columns(pipeline.stages(), table) {
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
        let mut listed = CountedRuns::default();
        for document in self.parsed(Which::all(Table::Workflow)) {
            listed.add(document.and_then(Record::from_json));
        }
        // The index over both columns answers this.
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
        let wanted = FieldMask::paths(["type", "task_id", "workflow_id", "started_at"]);
        let unsure = Which::these(Table::Task, self.needs_recheck(Table::Task)?);
        for document in self.parsed_parts(unsure, Some(wanted)) {
            match document.and_then(Record::from_json) {
                Ok(Record::Task(task)) => {
                    listed.list(task.workflow_id.as_deref().unwrap_or_default(), task.started_at);
                }
                other => listed.add(other),
            }
        }
        Ok(listed.finish())
    }

    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        let parts =
            [(Table::Workflow, None), (Table::Task, Some(FieldMask::paths(CountedRuns::FIELDS)))];
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
        // A record may have changed since the index was read.
        let has = move |task: &Value| has_hash(task, hashes);
        let tasks = self.parsed(Which::these(Table::Task, ids));
        Ok(Box::new(tasks.filter(move |task| task.as_ref().map_or(true, has))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use runlore_core::store::Sink;
    use runlore_query::query::field;

    /// Makes a store with 200 tasks and the given ones.
    fn source(folder: &tempfile::TempDir, others: &[Value]) -> SqliteSource {
        let path = folder.path().join("x.db");
        let mut sink = Sink::open(format!("sqlite://{}", path.display()), "test").unwrap();
        for other in others {
            sink.add(&Record::from_json(other.clone()).unwrap()).unwrap();
        }
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

    /// A task whose start and activity cannot be stored in a column.
    fn odd() -> Value {
        json!({
            "type": "task", "task_id": "odd", "workflow_id": "w1", "started_at": "2026-01-01T10:00:00Z",
            "activity_id": ["a1", "b"], "status": "ERROR",
        })
    }

    fn ids(documents: Documents<'_>) -> Vec<String> {
        let id = |task: Value| task["task_id"].as_str().unwrap().to_owned();
        documents.map(|task| id(task.unwrap())).collect()
    }

    #[test]
    fn the_usual_questions_never_look_at_every_row() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [plain, mixed] = [source(&folders[0], &[]), source(&folders[1], &[odd()])];
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
            let steps = plain.explain(Collection::Tasks, &find).expect(what);
            // An odd record must not change the plan for the others.
            assert_eq!(mixed.explain(Collection::Tasks, &find).as_ref(), Some(&steps), "{what}");
            assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{what}: {steps:?}");
            _ = writeln!(explained, "{what}: {}", steps.join("; "));
        }
        insta::assert_snapshot!(explained);
    }

    #[test]
    fn answers_are_those_of_the_evaluation_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(&folder, &[]);
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

    #[test]
    fn what_columns_do_not_show_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(&folder, &[odd()]);
        let found = |find: Find| ids(source.find(Collection::Tasks, &find).unwrap());
        // In descending order, texts come first, then numbers, then missing values.
        let last = Find::new().filter(field("workflow_id").eq("w1")).sort("-started_at");
        assert_eq!(found(last.clone().limit(2)), ["odd", "t199"]);
        assert_eq!(found(last.clone().limit(2).skip(1)), ["t199", "t196"]);
        assert_eq!(found(last).len(), 68);
        let both = field("activity_id").eq("a1").and(field("status").eq("ERROR"));
        assert_eq!(found(Find::new().filter(both).limit(2)), ["odd", "t21"]);
        assert_eq!(found(Find::new().sort("started_at").limit(1)), ["t0"]);
        let counts = Pipeline::parse(
            r#"[{"$group": {"_id": "$activity_id", "n": {"$sum": 1}}}, {"$sort": {"n": 1}}, {"$limit": 1}]"#,
        );
        let counts = counts.unwrap();
        let mut counts = source.aggregate(Collection::Tasks, &counts).unwrap();
        assert_eq!(counts.next().unwrap().unwrap(), json!({"_id": ["a1", "b"], "n": 1}));
        let listed = source.listed().unwrap();
        let starts: Vec<_> = listed.runs.iter().map(|run| run.workflow.started_at).collect();
        assert_eq!(starts, [Some(0.0), Some(1.0), Some(2.0)]);
    }
}
