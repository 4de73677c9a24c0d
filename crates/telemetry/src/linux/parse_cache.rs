//! A cache for the parsed form of a file, valid while its text does not change.
//!
//! Captures come in bursts, because a nested task often ends just before the next one starts. Disks
//! and networks have seldom transferred anything in between.

use std::sync::Mutex;

/// The last text of a file, and its encoded form.
#[derive(Debug, Default)]
pub(super) struct ParseCache(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    text: Vec<u8>,
    made: Vec<u8>,
}

impl ParseCache {
    /// Appends `make(text)`, cached while the text is unchanged. `make` must depend on nothing but
    /// the text. Appends nothing and returns `None` if `make` does.
    pub(super) fn put(
        &self,
        text: &[u8],
        out: &mut Vec<u8>,
        make: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        // If another thread holds the lock, this one does without the cache.
        let mut last = self.0.try_lock();
        if let Ok(last) = &last
            && !text.is_empty()
            && last.text == text
        {
            out.extend_from_slice(&last.made);
            return Some(());
        }
        let start = out.len();
        if make(text, out).is_none() {
            out.truncate(start);
            return None;
        }
        if let Ok(last) = &mut last {
            last.text.clear();
            last.text.extend_from_slice(text);
            last.made.clear();
            last.made.extend_from_slice(&out[start..]);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_text_is_parsed_once() {
        let cache = ParseCache::default();
        let mut made = 0;
        let mut out = Vec::new();
        for text in ["a", "a", "b", "", "", "b"] {
            let done = cache.put(text.as_bytes(), &mut out, |text, out| {
                made += 1;
                out.extend_from_slice(text);
                out.push(b'!');
                Some(())
            });
            assert!(done.is_some());
        }
        assert_eq!(out, b"a!a!b!!!b!");
        assert_eq!(made, 5);
        let done = cache.put(b"c", &mut out, |_, out| {
            out.push(0);
            None
        });
        assert_eq!((done, out.len()), (None, 10));
    }
}
