//! The program `runlore`.
fn main() {}
