//! MongoDB's aggregation pipelines.

pub mod accumulator;
mod build;
pub(crate) mod expression;
mod run;
pub mod stage;
mod sum;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use self::build::Gather;
pub use self::expression::Expression;
pub use self::stage::Stage;
use super::filter::Filter;
use super::find::Find;
use super::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// An aggregation pipeline.
///
/// ```
/// use runlore::query::Pipeline;
/// use serde_json::json;
///
/// let pipeline = Pipeline::parse(r#"[
///     {"$match": {"status": "FINISHED"}},
///     {"$group": {"_id": "$activity_id", "mean": {"$avg": "$duration_ns"}}},
///     {"$sort": {"mean": -1}}
/// ]"#)?;
/// let tasks = [
///     json!({"activity_id": "load", "status": "FINISHED", "duration_ns": 10}),
///     json!({"activity_id": "train", "status": "FINISHED", "duration_ns": 90}),
///     json!({"activity_id": "train", "status": "FINISHED", "duration_ns": 30}),
///     json!({"activity_id": "train", "status": "ERROR", "duration_ns": 1}),
/// ];
/// let means: Vec<_> = pipeline.apply(tasks).collect();
/// assert_eq!(means, [json!({"_id": "train", "mean": 60.0}), json!({"_id": "load", "mean": 10.0})]);
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Pipeline {
    stages: Vec<Stage>,
}

impl Pipeline {
    /// Parses an array of stages.
    ///
    /// # Errors
    ///
    /// The same as for [`Filter::parse`](super::filter::Filter::parse). Also an error: an unknown
    /// stage, accumulator or expression.
    pub fn parse(text: &str) -> Result<Self> {
        let json = Json::parse(text, "pipeline")?;
        let Json::Array(stages) = json else {
            let sentence = format!(
                "a pipeline must be an array such as [{{\"$match\": {{…}}}}], not {}",
                json.kind()
            );
            return Err(Error::new(ErrorKind::Query, sentence));
        };
        Ok(Self { stages: stages.into_iter().map(Stage::from_syntax).collect::<Result<_>>()? })
    }

    /// Runs the pipeline over documents and returns its results.
    ///
    /// Documents are read lazily, as results are consumed. `$sort`, `$group` and `$count` must read
    /// all of them, but keep only what they need: `$sort` before a `$limit` keeps that many
    /// documents, `$group` keeps its groups.
    pub fn apply<'a, I>(&'a self, documents: I) -> impl Iterator<Item = Value> + 'a
    where
        I: IntoIterator<Item = Value>,
        I::IntoIter: 'a,
    {
        self.apply_from(0, documents)
    }

    /// Runs the pipeline without its first `first` stages, which were already done elsewhere.
    pub fn apply_from<'a, I>(
        &'a self,
        first: usize,
        documents: I,
    ) -> impl Iterator<Item = Value> + 'a
    where
        I: IntoIterator<Item = Value>,
        I::IntoIter: 'a,
    {
        run::run(&self.stages[first..], Box::new(documents.into_iter()))
    }

    /// Returns the leading stages as a query, and how many stages it covers. For stores that can
    /// answer such a query themselves.
    pub fn beginning(&self) -> (Find, usize) {
        let mut find = Find::new();
        let mut done = 0;
        let mut filters = Vec::new();
        for stage in &self.stages {
            match stage {
                Stage::Match(filter) if find.sort.is_empty() => filters.push(filter.clone()),
                Stage::Sort(sort) if find.sort.is_empty() => find.sort = sort.clone(),
                Stage::Limit(limit) => {
                    find.limit = Some(*limit);
                    done += 1;
                    break;
                }
                _ => break,
            }
            done += 1;
        }
        find.filter = filters.into_iter().reduce(Filter::and).unwrap_or_default();
        (find, done)
    }

    /// Returns the stages, for stores that translate them.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the pipeline as text, which [`parse`](Self::parse) turns back into this pipeline.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a pipeline has only keys that are text")
    }
}

impl FromStr for Pipeline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Serialize for Pipeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.stages().serialize(serializer)
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({self})")
    }
}
