//! Finds the run or record that an argument means.

use std::collections::HashSet;

use runlore::query::{Filter, RunSummary, field};
use runlore_core::text::{nearest, printable};

use crate::failure::Failure;
use crate::out::last_group;
use crate::store::Store;

/// Minimum number of characters to abbreviate an id.
const FEWEST: usize = 4;

/// Maximum number of candidates listed for an ambiguous id.
const LISTED: usize = 5;

/// Whether `given` abbreviates `id`: the whole id, its beginning or end, or the beginning of its
/// displayed part. Ids are displayed by their end, because they begin with the time and so look
/// alike.
pub(crate) fn stands_for(given: &str, id: &str) -> bool {
    given == id
        || (given.chars().count() >= FEWEST
            && (id.starts_with(given) || id.ends_with(given) || last_group(id).starts_with(given)))
}

/// Selects a run by id, by name (the newest of that name), or by part of an id. Without an
/// argument, selects the newest run that was not started by another run.
pub(crate) fn run<'a>(
    runs: &'a [RunSummary],
    given: Option<&str>,
    store: &Store,
) -> Result<&'a RunSummary, Failure> {
    let Some(given) = given else {
        let ids: HashSet<&str> = runs.iter().map(|run| &*run.workflow.workflow_id).collect();
        let is_started_by_another = |run: &&RunSummary| {
            run.workflow.parent_workflow_id.as_deref().is_some_and(|parent| ids.contains(parent))
        };
        return runs
            .iter()
            .rev()
            .find(|run| !is_started_by_another(run))
            .or_else(|| runs.last())
            .ok_or_else(|| Failure::new("there are no runs"));
    };
    let by_id = |run: &&RunSummary| run.workflow.workflow_id == given;
    let by_name = |run: &&RunSummary| run.workflow.name.as_deref() == Some(given);
    if let Some(run) = runs.iter().find(by_id).or_else(|| runs.iter().rev().find(by_name)) {
        return Ok(run);
    }
    let found: Vec<&RunSummary> =
        runs.iter().filter(|run| stands_for(given, &run.workflow.workflow_id)).collect();
    match found[..] {
        [run] => Ok(run),
        [] => {
            let mut names: Vec<&str> =
                runs.iter().filter_map(|run| run.workflow.name.as_deref()).collect();
            names.sort_unstable();
            names.dedup();
            let meant = match nearest(given, &names) {
                Some(name) => format!("did you mean `{}`? ", printable(name)),
                None => String::new(),
            };
            Err(Failure::new(format!(
                "no run in {} has the id or name {given:?}; {meant}`runlore ls` lists them",
                store.display()
            )))
        }
        _ => {
            let all = found.iter().map(|run| {
                let workflow = &run.workflow;
                (&*workflow.workflow_id, workflow.display_name())
            });
            Err(ambiguous("runs", given, all))
        }
    }
}

/// Matches the tasks of a run. An empty id matches tasks without a run.
pub(crate) fn of_run(workflow_id: &str) -> Filter {
    match workflow_id {
        "" => field("workflow_id").exists(false),
        id => field("workflow_id").eq(id),
    }
}

/// Matches the records in which `given` abbreviates the id in the field `name`.
pub(crate) fn by_id(name: &str, given: &str) -> Filter {
    let exact = field(name).eq(given);
    if given.chars().count() < FEWEST {
        return exact;
    }
    let literal = literal(given);
    let start = field(name).regex(&format!("^{literal}"));
    // The end of the id, or the beginning of a UUID's last group.
    let end = field(name).regex(&format!("(-{literal}[0-9a-f]*|{literal})$"));
    match (start, end) {
        (Ok(start), Ok(end)) => exact.or(start).or(end),
        // A text that is too long for a regular expression can still be compared exactly.
        _ => exact,
    }
}

/// Escapes a text for use in a regular expression.
fn literal(text: &str) -> String {
    let mut literal = String::new();
    for character in text.chars() {
        if !character.is_alphanumeric() && character != '-' && !character.is_whitespace() {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal
}

/// Creates the error for an ambiguous id, with the candidates.
pub(crate) fn ambiguous<'a>(
    what: &str,
    given: &str,
    found: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
) -> Failure {
    let count = found.len();
    let mut listed: Vec<String> =
        found.take(LISTED).map(|(id, name)| format!("{id} ({name})")).collect();
    if count > LISTED {
        listed.push(format!("{} more", count - LISTED));
    }
    let listed = listed.join(", ");
    Failure::new(format!("{given:?} matches {count} {what}: {listed}; give more characters"))
}
