use runlore::telemetry_task;

#[telemetry_task]
fn moved(text: String) -> usize {
    drop(text);
    text.len()
}

#[telemetry_task]
fn not_mut(values: Vec<i32>) {
    values.push(1);
}

#[telemetry_task]
async fn moved_later(text: String) -> usize {
    drop(text);
    text.len()
}

fn main() {}
