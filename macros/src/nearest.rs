//! Suggests the valid name that a mistyped one was probably meant to be.

/// Returns the candidate nearest to `word`. `None` if none is near enough to suggest.
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

/// Returns the end of an error message about a wrong `word`: the nearest candidate, or else all
/// candidates.
pub(crate) fn suggestion(word: &str, candidates: &[&str], all: &str) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{all} {}", listed(candidates)),
    }
}

/// Formats names as `` `a`, `b` and `c` ``.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and `{last}`", quoted(first)),
        names => quoted(names),
    }
}

/// Returns the distance between two words. `None` if they are too far apart. An abbreviation (`mem`
/// for `memory`) is near, but farther than any accepted typing error.
fn closeness(word: &str, candidate: &str) -> Option<usize> {
    let slips = word.chars().count().max(3) / 3;
    // Swapping two neighbours is one slip, as it is on a keyboard.
    let distance = strsim::osa_distance(word, candidate);
    if distance <= slips {
        return Some(distance);
    }
    let shorter = word.len().min(candidate.len());
    let abbreviates = word.starts_with(candidate) || candidate.starts_with(word);
    (abbreviates && shorter >= 3).then_some(slips + 1)
}

#[cfg(test)]
mod tests {
    use strsim::osa_distance;

    use super::*;

    #[test]
    fn distance_counts_slips() {
        assert_eq!(osa_distance("tags", "tags"), 0);
        assert_eq!(osa_distance("tagz", "tags"), 1);
        assert_eq!(osa_distance("tgas", "tags"), 1);
        assert_eq!(osa_distance("", "tags"), 4);
        assert_eq!(osa_distance("kitten", "sitting"), 3);
        assert_eq!(osa_distance("größe", "grösse"), 2);
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
