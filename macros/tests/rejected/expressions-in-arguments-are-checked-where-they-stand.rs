use runlore::telemetry_task;

#[telemetry_task(used(rows = table.len()))]
fn unknown_name(tables: &[u32]) -> usize {
    tables.len()
}

#[telemetry_task(generated(loss = ret.los))]
fn unknown_field() -> Model {
    Model { loss: 1.0 }
}

#[telemetry_task(fail_if = *ret)]
fn not_a_condition() -> u32 {
    1
}

struct Model {
    loss: f64,
}

fn main() {
    let _ = unknown_field().loss;
}
