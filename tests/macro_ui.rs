//! Where `#[telemetry_task]` may stand, and what it says where it may not.
//!
//! After a wanted change of a message: `TRYBUILD=overwrite cargo test macro_ui`.

#[test]
fn accepts_and_rejects() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
