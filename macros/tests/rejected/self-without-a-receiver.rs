use runlore::telemetry_task;

#[telemetry_task(used(self))]
fn free() {}

fn main() {
    free();
}
