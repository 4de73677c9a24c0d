//! The names that the language has, and what is said of one that it does not have.

use crate::error::{Error, ErrorKind};
use crate::settings::nearest::{listed, nearest};

/// What may stand in a filter beside fields.
pub(super) const OF_DOCUMENTS: &[&str] = &["$and", "$or", "$nor"];

/// What may stand inside a field of a filter.
pub(super) const OF_FIELDS: &[&str] = &[
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$exists",
    "$type",
    "$regex",
    "$options",
    "$not",
    "$all",
    "$elemMatch",
    "$size",
];

/// The stages of a pipeline.
pub(super) const STAGES: &[&str] =
    &["$match", "$group", "$sort", "$limit", "$skip", "$project", "$count", "$unwind"];

/// What `$group` can gather.
pub(super) const ACCUMULATORS: &[&str] = &[
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$first",
    "$last",
    "$push",
    "$addToSet",
    "$count",
    "$percentile",
];

/// What may stand in an expression beside field paths, literals and objects.
pub(super) const EXPRESSIONS: &[&str] = &["$literal"];

/// Says what a name was probably meant to be, and everything that is valid.
pub(super) fn unknown(what: &str, name: &str, valid: &[&str]) -> Error {
    let mut shown: String = name.chars().take(60).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    let meant = match nearest(name, valid) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => ";".to_owned(),
    };
    let sentence = format!("there is no {what} `{shown}`{meant} valid are {}", listed(valid));
    Error::new(ErrorKind::Query, sentence.replace("? valid", "? Valid"))
}
