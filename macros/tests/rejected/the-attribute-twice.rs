use runlore::telemetry_task;

#[telemetry_task]
#[telemetry_task(name = "again")]
fn twice() {}

fn main() {
    twice();
}
