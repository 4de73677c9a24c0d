#![deny(dead_code)]

use runlore::telemetry_task;

#[telemetry_task]
fn never_called() {}

fn main() {}
