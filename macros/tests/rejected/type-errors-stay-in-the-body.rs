use runlore::telemetry_task;

#[telemetry_task]
fn sync(a: i32) -> String {
    a
}

#[telemetry_task]
fn early(a: i32) -> Result<i32, String> {
    if a > 1 {
        return a;
    }
    Ok(a)
}

#[telemetry_task]
async fn later(a: i32) -> String {
    a
}

#[telemetry_task]
fn forgot(a: i32) -> i32 {
    a + 1;
}

#[telemetry_task]
fn missing() -> Missing {
    unknown(1)
}

fn main() {}
