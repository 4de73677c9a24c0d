//! x
fn main() { println!("{:?} {}", std::env::args().collect::<Vec<_>>(), env!("CARGO_TARGET_TMPDIR")); }
