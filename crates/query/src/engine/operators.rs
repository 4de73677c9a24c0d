//! The operators of the query language, and the error for an unknown one.

use runlore_core::error::{Error, ErrorKind};
use runlore_core::settings::nearest::{listed, nearest};

/// Operators that a filter may have beside fields.
pub(super) const OF_DOCUMENTS: &[&str] = &["$and", "$or", "$nor"];

/// Operators that may be applied to a field of a filter.
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

/// The accumulators of `$group`.
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

/// Makes an error that says that `name` is no `what`, suggests the nearest name and lists all
/// valid names.
pub(super) fn unknown(what: &str, name: &str, valid: &[&str]) -> Error {
    // Every operator starts with a dollar, so it must not count towards the similarity.
    let bare = |name| str::trim_start_matches(name, '$');
    let names: Vec<&str> = valid.iter().copied().map(bare).collect();
    let near =
        nearest(bare(name), &names).and_then(|near| names.iter().position(|name| *name == near));
    let (shown, all) = (shortened(name), listed(valid));
    let sentence = match near {
        Some(near) => {
            format!("`{shown}` is no {what}; did you mean `{}`? Valid are {all}", valid[near])
        }
        None => format!("`{shown}` is no {what}; valid are {all}"),
    };
    Error::new(ErrorKind::Query, sentence)
}

/// Shortens `text` to its first 60 characters, and escapes it for a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]).escape_debug().to_string(),
        None => text.escape_debug().to_string(),
    }
}
