//! Caches strings that events repeat.

use std::sync::Arc;

use runlore_core::record::scrub;

/// The number of cached strings.
const MOST: usize = 8;
/// Longer strings rarely repeat.
const LONGEST: usize = 256;

/// The most recently requested strings.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: Vec<Arc<str>>,
    /// The index of the next string to replace.
    oldest: usize,
}

impl Texts {
    /// Returns a string of the tracker's own.
    pub(super) fn ours(&mut self, text: &str) -> Arc<str> {
        self.find(text).unwrap_or_else(|| self.keep(text.into()))
    }

    /// Returns a string of the program, with secrets redacted. A string with secrets is not cached.
    pub(super) fn theirs(&mut self, text: &str) -> Arc<str> {
        self.find(text).unwrap_or_else(|| {
            let clean = scrub(text);
            if clean == text { self.keep(clean.into()) } else { clean.into() }
        })
    }

    fn find(&self, text: &str) -> Option<Arc<str>> {
        self.known.iter().find(|known| ***known == *text).cloned()
    }

    fn keep(&mut self, text: Arc<str>) -> Arc<str> {
        if text.len() > LONGEST {
            return text;
        }
        if self.known.len() < MOST {
            self.known.push(Arc::clone(&text));
        } else {
            self.known[self.oldest] = Arc::clone(&text);
            self.oldest = (self.oldest + 1) % MOST;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_is_there_once_and_no_secret_is_kept() {
        let mut texts = Texts::default();
        assert!(Arc::ptr_eq(&texts.theirs("epoch"), &texts.theirs("epoch")));
        for _ in 0..2 {
            assert_eq!(&*texts.theirs("password=swordfish"), "password=[redacted]");
        }
        assert!(!format!("{texts:?}").contains("swordfish"));
        for number in 0..100 {
            let text = number.to_string();
            assert_eq!(*texts.ours(&text), *text);
        }
        assert_eq!(texts.known.len(), MOST);
        let long = "a".repeat(LONGEST + 1);
        assert!(!Arc::ptr_eq(&texts.ours(&long), &texts.ours(&long)));
    }
}
