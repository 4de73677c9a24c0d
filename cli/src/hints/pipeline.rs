//! Finds the fields that a pipeline uses.

use runlore_core::text::nearest;
use serde_json::Value;

use super::asked;

/// The fields that a pipeline uses.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Asked {
    /// Fields of records.
    pub(crate) of_records: Vec<String>,
    /// A message about the first field that no earlier stage creates.
    pub(crate) not_made: Option<String>,
    /// The fields of the documents at this stage. `None` while they are still records.
    made: Option<Vec<String>>,
    /// The fields that earlier stages added to records.
    added: Vec<String>,
}

/// Finds the fields that a pipeline uses, given its canonical JSON, and the `fields` shown of its
/// output. The fields of `$match` are included only if `filters` is set, because a filter may well
/// test for a field that no record has.
pub(crate) fn in_pipeline(stages: &Value, fields: &[String], filters: bool) -> Asked {
    let mut all = Asked::default();
    let stages = stages.as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
    for (name, stage) in stages {
        match name.as_str() {
            "$match" if filters => all.ask(asked(stage)),
            "$sort" => all.ask(names(stage)),
            "$group" => {
                all.ask(computed_of(stage));
                all.made = Some(names(stage));
            }
            "$project" => {
                all.ask(computed_of(stage));
                all.ask(named_in(stage, ""));
                if !is_exclusion(stage) {
                    all.made = Some(names(stage));
                }
            }
            "$count" => all.made = Some(stage.as_str().into_iter().map(str::to_owned).collect()),
            "$unwind" => {
                all.ask(computed_of(&stage["path"]));
                let index = stage["includeArrayIndex"].as_str().map(first_name);
                all.made.as_mut().unwrap_or(&mut all.added).extend(index.map(str::to_owned));
            }
            _ => {}
        }
    }
    all.ask(fields.to_vec());
    all
}

impl Asked {
    fn ask(&mut self, paths: Vec<String>) {
        // Every document may have an `_id`.
        for path in paths.into_iter().filter(|path| first_name(path) != "_id") {
            let is_in = |names: &[String]| names.iter().any(|name| name == first_name(&path));
            match &self.made {
                None if !is_in(&self.added) => self.of_records.push(path),
                Some(made) if !is_in(made) && self.not_made.is_none() => {
                    let made: Vec<&str> = made.iter().map(String::as_str).collect();
                    let told = match nearest(&path, &made) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("there is `{}`", made.join("`, `")),
                    };
                    self.not_made = Some(format!("no stage makes the field `{path}`: {told}"));
                }
                _ => {}
            }
        }
    }
}

fn first_name(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn names(object: &Value) -> Vec<String> {
    object.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Returns the fields that an expression reads.
fn computed_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) if !path.starts_with('$') => vec![path.to_owned()],
            _ => Vec::new(),
        },
        Value::Array(items) => items.iter().flat_map(computed_of).collect(),
        Value::Object(entries) => {
            let computed = entries.iter().filter(|(name, _)| *name != "$literal");
            computed.flat_map(|(_, value)| computed_of(value)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the fields that a `$project` keeps or leaves out.
fn named_in(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Number(_) => vec![path.to_owned()],
        Value::Object(entries) => {
            let inside = entries.iter().filter(|(name, _)| *name != "$literal");
            let below = |name: &str| match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            inside.flat_map(|(name, value)| named_in(value, &below(name))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a `$project` keeps all fields that it does not name.
fn is_exclusion(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Object(entries) => {
            entries.iter().all(|(name, value)| name != "$literal" && is_exclusion(value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use runlore::query::Pipeline;

    use super::*;

    fn in_text(text: &str, filters: bool) -> Asked {
        let pipeline = Pipeline::parse(text).unwrap().to_json();
        in_pipeline(&serde_json::from_str(&pipeline).unwrap(), &[], filters)
    }

    #[test]
    fn fields_of_records_are_found_in_every_stage() {
        let text = r#"[
            {"$match": {"a": 1}}, {"$unwind": {"path": "$b.c", "includeArrayIndex": "at"}}, {"$sort": {"d": 1, "at": 1}},
            {"$project": {"e.f": 0}}, {"$group": {"_id": {"x": "$g"}, "n": {"$sum": 1}, "p": {"$percentile": {"input": "$h", "p": [0.5], "method": "approximate"}}, "l": {"$push": ["$i"]}, "all": {"$push": "$$ROOT"}, "t": {"$first": {"$literal": "$no"}}}}
        ]"#;
        let found = in_text(text, true);
        assert_eq!(found.of_records, ["a", "b.c", "d", "e.f", "g", "h", "i"]);
        assert_eq!(found.not_made, None);
        assert_eq!(in_text(text, false).of_records[0], "b.c");
    }

    #[test]
    fn what_a_stage_has_made_is_known_to_those_after_it() {
        let group = r#"{"$group": {"_id": "$a", "mean": {"$avg": "$b"}}}"#;
        let after = |stage: &str| in_text(&format!("[{group}, {stage}]"), true).not_made;
        assert_eq!(after(r#"{"$sort": {"mean": -1, "_id": 1}}"#), None);
        let told = "no stage makes the field `men`: did you mean `mean`?";
        assert_eq!(after(r#"{"$sort": {"men": -1}}"#).as_deref(), Some(told));
        let told = "no stage makes the field `duration_ns`: there is `_id`, `mean`";
        assert_eq!(after(r#"{"$match": {"duration_ns": 1}}"#).as_deref(), Some(told));
        let project = r#"[{"$project": {"x": "$a", "b": {"c": 1}}}, {"$sort": {"x": 1, "b.c": 1}}, {"$group": {"_id": "$y"}}]"#;
        let found = in_text(project, true);
        assert_eq!(found.of_records, ["a", "b.c"]);
        assert!(found.not_made.unwrap().starts_with("no stage makes the field `y`"));
    }
}
