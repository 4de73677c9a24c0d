//! The report as one JSON object. `docs/telemetry.md` describes its fields.

use std::path::PathBuf;
use std::time::Duration;

use runlore::Spooled;
use runlore::telemetry::{Sensor, SensorState};
use serde_json::{Map, Value, json};

use super::{Asked, Report};
use crate::replay::as_json;

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
        "stores": report.stores.iter().map(store).collect::<Vec<_>>(),
        "spools": report.spooled.iter().map(spool).collect::<Vec<_>>(),
        "unreadable": report.unreadable,
        "sensors": report.sensors.iter().map(sensor).collect::<Vec<_>>(),
        "findings": report.findings().map(|sensor| &sensor.field).collect::<Vec<_>>(),
    })
}

fn store(asked: &Asked) -> Value {
    let mut told = json!({"path": asked.store.display().to_string(), "exists": asked.exists});
    if asked.exists.is_none() {
        told["answers"] = asked.runs.as_ref().is_some_and(Result::is_ok).into();
    }
    match &asked.runs {
        Some(Ok(runs)) => told["runs"] = (*runs).into(),
        Some(Err(why)) => told["reason"] = why.as_str().into(),
        None => {}
    }
    if !asked.problems.is_empty() {
        told["problems"] = asked.problems.clone().into();
    }
    told
}

fn spool((folder, spooled): &(PathBuf, Spooled)) -> Value {
    let mut told = as_json(spooled);
    told["folder"] = folder.display().to_string().into();
    told
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
