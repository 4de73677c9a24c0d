//! Calls the whole API with the feature `capture` off.
fn main() {}
