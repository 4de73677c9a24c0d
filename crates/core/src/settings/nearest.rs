//! The valid name a mistyped one was probably meant to be.

/// The rest of a sentence about a wrong `word`: what was probably meant, or else everything that is valid.
pub fn suggestion(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid are {}", listed(valid)),
    }
}

/// `` `a`, `b` and `c` ``
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match &*quoted {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        quoted => quoted.join(", "),
    }
}

/// The name nearest to `word`, if any is near enough to be worth suggesting.
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    // The distance takes time with the product of the lengths, and no valid name is longer.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let near = names.iter().filter_map(|name| Some((closeness(&word, name)?, *name)));
    near.min_by_key(|(closeness, name)| (*closeness, name.len().abs_diff(word.len())))
        .map(|(_, name)| name)
}

/// How far two words are apart, or nothing when too far. A part of a name (`memory` for `mem`, `password` for
/// `password_env`) counts as near, but not nearer than a slip of the finger.
fn closeness(word: &str, name: &str) -> Option<usize> {
    let slips = word.chars().count().max(3) / 3;
    let distance = distance(word, name);
    if distance <= slips {
        return Some(distance);
    }
    let is_part = word.contains(name) || name.contains(word);
    (is_part && word.len().min(name.len()) >= 3).then_some(slips + 1)
}

/// Edit distance in which swapping two neighbours is one slip, as it is on a keyboard.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let changed = usize::from(left[i - 1] != right[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[left.len()][right.len()]
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
