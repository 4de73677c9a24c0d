//! Command lines in the form in which they are stored.

use runlore_core::record::scrub_arguments;

/// Longer command lines are cut, because every record contains them.
const MOST_BYTES: usize = 4096;

/// Returns the arguments with secrets redacted.
pub(super) fn arguments<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut left = MOST_BYTES;
    let mut shown = Vec::new();
    for clean in scrub_arguments(arguments.map(String::from_utf8_lossy)) {
        if clean.len() > left {
            shown.push("…".to_owned());
            break;
        }
        left -= clean.len();
        shown.push(clean);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden() {
        let line = [
            "tool",
            "--token",
            "--s3cret",
            "--password=a s3cret",
            "--rate=2",
            "http://a:s3cret@b/",
        ];
        let shown = arguments(line.iter().map(|argument| argument.as_bytes()));
        assert!(!shown.concat().contains("s3cret"), "{shown:?}");
        assert_eq!((&*shown[0], &*shown[4], shown.len()), ("tool", "--rate=2", 6));
    }

    #[test]
    fn long_ones_are_cut() {
        let long = "x".repeat(3000);
        let shown = arguments([long.as_bytes(), long.as_bytes()].into_iter());
        assert_eq!(shown, [long.as_str(), "…"]);
    }
}
