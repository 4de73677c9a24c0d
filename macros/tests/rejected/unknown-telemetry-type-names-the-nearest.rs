use runlore::telemetry_task;

#[telemetry_task(telemetry(cpu, memory))]
fn long() {}

#[telemetry_task(telemetry = (net, colour))]
fn stranger() {}

#[telemetry_task(telemetry = "lihgt")]
fn level() {}

#[telemetry_task(telemetry = cpu)]
fn word() {}

#[telemetry_task(telemetry)]
fn nothing() {}

fn main() {}
