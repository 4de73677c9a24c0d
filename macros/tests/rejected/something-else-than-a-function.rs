use runlore::telemetry_task;

#[telemetry_task]
struct Named {
    f: fn(u32),
}

#[telemetry_task]
struct Tuple(u32);

#[telemetry_task]
pub enum Choice {
    A,
}

#[telemetry_task]
trait Shape {
    fn area(&self) -> f64 {
        1.0
    }
}

#[telemetry_task]
mod inner {
    pub fn f() {}
}

#[telemetry_task]
const ONE: fn() = inner::f;

#[telemetry_task]
static TWO: u32 = 2;

#[telemetry_task]
type Alias = fn();

#[telemetry_task]
pub use std::mem;

#[telemetry_task]
unsafe extern "C" {
    fn abs(x: i32) -> i32;
}

fn main() {}
