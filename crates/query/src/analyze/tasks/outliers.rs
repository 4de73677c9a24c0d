//! Tasks that took much longer than others of their activity. They are compared with tasks of the
//! same run, or of earlier runs if there are too few.

use std::collections::HashMap;

use super::rows::Rows;
use crate::analyze::finding::{Finding, Place, Severity, Window};
use crate::analyze::kind::Kind;
use crate::analyze::math::Robust;
use crate::analyze::text::{duration, percent};
use crate::analyze::thresholds::Thresholds;
use crate::provenance::Provenance;
use crate::query::field;
use runlore_core::Result;
use runlore_core::record::{Status, WorkflowObject};
use runlore_core::runs::RunSummary;

/// The minimum number of tasks needed to know what is usual.
const FEWEST: usize = 8;
/// The maximum number of outliers to report.
const MOST: usize = 10;
/// The maximum number of earlier runs to read, and of tasks per activity.
const RUNS: usize = 10;
const TASKS: usize = 1000;

/// Durations in earlier runs of the same name, for activities with too few tasks in this run.
#[derive(Debug, Default)]
pub(super) struct History {
    durations: HashMap<String, Vec<f64>>,
}

/// Returns the ids of the last runs with this name that started before a time, newest first.
/// `runs` are all runs of the store, oldest first, if they are known.
fn earlier_runs(
    records: &Provenance,
    runs: Option<&[RunSummary]>,
    name: &str,
    before: f64,
) -> Result<Vec<String>> {
    let Some(runs) = runs else {
        let earlier = field("name").eq(name).and(field("started_at").lt(before));
        let runs = records.workflows().filter(earlier).sort("-started_at").limit(RUNS as u64);
        let runs = runs.only(["workflow_id"]).to_vec()?;
        return Ok(runs.into_iter().map(|run| run.workflow_id).collect());
    };
    let is_earlier = |run: &&WorkflowObject| {
        let is_before = run.started_at.is_some_and(|started| started < before);
        is_before && run.name.as_deref() == Some(name)
    };
    let earlier = runs.iter().rev().map(|run| &run.workflow).filter(is_earlier);
    Ok(earlier.take(RUNS).map(|run| run.workflow_id.clone()).collect())
}

impl History {
    pub(super) fn read(
        records: &Provenance,
        runs: Option<&[RunSummary]>,
        workflow: Option<&WorkflowObject>,
        rows: &Rows,
    ) -> Result<Self> {
        let mut history = Self::default();
        let mut counts = vec![0_usize; rows.activities()];
        for row in rows.iter() {
            counts[row.activity] += 1;
        }
        let few = counts.iter().enumerate().filter(|(_, count)| **count < FEWEST);
        let few: Vec<String> = few.map(|(number, _)| rows.activity(number).to_owned()).collect();
        let named = workflow.and_then(|run| Some((run.name.as_deref()?, run.started_at?)));
        let Some((name, started_at)) = named.filter(|_| !few.is_empty()) else {
            return Ok(history);
        };
        let ids = earlier_runs(records, runs, name, started_at)?;
        if ids.is_empty() {
            return Ok(history);
        }
        let of_runs = field("workflow_id").is_in(ids).and(field("activity_id").is_in(few));
        let fields = ["task_id", "activity_id", "duration_ns", "status"];
        for task in records.tasks().filter(of_runs).only(fields).loosely().run()? {
            let task = task?;
            let (Some(activity), Some(took)) = (task.activity_id, task.duration_ns) else {
                continue;
            };
            let known = history.durations.entry(activity).or_default();
            if task.status == Some(Status::Finished) && known.len() < TASKS {
                known.push(took as f64);
            }
        }
        Ok(history)
    }
}

pub(super) fn find(
    rows: &Rows,
    history: &History,
    window: Window,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut durations: Vec<Vec<f64>> = vec![Vec::new(); rows.activities()];
    for row in rows.iter().filter(|row| !row.is_open) {
        durations[row.activity].push(row.length_ns() as f64);
    }
    let usual: Vec<Option<(Robust, bool)>> = durations
        .iter()
        .enumerate()
        .map(|(number, durations)| {
            let earlier = history.durations.get(rows.activity(number));
            match durations.len() >= FEWEST {
                true => Some((Robust::of(durations), false)),
                false => earlier
                    .filter(|earlier| earlier.len() >= FEWEST)
                    .map(|earlier| (Robust::of(earlier), true)),
            }
        })
        .collect();
    let mut found: Vec<(f64, usize)> = Vec::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_interrupted) {
        let Some((usual, _)) = &usual[row.activity] else { continue };
        let took = row.length_ns() as f64;
        // If all usual durations are equal, the score is always 0, so any other duration is far.
        let is_far = usual.score(took) >= thresholds.outlier_score || usual.is_flat();
        if is_far
            && took >= usual.median() * thresholds.outlier_factor
            && took >= thresholds.outlier_min_seconds * 1e9
        {
            found.push((took - usual.median(), at));
        }
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let left_out = found.len().saturating_sub(MOST);
    let told = found.into_iter().take(MOST).filter_map(|(excess, at)| {
        let row = rows.get(at);
        let (usual, is_earlier) = usual[row.activity].as_ref()?;
        let took = row.length_ns() as f64;
        let share = excess / window.length_ns() as f64;
        let severity = if share >= 0.05 { Severity::Warning } else { Severity::Info };
        let of = if *is_earlier { " in earlier runs" } else { "" };
        let what = format!(
            "it took {}, where {} are usual{of}: {} of the run",
            duration(row.length_ns()),
            duration(usual.median() as u64),
            percent(took / window.length_ns() as f64)
        );
        let place = Place {
            activity_id: Some(rows.activity(row.activity).to_owned()),
            task_id: Some(row.task_id.clone()),
            host: rows.host(row.process),
            ..Place::default()
        };
        let score = usual.score(took);
        let finding =
            Finding::new(Kind::Outlier, severity, score / (2.0 * thresholds.outlier_score), what)
                .with("duration_ns", row.length_ns())
                .with("usual_ns", usual.median())
                .with("robust_zscore", score)
                .with("other_outliers_count", left_out);
        Some(finding.at(&place, Some(row.window())))
    });
    told.collect()
}
