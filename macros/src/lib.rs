//! The `#[telemetry_task]` attribute.
