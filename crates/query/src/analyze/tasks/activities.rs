//! The time of a run by activity, and how much of it was spent waiting.

use serde::Serialize;

use super::path::CriticalPath;
use super::rows::Rows;
use crate::analyze::finding::{Finding, Place, Severity, Window};
use crate::analyze::kind::Kind;
use crate::analyze::text::{duration, percent};
use crate::analyze::thresholds::Thresholds;
use runlore_core::text::thousands;

/// The times of all tasks of one activity.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ActivityTime {
    /// The name of the activity.
    pub activity_id: String,
    /// The number of its tasks.
    pub tasks: u64,
    /// The sum of their durations, including the tasks they called.
    pub total_ns: u64,
    /// The sum of their own time, excluding the tasks they called.
    pub own_ns: u64,
    /// How much of the critical path is their own time.
    pub on_path_ns: u64,
    /// The duration of the longest task.
    pub max_ns: u64,
    /// Their CPU time. `None` if no task recorded it.
    pub cpu_ns: Option<u64>,
    /// How much of their own time was not spent on a processor. Covers the tasks that recorded CPU
    /// time.
    pub off_cpu_ns: Option<u64>,
    /// How long they were ready before they started.
    pub queued_ns: u64,
    /// How long they waited for their data before they started.
    pub data_wait_ns: u64,
    /// The time from the start of the first task to the end of the last.
    pub window: Option<Window>,
}

/// Sums the times by activity. `captures` is the time that captures took within each task's own
/// time, which must not count as waiting.
pub(super) fn times(
    rows: &Rows,
    own: &[Vec<Window>],
    captures: &[u64],
    path: &CriticalPath,
) -> Vec<ActivityTime> {
    let mut all: Vec<ActivityTime> = (0..rows.activities())
        .map(|number| ActivityTime {
            activity_id: rows.activity(number).to_owned(),
            on_path_ns: path.by_activity.get(rows.activity(number)).copied().unwrap_or(0),
            ..ActivityTime::default()
        })
        .collect();
    for ((row, own), captures) in rows.iter().zip(own).zip(captures) {
        let activity = &mut all[row.activity];
        let own: u64 = own.iter().copied().map(Window::length_ns).sum();
        activity.tasks += 1;
        if row.is_interrupted {
            continue;
        }
        activity.window =
            Some(activity.window.map_or(row.window(), |known| known.with(row.window())));
        activity.total_ns = activity.total_ns.saturating_add(row.length_ns());
        activity.own_ns = activity.own_ns.saturating_add(own);
        activity.max_ns = activity.max_ns.max(row.length_ns());
        activity.queued_ns = activity.queued_ns.saturating_add(row.queued_ns);
        let waited = row.data_wait_ns.unwrap_or(0);
        activity.data_wait_ns = activity.data_wait_ns.saturating_add(waited);
        if let Some(cpu) = row.cpu_ns {
            let (cpu_sum, off) =
                (activity.cpu_ns.get_or_insert(0), activity.off_cpu_ns.get_or_insert(0));
            *cpu_sum = cpu_sum.saturating_add(cpu);
            *off = off.saturating_add(own.saturating_sub(*captures).saturating_sub(cpu));
        }
    }
    all.sort_by(|one, other| {
        other.own_ns.cmp(&one.own_ns).then_with(|| one.activity_id.cmp(&other.activity_id))
    });
    all
}

pub(super) fn find(
    activities: &[ActivityTime],
    window: Window,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let length = window.length_ns() as f64;
    let mut found = Vec::new();
    for activity in activities {
        let place = Place { activity_id: Some(activity.activity_id.clone()), ..Place::default() };
        let when = activity.window;
        let tasks = match activity.tasks {
            1 => "1 task".to_owned(),
            tasks => format!("{} tasks", thousands(tasks)),
        };
        let share = activity.on_path_ns as f64 / length;
        if share >= thresholds.slow_ratio {
            let what = format!(
                "{} of the critical path are its own: {} in {tasks}",
                percent(share),
                duration(activity.on_path_ns)
            );
            let finding = Finding::new(Kind::SlowActivity, Severity::Info, 1.0, what)
                .with("path_ratio", share)
                .with("on_path_ns", activity.on_path_ns)
                .with("own_ns", activity.own_ns)
                .with("tasks_count", activity.tasks);
            found.push(finding.at(&place, when));
        }
        let off = activity.off_cpu_ns.unwrap_or(0);
        let is_waiting = off as f64 >= thresholds.waiting_min_seconds * 1e9
            && off as f64 >= 0.5 * activity.own_ns as f64
            && (off.min(activity.on_path_ns)) as f64 >= thresholds.waiting_ratio * length;
        if is_waiting {
            let what = format!(
                "{} of its own {} were not at work on a processor",
                duration(off),
                duration(activity.own_ns)
            );
            let finding = Finding::new(Kind::Waiting, Severity::Info, 0.8, what)
                .with("off_cpu_ns", off)
                .with("own_ns", activity.own_ns)
                .with("off_cpu_ratio", off as f64 / activity.own_ns.max(1) as f64);
            found.push(finding.at(&place, when));
        }
        let mean_queued = activity.queued_ns as f64 / activity.tasks.max(1) as f64;
        let mean = activity.total_ns as f64 / activity.tasks.max(1) as f64;
        if activity.queued_ns as f64 >= thresholds.waiting_ratio * length && mean_queued >= mean {
            let what = format!(
                "its tasks were ready for {} on average before they began, and took {}",
                duration(mean_queued as u64),
                duration(mean as u64)
            );
            let finding = Finding::new(Kind::Waiting, Severity::Warning, 1.0, what)
                .with("queued_ns", activity.queued_ns)
                .with("tasks_count", activity.tasks);
            found.push(finding.at(&place, when));
        }
        found.extend(data_loading(activity, &place, when, thresholds));
    }
    found
}

fn data_loading(
    activity: &ActivityTime,
    place: &Place,
    when: Option<Window>,
    thresholds: &Thresholds,
) -> Option<Finding> {
    let all = activity.data_wait_ns.saturating_add(activity.total_ns);
    let ratio = activity.data_wait_ns as f64 / all.max(1) as f64;
    if activity.data_wait_ns == 0 || ratio < thresholds.data_ratio {
        return None;
    }
    let what = format!(
        "its iterations waited for their data for {}, {} of their time",
        duration(activity.data_wait_ns),
        percent(ratio)
    );
    let finding = Finding::new(Kind::DataLoading, Severity::Warning, 1.0, what)
        .with("data_wait_ns", activity.data_wait_ns)
        .with("data_wait_ratio", ratio)
        .with("tasks_count", activity.tasks);
    Some(finding.at(place, when))
}
