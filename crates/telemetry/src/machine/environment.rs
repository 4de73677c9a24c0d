//! The environment variables that the settings select.

use std::collections::BTreeMap;

use super::facts::{ONLY_LIVE, Reasons};
use super::secrets;
use crate::root::Root;

pub(super) fn read(
    root: &Root,
    asked: &[String],
    reasons: &mut Reasons,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if asked.is_empty() {
        return found;
    }
    if !root.is_live() {
        reasons.note("environment", ONLY_LIVE);
        return found;
    }
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if asked.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes())) {
            let value = secrets::variable(&name, &value.to_string_lossy());
            found.insert(name.into_owned(), value);
        }
    }
    for name in asked {
        if !name.contains(['*', '?']) && !found.contains_key(name) {
            reasons.note(format!("environment.{name}"), "the variable is not set");
        }
    }
    found
}

/// Whether a name matches the pattern: `*` matches any text, `?` any one character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The position of the last star, and the position in the name from which the rest of the
    // pattern is tried.
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => match &mut star {
                Some((star_at, tried)) => {
                    *tried += 1;
                    (at, in_name) = (*star_at + 1, *tried);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_describe_names() {
        for (pattern, name, is_so) in [
            ("HOME", "HOME", true),
            ("HOME", "HOMES", false),
            ("home", "HOME", false),
            ("SLURM_*", "SLURM_JOB_ID", true),
            ("SLURM_*", "SLURM_", true),
            ("SLURM_*", "SLURM", false),
            ("*_ID", "SLURM_JOB_ID", true),
            ("*_I*D", "A_I_ID_IDX_D", true),
            ("S*M_?OB*", "SLURM_JOB_ID", true),
            ("*", "", true),
            ("?", "", false),
            ("", "", true),
            ("", "A", false),
            ("*a*a*a*a*b", &"a".repeat(300), false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_so, "{pattern} {name}");
        }
    }
}
