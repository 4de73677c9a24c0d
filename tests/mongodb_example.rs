//! The example of records in MongoDB, run against a server.

use std::process::Command;

use crate::mongo_server::database;
use crate::support::{expect_success, finished_in_time};

#[test]
fn it_records_and_asks() {
    let Some(uri) = database() else { return };
    let test = std::env::current_exe().unwrap();
    // It is in the folder `deps` of the profile's.
    let target = test.ancestors().nth(3).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "runlore", "--features", "mongodb"]);
    cargo.args(["--example", "query_mongodb", "--target-dir"]).arg(target);
    expect_success(
        &cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).output().unwrap(),
    );

    let folder = tempfile::tempdir().unwrap();
    let mut example = Command::new(target.join("debug/examples/query_mongodb"));
    example.current_dir(&folder).env("RUNLORE_EXAMPLE_MONGODB", &uri);
    example.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
    let output = finished_in_time(example);
    expect_success(&output);
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["load failed: part 3 is damaged", r#""_id":"load""#, r#""tasks":10"#] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
