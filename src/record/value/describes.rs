//! Types whose values name or describe something that may be another thing next time.

/// Facts are those of any tensor of that shape.
const DESCRIBING: [&str; 1] = ["runlore::record::tensor::TensorFacts"];

/// Types that add nothing of their own to what they hold.
const HOLDING: [&str; 10] = [
    "::Option",
    "::Vec",
    "::Box",
    "::Rc",
    "::Arc",
    "::Cow",
    "::VecDeque",
    "::HashSet",
    "::BTreeSet",
    "::LinkedList",
];

/// Whether a type is facts about a tensor, or is put together of nothing else. The type's name says so.
pub(crate) fn describes<T: ?Sized>() -> bool {
    named(std::any::type_name::<T>())
}

fn named(name: &str) -> bool {
    // The last type in the name decides for nearly all types.
    let last = name.trim_end_matches([
        '>', ')', ']', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ';', ' ', ',',
    ]);
    DESCRIBING.iter().any(|known| last.ends_with(known)) && is_of_nothing_else(name)
}

#[cold]
fn is_of_nothing_else(name: &str) -> bool {
    let words = name.split(|c: char| !(c.is_alphanumeric() || matches!(c, ':' | '_')));
    words.filter(|word| !word.is_empty()).all(|word| {
        let is_syntax =
            matches!(word, "mut" | "_") || word.bytes().all(|byte| byte.is_ascii_digit());
        is_syntax
            || DESCRIBING.contains(&word)
            || HOLDING.iter().any(|holder| word.ends_with(holder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TensorFacts;

    #[test]
    fn facts_are_known_by_their_type() {
        assert!(describes::<TensorFacts>() && describes::<&[Option<TensorFacts>]>());
        assert!(!describes::<String>() && !describes::<(TensorFacts, u8)>());
    }
}
