//! Modules use those above them in the list of ARCHITECTURE.md, and never those below.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The modules by their rows in the list.
fn listed() -> HashMap<String, usize> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().skip_while(|line| *line != "| module | holds |").skip(2);
    let mut listed = HashMap::from([("error".to_owned(), 0)]);
    for (row, line) in rows.take_while(|line| line.starts_with('|')).enumerate() {
        let cell = line.split('|').nth(1).unwrap();
        // What follows in brackets is the feature.
        let names = cell.split(" (").next().unwrap();
        for name in names.split(',') {
            listed.insert(name.trim().trim_matches('`').to_owned(), row + 1);
        }
    }
    listed
}

/// The names that the crate's root has from its modules.
fn at_root() -> HashMap<String, String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut names = HashMap::new();
    for used in text.split("\npub use ").skip(1) {
        let (path, _) = used.split_once(';').unwrap();
        let (module, rest) = path.split_once("::").unwrap();
        for name in rest.trim_matches(['{', '}']).split(',').map(str::trim) {
            names.insert(name.to_owned(), module.to_owned());
        }
    }
    names
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// What follows `crate::` anywhere in a text; of a group in braces, the first part of each path in it.
fn used(text: &str) -> Vec<String> {
    let first = |path: &str| -> String {
        path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut used = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            used.push(first(rest));
            continue;
        };
        let mut depth = 0;
        let mut path = String::new();
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => used.push(first(&std::mem::take(&mut path))),
                c if depth == 0 => path.push(c),
                _ => {}
            }
        }
        used.push(first(&path));
    }
    used.retain(|name| !name.is_empty());
    used
}

/// The code, without comments and the tests beside it.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().take_while(|line| !line.contains("mod tests {"));
    lines.map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn paths_are_found_however_they_are_written() {
    let text = "use crate::store::{Store, a::b};\nuse crate::{\n    Error, alloc::{self, x}, clock,\n};\n$crate::settings::x(); crate::task()";
    assert_eq!(used(text), ["store", "Error", "alloc", "clock", "settings", "task"]);
}

#[test]
fn a_module_uses_those_above_it() {
    let (listed, at_root) = (listed(), at_root());
    assert!(listed.len() > 20 && at_root.len() > 20, "{listed:?} {at_root:?}");
    let source = root().join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in all {
        let inside = path.strip_prefix(&source).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        // What the attribute expands to may name anything.
        if matches!(module, "lib" | "__private") || inside.ends_with("tests.rs") {
            continue;
        }
        let Some(row) = listed.get(module) else {
            wrong.push(format!("{module} is not in the list"));
            continue;
        };
        // Exported macros stand at the root, whichever module they are of.
        for name in used(&code(&path)).into_iter().filter(|name| !name.starts_with("__")) {
            let owner = at_root.get(&name).unwrap_or(&name);
            seen += 1;
            match listed.get(owner) {
                None => wrong.push(format!("{}: `crate::{name}` is of no module", path.display())),
                Some(of) if of > row => {
                    wrong.push(format!("{}: {module} uses {owner}", path.display()));
                }
                Some(_) => {}
            }
        }
    }
    assert!(seen > 1000, "{seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
