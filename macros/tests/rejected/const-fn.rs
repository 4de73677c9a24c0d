use runlore::telemetry_task;

#[telemetry_task]
const fn square(x: u32) -> u32 {
    x * x
}

const NINE: u32 = square(3);

fn main() {
    assert_eq!(NINE, 9);
}
