//! Joins the records of a workflow into one: a RUNNING and a final record from each process that
//! took part.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::record::{Status, WorkflowObject};

/// Workflow records that are being joined.
#[derive(Debug, Default)]
pub struct Workflows {
    /// For each workflow one record per process, in the order in which they were first seen.
    joined: Vec<Vec<WorkflowObject>>,
    by_id: HashMap<String, usize>,
}

impl Workflows {
    pub fn add(&mut self, workflow: WorkflowObject) {
        let Some(&place) = self.by_id.get(&workflow.workflow_id) else {
            self.by_id.insert(workflow.workflow_id.clone(), self.joined.len());
            return self.joined.push(vec![workflow]);
        };
        join_process(&mut self.joined[place], workflow);
    }

    /// Returns one record per workflow.
    pub fn joined(self) -> Vec<WorkflowObject> {
        self.joined.into_iter().filter_map(speak_as_one).collect()
    }
}

/// Joins a record with the others of the same workflow, of which there is one per process. Returns
/// the index of the record that it was joined into.
pub fn join_process(processes: &mut Vec<WorkflowObject>, mut workflow: WorkflowObject) -> usize {
    let Some(at) = processes.iter().position(|known| is_one_process(known, &workflow)) else {
        processes.push(workflow);
        return processes.len() - 1;
    };
    let known = &mut processes[at];
    if known.is_finished() && workflow.status == Some(Status::Unknown) {
        // The process that recovered the run did not know how it had ended.
        return at;
    }
    if certainty(known) <= certainty(&workflow) {
        std::mem::swap(known, &mut workflow);
    }
    known.fill_from(workflow);
    at
}

/// Ranks what a record says about the end of a workflow. Recovery writes UNKNOWN for a dead process.
/// A RUNNING record of that process may come later, because it waited in a spool.
fn certainty(workflow: &WorkflowObject) -> u8 {
    match workflow.status {
        _ if workflow.is_finished() => 2,
        Some(Status::Unknown) => 1,
        _ => 0,
    }
}

/// Returns whether two records can be from the same process. A record without a process id or host
/// name matches any.
fn is_one_process(one: &WorkflowObject, other: &WorkflowObject) -> bool {
    one.pid.zip(other.pid).is_none_or(|(one, other)| one == other)
        && one
            .hostname
            .as_ref()
            .zip(other.hostname.as_ref())
            .is_none_or(|(one, other)| one == other)
}

/// Joins the records of all processes of a workflow into one.
///
/// The process that started first decides the status: how a child process ended is not how the
/// workflow ended. Totals are summed over the processes, and failed processes are counted.
pub fn speak_as_one(mut processes: Vec<WorkflowObject>) -> Option<WorkflowObject> {
    let start = |workflow: &WorkflowObject| workflow.started_at.unwrap_or(f64::INFINITY);
    processes.sort_by(|one, other| start(one).total_cmp(&start(other)));
    let mut processes = processes.into_iter();
    let mut first = processes.next()?;
    let is_finished = first.is_finished();
    let mut failed: u64 = 0;
    for mut other in processes {
        failed += u64::from(other.has_failed());
        (other.error, other.stderr, other.exit_code, other.ended_by) = (None, None, None, None);
        if let Some(reasons) = &mut other.unavailable {
            // What another process lost counts for the workflow. Its other reasons concern only
            // that process.
            reasons.retain(|name, _| name == "totals");
        }
        if let (Some(totals), Some(more)) = (&mut first.totals, other.totals.take()) {
            add(totals, more);
        }
        if let (Some(machines), Some(more)) = (&mut first.machine_info, other.machine_info.take()) {
            for (id, machine) in more {
                machines.entry(id).or_insert(machine);
            }
        }
        if !is_finished {
            // The workflow has not ended, even if the other processes have.
            (other.ended_at, other.duration_ns, other.ended_early) = (None, None, None);
        }
        first.fill_from(other);
    }
    if failed > 0 {
        let totals = first.totals.get_or_insert_default();
        totals.insert("failed_processes".to_owned(), failed.into());
    }
    Some(first)
}

/// Sums whole numbers at every level. Other values stay those of the first.
fn add(totals: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (totals.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => add(inner, more),
            (Some(Value::Number(sum)), Value::Number(number)) => {
                if let (Some(one), Some(other)) = (sum.as_u64(), number.as_u64()) {
                    *sum = one.saturating_add(other).into();
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                totals.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: Status) -> WorkflowObject {
        WorkflowObject {
            workflow_id: "w".to_owned(),
            status: Some(status),
            ..WorkflowObject::default()
        }
    }

    #[test]
    fn the_surest_record_of_a_process_wins_in_any_order() {
        use Status::{Finished, Running, Unknown};
        for (statuses, expected) in [
            ([Running, Unknown], Unknown),
            ([Unknown, Running], Unknown),
            ([Running, Finished], Finished),
            ([Finished, Running], Finished),
            ([Unknown, Finished], Finished),
            ([Finished, Unknown], Finished),
        ] {
            let mut workflows = Workflows::default();
            statuses.into_iter().map(record).for_each(|record| workflows.add(record));
            let joined = workflows.joined();
            assert_eq!(joined[0].status, Some(expected), "{statuses:?}");
        }
    }
}
