//! Summarises a training run in a few lines: losses, epochs, batches, time spent waiting for data,
//! and slowest layers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use runlore_core::record::TaskObject;
use runlore_core::text::human_duration;

/// The maximum number of layers to show.
const MOST_LAYERS: usize = 8;
/// The activity of an epoch.
const EPOCH: &str = "epochs_loop_iteration";
/// The width of a curve in characters.
const CURVE: usize = 24;

/// A summary of a training, to be printed at its end.
///
/// ```
/// use runlore::ml::Summary;
/// # let store = runlore::store::MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start()?;
/// # for epoch in run.epochs(0..2) {
/// #     for (step, loss) in epoch.batches("train", [1.0, 0.5]) { step.generated("loss", loss); }
/// # }
/// run.finish()?;
/// println!("{}", Summary::of(&store.tasks()));
/// # assert!(Summary::of(&store.tasks()).to_string().contains("train loss"));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    curves: Vec<(String, Vec<f64>)>,
    epochs: Durations,
    batches: Durations,
    waits: Durations,
    layers: Vec<LayerTime>,
}

/// Statistics of repeated durations.
#[derive(Debug, Clone, PartialEq, Default)]
struct Durations {
    count: u32,
    sum: Duration,
    longest: Duration,
    /// A description of the longest one.
    slowest: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct LayerTime {
    name: String,
    module: Option<String>,
    passes: u32,
    sum: Duration,
}

impl Durations {
    fn add(&mut self, duration: Duration, which: impl FnOnce() -> String) {
        if self.count == 0 || duration > self.longest {
            (self.longest, self.slowest) = (duration, which());
        }
        self.count += 1;
        self.sum += duration;
    }

    fn mean(&self) -> Duration {
        self.sum.checked_div(self.count).unwrap_or_default()
    }
}

impl Summary {
    /// Summarises these tasks. They must belong to one run, and can be in any order.
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a TaskObject>) -> Self {
        let mut tasks: Vec<&TaskObject> = tasks.into_iter().collect();
        tasks.sort_by(|one, other| {
            one.started_at.partial_cmp(&other.started_at).unwrap_or(std::cmp::Ordering::Equal)
        });
        let epochs: HashMap<&str, &TaskObject> = tasks
            .iter()
            .filter(|task| task.name() == EPOCH)
            .map(|task| (&*task.task_id, *task))
            .collect();
        let mut summary = Self::default();
        let mut layers: BTreeMap<(String, Option<String>), LayerTime> = BTreeMap::new();
        for task in tasks {
            let duration = task.duration().unwrap_or_default();
            let name = task.name();
            match task.subtype.as_deref() {
                Some("iteration") if name == EPOCH => {
                    summary.epochs.add(duration, || epoch(task));
                    summary.note_losses(task, "");
                }
                Some("iteration") => {
                    if let Some(name) = name.strip_suffix("_batch_iteration") {
                        let around = task.parent_task_id.as_deref();
                        let around = around.and_then(|id| epochs.get(id)).copied();
                        summary.batches.add(duration, || batch(task, name, around));
                        summary.note_losses(task, name);
                        summary.waits.add(wait(task), || batch(task, name, around));
                    }
                }
                // A framework with loops of its own records losses separately from its batches.
                Some("metrics") => {
                    let of = name.strip_suffix("_metrics").unwrap_or(name).replace('_', " ");
                    summary.note_losses(task, &of);
                }
                Some("child_forward") => {
                    let module = metadata(task, "module").and_then(|it| it.as_str());
                    let key = (name.to_owned(), module.map(str::to_owned));
                    let layer = layers.entry(key.clone()).or_default();
                    (layer.name, layer.module) = key;
                    layer.passes += 1;
                    layer.sum += duration;
                }
                _ => {}
            }
        }
        summary.layers = layers.into_values().collect();
        summary.layers.sort_by_key(|layer| std::cmp::Reverse(layer.sum));
        summary
    }

    /// Adds each number whose name contains `loss` to a curve.
    fn note_losses(&mut self, task: &TaskObject, of: &str) {
        let given = task.generated.iter().flatten();
        for (name, value) in given.filter(|(name, _)| name.to_lowercase().contains("loss")) {
            let Some(value) = value.as_f64() else { continue };
            let name = format!("{of} {name}").trim().to_owned();
            match self.curves.iter_mut().find(|(known, _)| *known == name) {
                Some((_, curve)) => curve.push(value),
                None => self.curves.push((name, vec![value])),
            }
        }
    }
}

/// Describes an epoch by the loop's item, which need not be a number.
fn epoch(task: &TaskObject) -> String {
    match task.used.as_ref().and_then(|used| used.get("epoch").or(used.get("i"))) {
        Some(serde_json::Value::String(name)) => format!("epoch {name}"),
        Some(number) => format!("epoch {number}"),
        None => "an epoch".to_owned(),
    }
}

/// Describes a batch by its index in the loop and its epoch.
fn batch(task: &TaskObject, split: &str, around: Option<&TaskObject>) -> String {
    let number = task.used.as_ref().and_then(|used| used.get("i"));
    let number = number.map_or_else(String::new, |number| format!(" {number}"));
    let around = around.map(|task| format!(" of {}", epoch(task))).unwrap_or_default();
    format!("{split} batch{number}{around}")
}

fn metadata<'a>(task: &'a TaskObject, name: &str) -> Option<&'a serde_json::Value> {
    task.custom_metadata.as_ref()?.get(name)
}

fn wait(task: &TaskObject) -> Duration {
    let waited = metadata(task, "wait_ns").and_then(serde_json::Value::as_u64);
    Duration::from_nanos(waited.unwrap_or(0))
}

/// Draws the values as bars, first to last. Each bar is the mean of enough values to fit the width.
fn bars(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let size = values.len().div_ceil(CURVE).max(1);
    let means: Vec<f64> =
        values.chunks(size).map(|some| some.iter().sum::<f64>() / some.len() as f64).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let height = |value: f64| match (value - least) / (most - least) {
        share if share.is_finite() => (share * 7.0).round() as usize,
        _ => 0,
    };
    means.into_iter().map(|mean| BARS[height(mean).min(7)]).collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { curves, epochs, batches, waits, layers } = self;
        let in_layers: Duration = layers.iter().map(|layer| layer.sum).sum();
        for (name, curve) in curves {
            let (Some(first), Some(last)) = (curve.first(), curve.last()) else { continue };
            writeln!(f, "{name:<16} {first:.4} {} {last:.4}", bars(curve))?;
        }
        for (name, what) in [("epochs", epochs), ("batches", batches)] {
            if what.count > 0 {
                let (count, mean, longest) =
                    (what.count, human_duration(what.mean()), human_duration(what.longest));
                let slowest = &what.slowest;
                writeln!(f, "{name:<16} {count}, {mean} each, the longest {longest} ({slowest})")?;
            }
        }
        if waits.sum > Duration::ZERO {
            let all = (waits.sum + batches.sum).as_secs_f64();
            let percent = waits.sum.as_secs_f64() / all * 100.0;
            let (sum, longest) = (human_duration(waits.sum), human_duration(waits.longest));
            writeln!(
                f,
                "{:<16} {sum}, {percent:.1} % of the time, the longest {longest} ({})",
                "waiting for data", waits.slowest
            )?;
        }
        for (index, layer) in layers.iter().take(MOST_LAYERS).enumerate() {
            let title = if index == 0 { "slowest layers" } else { "" };
            let share = layer.sum.as_secs_f64() / in_layers.as_secs_f64().max(f64::MIN_POSITIVE);
            let (module, passes) = (layer.module.as_deref().unwrap_or(""), layer.passes);
            let (name, sum) = (&layer.name, human_duration(layer.sum));
            writeln!(
                f,
                "{title:<16} {name:<12} {module:<12} {sum:>9}  {:>5.1} %  {passes} passes",
                share * 100.0
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(fields: serde_json::Value) -> TaskObject {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_run_is_told_in_a_few_lines() {
        let mut tasks = Vec::new();
        for at in 0..4_u32 {
            let start = 10.0 + f64::from(at);
            let loss = 1.0 / f64::from(at + 1);
            tasks.push(task(json!({
                "task_id": format!("b{at}"), "activity_id": "train_batch_iteration",
                "parent_task_id": "e", "used": {"i": at % 3, "batch": at % 3}, "subtype": "iteration", "started_at": start, "duration_ns": 8_000_000 + at * 1_000_000,
                "generated": {"loss": loss}, "custom_metadata": {"wait_ns": 1_000_000},
            })));
            for (name, module, ns) in [("fc1", "Linear", 3_000_000), ("act", "Relu", 1_000_000)] {
                tasks.push(task(json!({
                    "task_id": format!("{name}{at}"), "activity_id": name, "subtype": "child_forward",
                    "started_at": start, "duration_ns": ns, "custom_metadata": {"module": module},
                })));
            }
        }
        tasks.push(task(json!({
            "task_id": "e", "activity_id": "epochs_loop_iteration", "subtype": "iteration",
            "used": {"i": 4, "epoch": 5},
            "started_at": 10.0, "duration_ns": 50_000_000, "generated": {"val_loss": 0.4},
        })));
        tasks.push(task(json!({
            "task_id": "m", "activity_id": "valid_epoch_metrics", "subtype": "metrics",
            "started_at": 10.0, "duration_ns": 1_000, "generated": {"Loss": 0.3},
        })));
        tasks.reverse();
        let summary = "valid epoch Loss 0.3000 ▁ 0.3000
val_loss         0.4000 ▁ 0.4000
train loss       1.0000 █▃▂▁ 0.2500
epochs           1, 50 ms each, the longest 50 ms (epoch 5)
batches          4, 9.5 ms each, the longest 11 ms (train batch 0 of epoch 5)
waiting for data 4 ms, 9.5 % of the time, the longest 1 ms (train batch 0 of epoch 5)
slowest layers   fc1          Linear           12 ms   75.0 %  4 passes
                 act          Relu              4 ms   25.0 %  4 passes";
        assert_eq!(Summary::of(&tasks).to_string().trim_end(), summary);
    }

    #[test]
    fn curves_bear_any_value() {
        assert_eq!(bars(&[]), "");
        assert_eq!(bars(&[f64::NAN]), "");
        assert_eq!(bars(&[2.0, 2.0]), "▁▁");
        assert_eq!(bars(&[0.0, f64::INFINITY, 7.0]), "▁█");
        assert_eq!(bars(&vec![1.0; 1000]).chars().count(), 24);
        assert_eq!(Summary::of(&[]).to_string(), "");
    }
}
