//! The report as one JSON object; `docs/telemetry.md` tells what it holds.

use std::time::Duration;

use runlore::Spooled;
use runlore::telemetry::{Sensor, SensorState};
use serde_json::{Map, Value, json};

use super::Report;

pub(super) fn of(report: &Report<'_>) -> Value {
    let types = report.types.iter().map(|(one, cost)| {
        let about = json!({
            "enabled": report.enabled.contains(*one),
            "cost_ns": nanoseconds(*cost),
        });
        (one.name().to_owned(), about)
    });
    json!({
        "settings": {"files": report.loaded.files().collect::<Vec<_>>()},
        "types": types.collect::<Map<_, _>>(),
        "cost_ns": {
            "enabled": nanoseconds(report.cost),
            "all": nanoseconds(report.cost_of_all),
        },
        "machine_info": {
            "enabled": report.loaded.settings.telemetry_capture.machine_info,
            "cost_ns": nanoseconds(report.cost_of_machine),
        },
        "machine": report.machine,
        "store": store(report),
        "spools": report.spooled.iter().map(spool).collect::<Vec<_>>(),
        "sensors": report.sensors.iter().map(sensor).collect::<Vec<_>>(),
        "findings": report.findings().map(|sensor| &sensor.field).collect::<Vec<_>>(),
    })
}

fn store(report: &Report<'_>) -> Value {
    let mut told = json!({
        "path": report.store.display().to_string(),
        "exists": report.store.path().map(|path| path.exists()),
    });
    if let Some(server) = &report.server {
        told["answers"] = server.runs.is_ok().into();
        match &server.runs {
            Ok(runs) => told["runs"] = (*runs).into(),
            Err(why) => told["reason"] = why.as_str().into(),
        }
        told["problems"] = server.problems.clone().into();
    }
    told
}

fn spool(spooled: &Spooled) -> Value {
    json!({
        "workflow_id": spooled.workflow_id, "store": spooled.store, "bytes": spooled.bytes,
    })
}

fn sensor(sensor: &Sensor) -> Value {
    let mut told = json!({
        "field": sensor.field,
        "type": sensor.telemetry_type.name(),
        "unit": sensor.unit,
        "source": sensor.source,
        "cost_ns": sensor.cost.map(nanoseconds),
    });
    match &sensor.state {
        SensorState::Value(value) => told["value"] = value.clone(),
        SensorState::Missing { reason, advice, is_expected } => {
            told["reason"] = reason.as_str().into();
            told["advice"] = (*advice).into();
            if *is_expected {
                told["expected"] = true.into();
            }
        }
        _ => {}
    }
    told
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
