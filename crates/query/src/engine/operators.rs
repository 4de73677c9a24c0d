//! The names that the language has, and what is said of one that it does not have.

use runlore_core::error::{Error, ErrorKind};
use runlore_core::settings::nearest::{listed, nearest};

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

/// Says that `name` is no `what`, what it was probably meant to be, and everything that is valid.
pub(super) fn unknown(what: &str, name: &str, valid: &[&str]) -> Error {
    // Every operator has a dollar: it says nothing about how near two are.
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

/// The beginning of a long text, for a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]).escape_debug().to_string(),
        None => text.escape_debug().to_string(),
    }
}
