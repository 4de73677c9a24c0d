#![deny(warnings)]

use runlore::telemetry_task;

#[telemetry_task(skip(unused))]
fn variables(unused: u32) {
    let also_unused = 1;
}

#[telemetry_task]
#[must_use]
fn answer() -> u32 {
    42
}

#[telemetry_task]
async fn later(mut a: u32) -> u32 {
    a
}

fn main() {
    answer();
    variables(1);
    drop(later(1));
}
