use runlore::telemetry_task;

#[telemetry_task(generated(length = text.len()))]
fn consume(text: String) {
    drop(text);
}

fn main() {
    consume(String::new());
}
