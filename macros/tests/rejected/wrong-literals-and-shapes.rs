use runlore::telemetry_task;

#[telemetry_task(name = 5)]
fn number() {}

#[telemetry_task(name("x"))]
fn called() {}

#[telemetry_task(name = "")]
fn empty() {}

#[telemetry_task(tags = "x")]
fn assigned() {}

#[telemetry_task(tags("x", 'y'))]
fn character() {}

#[telemetry_task(skip_all = true)]
fn flag() {}

#[telemetry_task(summarise = "half")]
fn half() {}

#[telemetry_task(used(1 + 1))]
fn unnamed() {}

#[telemetry_task(metadata(key))]
fn valueless() {}

#[telemetry_task("name")]
fn bare() {}

#[telemetry_task(name = "a" tags("b"))]
fn no_comma() {}

#[telemetry_task(fail_if(ret))]
fn condition() {}

#[telemetry_task(skip())]
fn no_entries() {}

fn main() {}
