//! Command lines and environment variables without their secrets.

use crate::record::redact::{REDACTED, is_secret_name, scrub};

/// Longer texts keep their beginning.
const LONGEST: usize = 4096;

/// The value of a variable as it may be stored.
pub(super) fn variable(name: &str, value: &str) -> String {
    if is_secret_name(name) { REDACTED.to_owned() } else { shortened(scrub(value)) }
}

/// The arguments of a program as they may be stored: `--password=x`, `--token x` and passwords in URLs are hidden. A
/// secret that stands by itself, without a name, cannot be known.
pub(super) fn arguments(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_value_of_secret = false;
    let hide = |argument: String| {
        if std::mem::take(&mut is_value_of_secret) && !argument.starts_with("--") {
            return REDACTED.to_owned();
        }
        let option = argument.trim_start_matches('-');
        match option.split_once('=') {
            Some((name, _)) if is_secret_name(name) && is_word(name) => {
                let shown = argument.len() - option.len() + name.len() + 1;
                format!("{}{REDACTED}", &argument[..shown])
            }
            None if argument.starts_with('-') && is_word(option) && is_secret_name(option) => {
                is_value_of_secret = true;
                argument
            }
            _ => shortened(scrub(&argument)),
        }
    };
    arguments.map(hide).collect()
}

/// Whether it could be the name of an option or a variable.
fn is_word(text: &str) -> bool {
    text.len() <= 256 && !text.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '&'))
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_arguments_are_hidden_and_nothing_else() {
        for (said, kept) in [
            (&["--password=hunter2", "x"][..], &["--password=[redacted]", "x"][..]),
            (&["--token", "abc def", "x"], &["--token", "[redacted]", "x"]),
            (&["--token", "-abc"], &["--token", "[redacted]"]),
            (&["--api-key", "--verbose"], &["--api-key", "--verbose"]),
            (&["-Ddb.password=a b, c"], &["-Ddb.password=[redacted]"]),
            (&["PASSWORD=two words"], &["PASSWORD=[redacted]"]),
            (&["--url", "pg://ann:x@h/db"], &["--url", "pg://ann:[redacted]@h/db"]),
            (&["--url=pg://ann:x@h/db"], &["--url=pg://ann:[redacted]@h/db"]),
            (&["-H", "Authorization: Bearer x y"], &["-H", "Authorization: [redacted]"]),
            (&["token", "password", "--tokens=3"], &["token", "password", "--tokens=3"]),
            (&["--token"], &["--token"]),
            (&["", "-", "--", "="], &["", "-", "--", "="]),
        ] {
            assert_eq!(arguments(said.iter().map(|&word| word.to_owned())), kept);
        }
    }

    #[test]
    fn long_texts_keep_their_beginning() {
        let long = "ü".repeat(LONGEST);
        let kept = variable("LONG", &long);
        assert!(kept.ends_with("ü…") && kept.len() <= LONGEST + 3, "{}", kept.len());
    }
}
