//! Types whose values only name or describe something, as a path names a file.

/// The names of types for paths and facts about tensors.
///
/// The content of a file may change under the same path, and different tensors of one shape have
/// equal facts.
const DESCRIBING: [&str; 5] = [
    "std::path::Path",
    "std::path::PathBuf",
    "camino::Utf8Path",
    "camino::Utf8PathBuf",
    "runlore_core::record::tensor::TensorFacts",
];

/// Suffixes of the names of containers that add no content of their own.
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

/// Whether a type is a path or facts about a tensor, or consists of nothing else.
///
/// The decision is based on the type's name. In generic code and behind `impl Serialize`, nothing
/// else distinguishes a path from a text.
pub fn describes<T: ?Sized>() -> bool {
    named(std::any::type_name::<T>())
}

fn named(name: &str) -> bool {
    // For nearly all types, the last type in the name decides.
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
    use std::borrow::Cow;
    use std::collections::{BTreeSet, HashMap, HashSet};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use super::*;
    use crate::record::TensorFacts;

    #[test]
    fn paths_and_facts_are_known_by_their_type() {
        assert!(describes::<Path>() && describes::<PathBuf>() && describes::<&mut &Path>());
        assert!(describes::<Option<Box<Path>>>() && describes::<Arc<[Cow<'_, Path>]>>());
        assert!(describes::<(PathBuf, &Path)>() && describes::<[PathBuf; 12]>());
        assert!(describes::<HashSet<PathBuf>>() && describes::<BTreeSet<PathBuf>>());
        assert!(describes::<TensorFacts>() && describes::<&[Option<TensorFacts>]>());
    }

    #[test]
    fn other_types_are_not() {
        struct NoPath;
        assert!(!describes::<String>() && !describes::<NoPath>() && !describes::<()>());
        assert!(!describes::<(String, PathBuf)>() && !describes::<(PathBuf, u8)>());
        assert!(!describes::<HashMap<String, PathBuf>>() && !describes::<Vec<(f64, PathBuf)>>());
        assert!(!named("mine::std::path::PathBuf2") && !named("other::path::Path"));
    }
}
