//! Redaction of secrets in command lines and environment variables.

use runlore_core::record::redact::{Class, REDACTED, class, scrub, scrub_arguments};

/// Longer text is cut.
const LONGEST: usize = 4096;

/// Returns the value of a variable in the form in which it is stored.
pub(super) fn variable(name: &str, value: &str) -> String {
    let is_hidden = match class(name) {
        Class::Plain => false,
        Class::Ambiguous => value.parse::<f64>().is_err(),
        _ => true,
    };
    if is_hidden { REDACTED.to_owned() } else { shortened(scrub(value)) }
}

/// Returns the arguments of a program in the form in which they are stored.
pub(super) fn arguments(arguments: impl Iterator<Item = String>) -> Vec<String> {
    scrub_arguments(arguments).map(shortened).collect()
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
    fn secrets_in_arguments_are_hidden() {
        let words = ["--token", "--abc", "--password=a b"].map(str::to_owned);
        let kept = ["--token", "[redacted]", "--password=[redacted]"];
        assert_eq!(arguments(words.into_iter()), kept);
    }

    #[test]
    fn long_texts_keep_their_beginning() {
        let long = "ü".repeat(LONGEST);
        let kept = variable("LONG", &long);
        assert!(kept.ends_with("ü…") && kept.len() <= LONGEST + 3, "{}", kept.len());
    }
}
