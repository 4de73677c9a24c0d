//! Which run or record an argument means.

use std::collections::HashSet;

use runlore::query::{Filter, RunSummary, field};
use runlore_core::text::{nearest, printable};

use crate::failure::Failure;
use crate::out::last_group;
use crate::store::Store;

/// The fewest characters of an id that may stand for it.
const FEWEST: usize = 4;

/// How many candidates an ambiguous id is answered with.
const LISTED: usize = 5;

/// Whether `given` may stand for `id`: all of it, its beginning or end, or the beginning of what is shown of it, which is its
/// end: ids begin with the time, and so begin alike.
pub(crate) fn stands_for(given: &str, id: &str) -> bool {
    given == id
        || (given.chars().count() >= FEWEST
            && (id.starts_with(given) || id.ends_with(given) || last_group(id).starts_with(given)))
}

/// The run that is meant: by id, by name (the newest of it), by a part of the id; without an argument the
/// newest that no other run started.
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
            .ok_or_else(|| Failure::new("no run is recorded here"));
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

/// The tasks of a run. Some records name none.
pub(crate) fn of_run(workflow_id: &str) -> Filter {
    match workflow_id {
        "" => field("workflow_id").exists(false),
        id => field("workflow_id").eq(id),
    }
}

/// The records in whose `name` this stands for an id.
pub(crate) fn by_id(name: &str, given: &str) -> Filter {
    let exact = field(name).eq(given);
    if given.chars().count() < FEWEST {
        return exact;
    }
    let literal = literal(given);
    let start = field(name).regex(&format!("^{literal}"));
    // The end, or the beginning of a UUID's last group.
    let end = field(name).regex(&format!("(-{literal}[0-9a-f]*|{literal})$"));
    match (start, end) {
        (Ok(start), Ok(end)) => exact.or(start).or(end),
        // No text is too long to be looked for as it is.
        _ => exact,
    }
}

/// A text that a regular expression takes as it is.
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

/// Says which ids a part of an id may mean.
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
    Failure::new(format!("{given:?} may mean {count} {what}: {listed}; give more of it"))
}
