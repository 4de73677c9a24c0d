//! The machine and the user, looked at once a process.

use std::sync::OnceLock;
use std::time::Duration;

use super::record::System;
use crate::host;
use crate::settings::Settings;
use crate::telemetry::{MachineInfo, TelemetryCapture, TelemetryType, Types};

/// How long a driver of graphics processors may take to say what there is.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let settings = &Settings::default().telemetry_capture;
        let machine = MachineInfo::capture(settings);
        let gpus = TelemetryCapture::new(Types::from([TelemetryType::Gpu])).gpu_info(PATIENCE);
        let gpu_model =
            gpus.as_ref().ok().and_then(|info| info.devices.values().find_map(|gpu| gpu.name.clone()));
        System {
            cpu: machine.cpu.brand_raw,
            gpu_present: Some(gpus.is_ok_and(|info| !info.devices.is_empty())),
            gpu_model,
            memory_total: machine.memory.virtual_memory.total,
            user: machine.login_name.or_else(host::user),
            ..System::default()
        }
    })
}
