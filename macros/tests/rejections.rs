//! Where the attributes may not stand, what they may not be given, and what they say then.
//!
//! After a wanted change of a message: `TRYBUILD=overwrite cargo test rejections`.

#[test]
fn say_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/rejected/*.rs");
}
