use runlore::telemetry_task;

trait Shape {
    #[telemetry_task]
    fn area(&self) -> f64;
}

unsafe extern "C" {
    #[telemetry_task]
    fn abs(x: i32) -> i32;
}

fn main() {}
