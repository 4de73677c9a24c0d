use runlore::telemetry_task;

#[telemetry_task(tagz("slow"))]
fn slip() {}

#[telemetry_task(Summarize = "full")]
fn dialect() {}

#[telemetry_task(zebra)]
fn stranger() {}

fn main() {
    slip();
    dialect();
    stranger();
}
