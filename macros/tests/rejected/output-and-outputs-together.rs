use runlore::telemetry_task;

#[telemetry_task(output = "a", outputs("b", "c"))]
fn pair() -> (i32, i32) {
    (1, 2)
}

#[telemetry_task(output = "a", spread)]
fn map() -> Vec<i32> {
    vec![]
}

fn main() {}
