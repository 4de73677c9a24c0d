use runlore::telemetry_task;

#[telemetry_task(future)]
async fn already() {}

#[telemetry_task(future)]
fn nothing() {}

fn main() {
    drop(already());
    nothing();
}
