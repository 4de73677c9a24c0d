//! Summarises emitted records.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Emitted;

/// Counts and statistics over records.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The number of records.
    pub total_records: u64,
    /// The share of completed records among the completed and failed ones, 0 to 1. `None` if there
    /// are none of either.
    pub success_rate: Option<f64>,
    /// The share of completed records among all records, 0 to 1. Cloudmesh calls this the success
    /// rate.
    pub completed_share: Option<f64>,
    /// The number of records per status.
    pub status_distribution: BTreeMap<String, u64>,
    /// The number of records per command.
    pub command_distribution: BTreeMap<String, u64>,
    /// Statistics of each numeric metric.
    pub metrics: BTreeMap<String, MetricSummary>,
}

/// Statistics of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MetricSummary {
    /// The number of values.
    pub count: u64,
    /// The mean.
    pub avg: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises records.
    pub fn of(records: impl IntoIterator<Item = Emitted>) -> Self {
        let mut summary = Self::default();
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for record in records {
            summary.total_records += 1;
            *summary.status_distribution.entry(record.status.clone()).or_default() += 1;
            *summary.command_distribution.entry(record.command.clone()).or_default() += 1;
            for (name, value) in record.numbers() {
                let metric = summary.metrics.entry(name.to_owned()).or_insert(MetricSummary {
                    count: 0,
                    avg: 0.0,
                    min: value,
                    max: value,
                });
                metric.count += 1;
                metric.min = metric.min.min(value);
                metric.max = metric.max.max(value);
                *sums.entry(name.to_owned()).or_default() += value;
            }
        }
        for (name, metric) in &mut summary.metrics {
            metric.avg = sums[name] / metric.count as f64;
        }
        let of = |status: &str| summary.status_distribution.get(status).copied().unwrap_or(0);
        let (completed, failed) = (of("completed"), of("failed"));
        let share = |all: u64| (all > 0).then(|| completed as f64 / all as f64);
        (summary.success_rate, summary.completed_share) =
            (share(completed + failed), share(summary.total_records));
        summary
    }
}
