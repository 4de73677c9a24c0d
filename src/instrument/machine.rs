//! What a workflow's record says of the machine.

use std::time::Duration;

use serde_json::{Map, Value};

use super::meter;
use crate::pipeline;
use crate::pipeline::KnownLater;
use runlore_core::settings::Settings;
use runlore_telemetry::MachineInfo;

/// How long the start of a workflow waits for the drivers of graphics processors: as long as a task does.
const PATIENCE: Duration = Duration::from_millis(20);

/// What the machine is, under a name of the process: a workflow may run in several, on several machines. What its drivers
/// have not told by then is added to the workflow's last record.
pub(super) fn info(
    settings: &Settings,
    hostname: &str,
) -> (Option<Map<String, Value>>, Option<KnownLater>) {
    if !settings.telemetry_capture.machine_info {
        return (None, None);
    }
    let name = format!("{hostname}-{}", std::process::id());
    let machine = MachineInfo::capture(&settings.telemetry_capture);
    let machine = machine.with_crates(pipeline::annotated_crates());
    let Some(gpu) = meter::gpu_info(PATIENCE) else {
        return (named(&name, &machine), None);
    };
    let is_late = gpu.is_err();
    let machine = machine.with_gpu(gpu);
    let now = named(&name, &machine);
    let known_later = is_late.then(|| -> KnownLater {
        Box::new(move |workflow| {
            if let Some(gpu) = meter::gpu_info(Duration::ZERO) {
                workflow.machine_info = named(&name, &machine.with_gpu(gpu));
            }
        })
    });
    (now, known_later)
}

fn named(name: &str, machine: &MachineInfo) -> Option<Map<String, Value>> {
    Some(Map::from_iter([(name.to_owned(), serde_json::to_value(machine).ok()?)]))
}
