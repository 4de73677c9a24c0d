use runlore::telemetry_task;

#[telemetry_task(nmae = "x", telemetry(cpu, memroy), skip(rowz), output = 3)]
fn load(rows: u32) -> u32 {
    rows
}

fn main() {
    load(1);
}
