use runlore::telemetry_task;

#[telemetry_task(name = "a", name = "b")]
fn names() {}

#[telemetry_task(used(a = 1, a = 2), tags("x", "x"))]
fn entries() {}

#[telemetry_task(output = "y", generated(y = *ret))]
fn outputs() -> i32 {
    1
}

fn main() {}
