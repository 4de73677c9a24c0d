//! Metrics of `SupervisedTraining`, joined to the batches they are of.

use std::collections::HashMap;
use std::fmt;

use burn::train::logger::{InMemoryMetricLogger, MetricLogger, TrainingProgressLogger};
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use runlore::task;
use runlore::telemetry::TelemetryChoice;

use crate::loader::Training;

/// A logger for `SupervisedTraining::with_metric_logger`: the metrics of each batch become a small task below it, `train_metrics` or
/// `valid_metrics`, found by epoch and iteration, because burn tells them late and on another thread. Those of a whole epoch become
/// `train_epoch_metrics` or `valid_epoch_metrics` below that. Where no such batch was recorded they are below the epoch, else below the run.
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
    /// Burn's number of an epoch, and how many had begun with it.
    first: Option<(usize, usize)>,
    /// The last update, of which only the next call tells whether it is of a batch or of the whole epoch.
    last: Option<Update>,
    /// The epoch and split of the last update, and how many of their batches were heard of.
    heard: (usize, String, usize),
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
            first: None,
            last: None,
            heard: (0, String::new(), 0),
            kept: InMemoryMetricLogger::new(),
        }
    }
}

/// What burn told at once.
struct Update {
    epoch: usize,
    split: String,
    values: Vec<(String, f64)>,
}

fn value(entry: &NumericEntry) -> f64 {
    match entry {
        NumericEntry::Value(value) | NumericEntry::Final(value) => *value,
        NumericEntry::Aggregated { aggregated_value, .. } => *aggregated_value,
    }
}

impl TrainingLogger {
    /// The last update was of a batch: another one follows.
    fn record_batch(&mut self) {
        let Some(update) = self.last.take() else { return };
        if self.heard.0 != update.epoch || self.heard.1 != update.split {
            self.heard = (update.epoch, update.split.clone(), 0);
        }
        self.heard.2 += 1;
        self.record(&format!("{}_metrics", update.split), &update, Some(self.heard.2));
    }

    fn record(&self, name: &str, update: &Update, iteration: Option<usize>) {
        let Update { epoch, split, values } = update;
        let (number, begun) = self.first.unwrap_or((*epoch, 0));
        let place = self.training.place(split, (begun + epoch).saturating_sub(number), iteration);
        if values.is_empty() {
            return;
        }
        place.run(|| {
            let mut metrics = task(name)
                .subtype("metrics")
                .used("epoch", epoch)
                .used("iteration", iteration)
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
        self.record_batch();
        // The first update comes before burn can be done with its epoch.
        self.first.get_or_insert_with(|| (epoch, self.training.number(epoch)));
        let numeric = update.entries_numeric.iter().filter_map(|update| {
            let entry = update.numeric_entry.as_ref()?;
            Some((self.names.get(&update.entry.metric_id)?.clone(), value(entry)))
        });
        self.last = Some(Update { epoch, split: split.to_string(), values: numeric.collect() });
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
        if let Some(update) = self.last.take() {
            self.record(&format!("{}_epoch_metrics", update.split), &update, None);
        }
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

/// A training that panics ends no epoch.
impl Drop for TrainingLogger {
    fn drop(&mut self) {
        self.record_batch();
    }
}

impl fmt::Debug for TrainingLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrainingLogger").field("heard", &self.heard).finish_non_exhaustive()
    }
}
