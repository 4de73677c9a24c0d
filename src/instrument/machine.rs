//! Adds information about the machine to a workflow's record.

use std::time::Duration;

use serde_json::{Map, Value};

use super::meter;
use crate::pipeline;
use crate::pipeline::KnownLater;
use runlore_core::settings::Settings;
use runlore_telemetry::MachineInfo;

/// How long the start of a workflow waits for GPU drivers: as long as a task does.
const PATIENCE: Duration = Duration::from_millis(20);

/// Returns information about the machine, keyed by the process: a workflow may run in several
/// processes on several machines. If the GPU drivers have not answered yet, the second value adds
/// their answer to the workflow's last record.
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
