use runlore::telemetry_task;

#[telemetry_task(output = "y")]
fn nothing() {}

#[telemetry_task(spread)]
fn only_errors() -> Result<(), String> {
    Ok(())
}

#[telemetry_task(outputs("a", "b", "c"))]
fn pair() -> Result<(i32, i32), String> {
    Ok((1, 2))
}

type Pair = (i32, i32);

#[telemetry_task(outputs("a", "b", "c"))]
fn alias() -> Pair {
    (1, 2)
}

fn main() {}
