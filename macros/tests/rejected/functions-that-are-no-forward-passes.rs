use runlore::telemetry_forward;

struct Model;

impl Model {
    #[telemetry_forward]
    async fn forward(&self, x: f32) -> f32 {
        x
    }

    #[telemetry_forward]
    fn nothing(&self, _x: f32) {}
}

#[telemetry_forward]
struct Layer;

#[telemetry_forward]
#[telemetry_forward]
fn twice(x: f32) -> f32 {
    x
}

fn main() {}
