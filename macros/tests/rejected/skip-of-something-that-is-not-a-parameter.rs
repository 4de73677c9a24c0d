use runlore::telemetry_task;

#[telemetry_task(skip(pasword))]
fn login(user: &str, password: &str) -> bool {
    user == password
}

#[telemetry_task(skip(anything))]
fn nothing() {}

struct Service;

impl Service {
    #[telemetry_task(skip(self))]
    fn call(&self) {}
}

fn main() {
    login("a", "b");
    nothing();
    Service.call();
}
