//! Metrics of `SupervisedTraining`, joined to the batches they are of.

use std::collections::HashMap;
use std::fmt;

use burn::train::logger::{InMemoryMetricLogger, MetricLogger, TrainingProgressLogger};
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use runlore::telemetry::TelemetryChoice;
use runlore::{Context, task};

use crate::loader::Training;

/// A logger for `SupervisedTraining::with_metric_logger`: the metrics of each batch become a small task below it, `train_metrics` or
/// `valid_metrics`, found by epoch and iteration, because burn tells them late and on another thread. Those that are told once an
/// epoch become `train_epoch_metrics`.
///
/// It may also stand in `with_progress_logger`: it then ends the last epoch when burn says that the training has ended.
///
/// ```
/// # let run = runlore::workflow("doc").store(runlore::store::MemoryStore::new()).start()?;
/// let training = runlore_burn::Training::new(&run);
/// let (metrics, progress) = (training.logger(), training.logger());
/// // SupervisedTraining::new(…).with_metric_logger(metrics).with_progress_logger(progress)
/// # run.finish()?;
/// # Ok::<(), runlore::Error>(())
/// ```
pub struct TrainingLogger {
    training: Training,
    names: HashMap<MetricId, String>,
    /// The epoch and split of the last update, and how many of their batches were heard of.
    last: (usize, String, usize),
    /// Burn reads metrics back from its loggers.
    kept: InMemoryMetricLogger,
}

impl Training {
    /// A logger for the metrics of this training.
    pub fn logger(&self) -> TrainingLogger {
        self.expect_metrics();
        TrainingLogger {
            training: self.clone(),
            names: HashMap::new(),
            last: (0, String::new(), 0),
            kept: InMemoryMetricLogger::new(),
        }
    }
}

fn value(entry: &NumericEntry) -> f64 {
    match entry {
        NumericEntry::Value(value) | NumericEntry::Final(value) => *value,
        NumericEntry::Aggregated { aggregated_value, .. } => *aggregated_value,
    }
}

impl TrainingLogger {
    fn record(
        &self,
        name: &str,
        place: Option<Context>,
        (epoch, iteration): (usize, Option<usize>),
        values: &[(&str, f64)],
    ) {
        // Without a batch there is nothing that the metrics are of.
        let Some(place) = place else { return };
        place.run(|| {
            let mut metrics = task(name)
                .subtype("metrics")
                .used("epoch", &epoch)
                .used("iteration", &iteration)
                .telemetry(TelemetryChoice::None)
                .start();
            for (name, value) in values {
                metrics.generated(name, value);
            }
            metrics.finish();
        });
    }
}

impl MetricLogger for TrainingLogger {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        let name = split.to_string().to_lowercase();
        let numeric = || {
            update.entries_numeric.iter().filter_map(|update| {
                let entry = update.numeric_entry.as_ref()?;
                Some((self.names.get(&update.entry.metric_id)?.as_str(), entry))
            })
        };
        let values = |is_final: bool| -> Vec<(&str, f64)> {
            numeric()
                .filter(|(_, entry)| matches!(entry, NumericEntry::Final(_)) == is_final)
                .map(|(name, entry)| (name, value(entry)))
                .collect()
        };
        let (of_batch, of_epoch) = (values(false), values(true));
        if self.last.0 != epoch || self.last.1 != name {
            self.last = (epoch, name.clone(), 0);
        }
        if !of_batch.is_empty() {
            self.last.2 += 1;
            let iteration = self.last.2;
            let place = self.training.take(&(name.clone(), epoch, iteration));
            self.record(&format!("{name}_metrics"), place, (epoch, Some(iteration)), &of_batch);
        }
        if !of_epoch.is_empty() {
            let place = self.training.epoch(epoch);
            self.record(&format!("{name}_epoch_metrics"), place, (epoch, None), &of_epoch);
        }
        self.kept.log(update, epoch, split);
    }

    fn read_numeric(
        &mut self,
        name: &str,
        epoch: usize,
        split: &Split,
    ) -> Result<Vec<NumericEntry>, String> {
        self.kept.read_numeric(name, epoch, split)
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.names.insert(definition.metric_id.clone(), definition.name.to_string());
        self.kept.log_metric_definition(definition);
    }

    fn log_epoch_summary(&mut self, summary: EpochSummary) {
        self.kept.log_epoch_summary(summary);
    }
}

/// Where epochs and batches begin and end the loaders know better: all of this comes later, from another thread.
impl TrainingProgressLogger for TrainingLogger {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}

    fn update_epoch(&mut self, _: usize) {}

    fn start_split(&mut self, _: &str, _: usize) {}

    fn update_split(&mut self, _: usize) {}

    fn end_split(&mut self) {}

    fn end(&mut self) {
        self.training.finish();
    }

    fn log_event_training(&mut self, _: String) {}
}

impl fmt::Debug for TrainingLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrainingLogger").field("last", &self.last).finish_non_exhaustive()
    }
}
