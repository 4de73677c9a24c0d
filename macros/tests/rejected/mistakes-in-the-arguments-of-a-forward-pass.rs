use runlore::telemetry_forward;

#[telemetry_forward(tensor = runlore, sync = "always", name = "a", name = "b")]
fn several(x: f32) -> f32 {
    x
}

#[telemetry_forward(training = "yes")]
fn not_a_bool(x: f32) -> f32 {
    x
}

#[telemetry_forward(tensors = nowhere)]
fn unknown_crate(x: f32) -> f32 {
    x
}

fn main() {
    several(0.0);
    not_a_bool(0.0);
    unknown_crate(0.0);
}
