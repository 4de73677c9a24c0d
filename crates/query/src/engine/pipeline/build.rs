//! Builder methods for pipelines.

use super::accumulator::Accumulator;
use super::expression::{Expression, check_name};
use super::stage::{Group, Unwind};
use super::{Pipeline, Stage};
use crate::engine::find::{Projection, Sort};
use crate::engine::path::Path;
use crate::query::Filter;
use runlore_core::error::Result;

/// An accumulator over each group of documents; see [`Pipeline::group`].
#[derive(Debug, Clone, PartialEq)]
pub struct Gather(Accumulator);

impl Gather {
    fn of(make: fn(Expression) -> Accumulator, path: &str) -> Self {
        Self(make(Expression::Field(Path::new(path))))
    }

    /// `$count`: the number of documents.
    pub fn count() -> Self {
        Self(Accumulator::Count)
    }

    /// `$sum`: the sum of the numbers at a path.
    pub fn sum(path: &str) -> Self {
        Self::of(Accumulator::Sum, path)
    }

    /// `$avg`: the mean of the numbers at a path.
    pub fn avg(path: &str) -> Self {
        Self::of(Accumulator::Avg, path)
    }

    /// `$min`: the smallest value at a path.
    pub fn min(path: &str) -> Self {
        Self::of(Accumulator::Min, path)
    }

    /// `$max`: the largest value at a path.
    pub fn max(path: &str) -> Self {
        Self::of(Accumulator::Max, path)
    }

    /// `$first`: the value at a path in the first document.
    pub fn first(path: &str) -> Self {
        Self::of(Accumulator::First, path)
    }

    /// `$last`: the value at a path in the last document.
    pub fn last(path: &str) -> Self {
        Self::of(Accumulator::Last, path)
    }

    /// `$push`: all values at a path, as an array.
    pub fn push(path: &str) -> Self {
        Self::of(Accumulator::Push, path)
    }

    /// `$addToSet`: the distinct values at a path, as an array.
    pub fn add_to_set(path: &str) -> Self {
        Self::of(Accumulator::AddToSet, path)
    }

    /// `$percentile`: one percentile of the numbers at a path per share, such as 0.95. It is the
    /// smallest number such that at least this share of the numbers does not exceed it.
    pub fn percentiles(path: &str, shares: &[f64]) -> Self {
        let shares = shares.iter().map(|share| share.clamp(0.0, 1.0)).collect();
        Self(Accumulator::Percentile(Expression::Field(Path::new(path)), shares))
    }
}

impl Pipeline {
    /// Creates a pipeline without stages, which returns its input unchanged.
    ///
    /// ```
    /// use runlore::query::{Gather, Pipeline, field};
    ///
    /// let slowest = Pipeline::new()
    ///     .filter(field("status").eq("FINISHED"))
    ///     .group("activity_id", [("tasks", Gather::count()), ("mean", Gather::avg("duration_ns"))])
    ///     .sort("-mean")
    ///     .limit(10);
    /// assert_eq!(slowest, Pipeline::parse(r#"[
    ///     {"$match": {"status": "FINISHED"}},
    ///     {"$group": {"_id": "$activity_id", "tasks": {"$count": {}}, "mean": {"$avg": "$duration_ns"}}},
    ///     {"$sort": {"mean": -1}},
    ///     {"$limit": 10}
    /// ]"#)?);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn new() -> Self {
        Self { stages: Vec::new() }
    }

    fn then(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// `$match`: keeps only matching documents.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        self.then(Stage::Match(filter))
    }

    /// `$group`: merges documents with the same value at a path into one. The result has that value
    /// as `_id`, and a field per accumulator.
    #[must_use]
    pub fn group<'n>(self, by: &str, fields: impl IntoIterator<Item = (&'n str, Gather)>) -> Self {
        self.grouped(Expression::Field(Path::new(by)), fields)
    }

    /// `$group` over all documents: merges them into one, with null as `_id`.
    #[must_use]
    pub fn group_all<'n>(self, fields: impl IntoIterator<Item = (&'n str, Gather)>) -> Self {
        self.grouped(Expression::Literal(serde_json::Value::Null), fields)
    }

    fn grouped<'n>(
        self,
        id: Expression,
        fields: impl IntoIterator<Item = (&'n str, Gather)>,
    ) -> Self {
        let fields = fields.into_iter().map(|(name, gather)| (name.to_owned(), gather.0)).collect();
        self.then(Stage::Group(Group { id, fields }))
    }

    /// `$sort`: sorts by the value at a path, ascending, or descending if it begins with `-`. A
    /// second call directly afterwards adds a path that breaks ties.
    #[must_use]
    pub fn sort(mut self, by: &str) -> Self {
        if let Some(Stage::Sort(sort)) = self.stages.last_mut() {
            sort.then_by(by);
            return self;
        }
        let mut sort = Sort::default();
        sort.then_by(by);
        self.then(Stage::Sort(sort))
    }

    /// `$limit`: returns at most this many documents; 0 means no limit.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        if limit == 0 { self } else { self.then(Stage::Limit(limit)) }
    }

    /// `$skip`: skips the first documents.
    #[must_use]
    pub fn skip(self, skip: u64) -> Self {
        self.then(Stage::Skip(skip))
    }

    /// `$project`: keeps only the values at these paths, and `_id`.
    #[must_use]
    pub fn fields<S: AsRef<str>>(self, paths: impl IntoIterator<Item = S>) -> Self {
        match Projection::of_paths(paths) {
            Some(projection) => self.then(Stage::Project(projection)),
            None => self,
        }
    }

    /// `$unwind`: returns one document per item of the array at a path.
    #[must_use]
    pub fn unwind(self, path: &str) -> Self {
        let path = Path::new(path);
        self.then(Stage::Unwind(Unwind { path, index: None, keeps_empty: false }))
    }

    /// `$count`: returns one document with the number of documents in this field, or none if there
    /// are no documents.
    #[must_use]
    pub fn count(self, name: &str) -> Self {
        self.then(Stage::Count(name.to_owned()))
    }

    /// Returns an error for an invalid field name. The builder methods do not validate names,
    /// unlike the parser.
    pub(crate) fn check(&self) -> Result<()> {
        self.stages.iter().try_for_each(|stage| match stage {
            Stage::Match(filter) => filter.root().check(),
            Stage::Sort(sort) => sort.check(),
            Stage::Project(projection) => projection.check(),
            Stage::Count(name) => check_name(name),
            Stage::Group(group) => {
                check_input(&group.id)?;
                group.fields.iter().try_for_each(|(name, field)| {
                    check_name(name)?;
                    field.input().map_or(Ok(()), check_input)
                })
            }
            Stage::Unwind(unwind) => Expression::check_path(unwind.path.as_str()),
            Stage::Limit(_) | Stage::Skip(_) => Ok(()),
        })
    }
}

fn check_input(input: &Expression) -> Result<()> {
    match input {
        Expression::Field(path) => Expression::check_path(path.as_str()),
        _ => Ok(()),
    }
}

/// A pipeline without stages.
impl Default for Pipeline {
    fn default() -> Self {
        Self::new()
    }
}
