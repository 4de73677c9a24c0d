use runlore::telemetry_task;

fn main() {
    #[telemetry_task]
    let closure = |x: u32| x + 1;
    closure(1);
}
