//! Suggestions for mistyped names.

/// Returns the end of a sentence about an invalid `word`: the likely intended name, or else all
/// valid names.
pub fn suggestion(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid are {}", listed(valid)),
    }
}

/// Formats names as a list: `` `a`, `b` and `c` ``.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match &*quoted {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        quoted => quoted.join(", "),
    }
}

/// Returns the name nearest to `word`. `None` if no name is near enough.
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    // The cost grows with the product of both lengths, and no valid name is longer than this.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let near = names.iter().filter_map(|name| Some((closeness(&word, name)?, *name)));
    near.min_by_key(|(closeness, name)| (*closeness, name.len().abs_diff(word.len())))
        .map(|(_, name)| name)
}

/// Returns the distance between two words. `None` if they are too far apart. A part of a name
/// (`memory` for `mem`, `password` for `password_env`) counts as near, but not as nearer than a
/// typo.
fn closeness(word: &str, name: &str) -> Option<usize> {
    let slips = word.chars().count().max(3) / 3;
    // Swapping two neighbours is one slip, as it is on a keyboard.
    let distance = strsim::osa_distance(word, name);
    if distance <= slips {
        return Some(distance);
    }
    let is_part = word.contains(name) || name.contains(word);
    (is_part && word.len().min(name.len()) >= 3).then_some(slips + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_does_not() {
        let names = ["cpu", "per_cpu", "mem", "network", "password_env"];
        assert_eq!(nearest("cpus", &names), Some("cpu"));
        assert_eq!(nearest("Per-CPU", &names), Some("per_cpu"));
        assert_eq!(nearest("memory", &names), Some("mem"));
        assert_eq!(nearest("netwrok", &names), Some("network"));
        assert_eq!(nearest("password", &names), Some("password_env"));
        assert_eq!(nearest("zebra", &names), None);
        assert_eq!(nearest("", &names), None);
        assert_eq!(nearest(&"c".repeat(1_000_000), &names), None);
    }

    #[test]
    fn without_a_near_name_all_are_listed() {
        assert_eq!(suggestion("zebra", &["a", "b", "c"]), "valid are `a`, `b` and `c`");
        assert_eq!(suggestion("onyl", &["only"]), "did you mean `only`?");
    }
}
