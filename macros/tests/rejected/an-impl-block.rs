use runlore::telemetry_task;

struct Service;

#[telemetry_task]
impl Service {
    fn call(&self) {}
}

#[telemetry_task]
unsafe impl Send for Service {}

fn main() {
    Service.call();
}
