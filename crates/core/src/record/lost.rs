//! Counts of tasks without a record.

use std::fmt;

use super::WorkflowObject;
use super::shown::counted;

/// The tasks of a run that have no record. Created by [`WorkflowObject::lost`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The number of tasks that were dropped.
    pub dropped: u64,
    /// The number of tasks that the store refused and keeps separately.
    pub refused: u64,
    /// Why the number of further lost tasks is unknown.
    pub unknown: Option<String>,
}

impl Lost {
    /// Sums the lost tasks of several runs. `None` if no run lost any.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a WorkflowObject>) -> Option<Self> {
        runs.into_iter().filter_map(WorkflowObject::lost).reduce(|mut sum, more| {
            sum.dropped = sum.dropped.saturating_add(more.dropped);
            sum.refused = sum.refused.saturating_add(more.refused);
            sum.unknown = sum.unknown.or(more.unknown);
            sum
        })
    }

    /// Returns how many tasks are known to be lost.
    pub fn tasks(&self) -> u64 {
        self.dropped.saturating_add(self.refused)
    }

    /// Formats the number for a table: `12`, `unknown`, or `12 or more`.
    pub fn number(&self) -> String {
        match (self.tasks(), &self.unknown) {
            (0, Some(_)) => "unknown".to_owned(),
            (tasks, Some(_)) => format!("{tasks} or more"),
            (tasks, None) => tasks.to_string(),
        }
    }
}

/// Describes each kind of loss in a clause of its own.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.dropped > 0 {
            let (tasks, were) = (counted(self.dropped, "task", "tasks"), was(self.dropped));
            parts.push(format!("{tasks} {were} dropped and have no record"));
        }
        if self.refused > 0 {
            let (tasks, were) = (counted(self.refused, "task", "tasks"), was(self.refused));
            parts.push(format!("{tasks} {were} refused by the store and kept apart"));
        }
        if let Some(reason) = &self.unknown {
            let more = if parts.is_empty() { "" } else { "more " };
            parts.push(format!("how many {more}tasks were lost is unknown ({reason})"));
        }
        f.write_str(&parts.join("; "))
    }
}

fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

impl WorkflowObject {
    /// Returns the lost tasks of this run. `None` if no task was lost.
    pub fn lost(&self) -> Option<Lost> {
        let lost =
            Lost {
                dropped: self.total("dropped"),
                refused: self.total("refused"),
                unknown: self.unavailable.as_ref().and_then(|it| it.get("totals")).map(|reason| {
                    reason.as_str().map_or_else(|| reason.to_string(), str::to_owned)
                }),
            };
        (lost != Lost::default()).then_some(lost)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(fields: Value) -> WorkflowObject {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn what_was_lost_is_summed_up_over_runs() {
        assert_eq!(run(json!({"totals": {"dropped": 0, "overflowed": 7}})).lost(), None);
        let runs = [
            run(json!({"totals": {"dropped": 1}})),
            run(json!({"totals": {"dropped": 2, "refused": 1}})),
        ];
        let lost = Lost::of(&runs).unwrap();
        assert_eq!((lost.tasks(), &*lost.number()), (4, "4"));
        let told = "3 tasks were dropped and have no record; 1 task was refused by the store and kept apart";
        assert_eq!(lost.to_string(), told);
        let killed =
            run(json!({"unavailable": {"totals": "the process was killed"}})).lost().unwrap();
        assert_eq!(killed.number(), "unknown");
        assert_eq!(
            killed.to_string(),
            "how many tasks were lost is unknown (the process was killed)"
        );
    }
}
