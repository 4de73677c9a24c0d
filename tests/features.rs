//! What is said of the crate's features: every one of them, and no other.

use std::collections::BTreeSet;

/// The names between backquotes at the beginning of these lines, up to the text about them.
fn listed<'a>(lines: impl Iterator<Item = &'a str>, end: &str) -> BTreeSet<String> {
    lines
        .filter_map(|line| line.split_once(end))
        .flat_map(|(names, _)| names.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn are_listed_in_the_guide_and_in_the_documentation() {
    let manifest: BTreeSet<String> = include_str!("../Cargo.toml")
        .split_once("\n[features]\n")
        .and_then(|(_, rest)| rest.split_once("\n["))
        .map(|(features, _)| features.lines())
        .into_iter()
        .flatten()
        .filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()))
        .filter(|name| name != "default")
        .collect();
    assert!(manifest.contains("capture"));

    let (_, guide) =
        include_str!("../docs/records.md").split_once("## Features of the crate\n").unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<String> = rows.map(|row| format!("`{row}")).collect();
    assert_eq!(listed(rows.iter().map(String::as_str), " | "), manifest);

    let (_, library) = include_str!("../src/lib.rs").split_once("//! # Features\n").unwrap();
    let (library, _) = library.split_once("//! # ").unwrap();
    let points = library.lines().filter_map(|line| line.strip_prefix("//! * "));
    assert_eq!(listed(points, ": "), manifest);
}
