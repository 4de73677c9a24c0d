//! The valid name a mistyped one was probably meant to be.

/// The candidate nearest to `word`, if any is near enough to be worth suggesting.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| Some((closeness(&word, candidate)?, candidate)))
        .min_by_key(|&(closeness, candidate)| (closeness, candidate.len().abs_diff(word.len())))
        .map(|(_, candidate)| candidate)
}

/// The rest of a sentence about a wrong `word`: what was probably meant, or else everything that is valid.
pub(crate) fn suggestion(word: &str, candidates: &[&str], all: &str) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{all} {}", listed(candidates)),
    }
}

/// `` `a`, `b` and `c` ``
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and `{last}`", quoted(first)),
        names => quoted(names),
    }
}

/// How far two words are apart, or nothing when too far. An abbreviation (`mem` for `memory`) counts as near, but
/// not nearer than a slip of the finger.
fn closeness(word: &str, candidate: &str) -> Option<usize> {
    let slips = word.chars().count().max(3) / 3;
    let distance = distance(word, candidate);
    if distance <= slips {
        return Some(distance);
    }
    let shorter = word.len().min(candidate.len());
    let abbreviates = word.starts_with(candidate) || candidate.starts_with(word);
    (abbreviates && shorter >= 3).then_some(slips + 1)
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
            let swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
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
    fn distance_counts_slips() {
        assert_eq!(distance("tags", "tags"), 0);
        assert_eq!(distance("tagz", "tags"), 1);
        assert_eq!(distance("tgas", "tags"), 1);
        assert_eq!(distance("", "tags"), 4);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("größe", "grösse"), 2);
    }

    #[test]
    fn a_slip_finds_its_word() {
        let names = ["name", "output", "outputs", "tags", "skip", "skip_all"];
        assert_eq!(nearest("tagz", names), Some("tags"));
        assert_eq!(nearest("Skipall", names), Some("skip_all"));
        assert_eq!(nearest("outputz", names), Some("outputs"));
        assert_eq!(nearest("nmae", names), Some("name"));
    }

    #[test]
    fn an_abbreviation_is_near_and_a_stranger_is_not() {
        assert_eq!(nearest("memory", ["cpu", "mem"]), Some("mem"));
        assert_eq!(nearest("net", ["network", "disk"]), Some("network"));
        assert_eq!(nearest("colour", ["cpu", "mem"]), None);
        assert_eq!(nearest("c", ["cpu", "mem"]), None);
    }

    #[test]
    fn without_a_near_name_all_are_listed() {
        assert_eq!(
            suggestion("zebra", &["a", "b", "c"], "valid are"),
            "valid are `a`, `b` and `c`"
        );
        assert_eq!(suggestion("zebra", &["only"], "valid is"), "valid is `only`");
        assert_eq!(suggestion("onyl", &["only"], "valid is"), "did you mean `only`?");
    }
}
