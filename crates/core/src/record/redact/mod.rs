//! Redaction, which keeps secrets out of records.
//!
//! A secret is recognized by its name (`names`), by its look (`shapes`), by its position in a URL
//! (`urls`) or a command line (`arguments`), or by the text before it (`assigned`). `find` searches
//! a text for all of them in one pass. Redaction happens on the caller's thread, so a secret never
//! reaches a queue, a file or another thread.

/// A list of texts, each one word: `words![a b]` is `&["a", "b"]`.
macro_rules! words {
    ($($word:tt)*) => { &[$(stringify!($word)),*] };
}

mod arguments;
mod assigned;
mod find;
mod matcher;
mod names;
mod shapes;
mod urls;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

pub use arguments::scrub_arguments;
pub(crate) use arguments::{Arguments, Hidden};
use find::{Reason, SecretRange};
pub use names::is_secret_name;
pub use names::{Class, class};

use crate::settings::Settings;

/// The text that replaces a secret in a record.
pub const REDACTED: &str = "[redacted]";

/// A secret in a text, and the rule that found it. Created by [`find_secrets`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundSecret {
    /// The position of the secret, in bytes.
    pub range: Range<usize>,
    /// How the secret was recognized, such as by ``the name `password` ``.
    pub rule: String,
}

/// Applies the settings' lists of names to hide and names to leave visible. A program that records
/// does this automatically.
///
/// Only the first call with any names has an effect in a process.
pub fn use_redact_settings(settings: &Settings) {
    let redact = &settings.instrumentation.redact;
    names::configure(&redact.names, &redact.allow);
}

/// Returns the positions of the secrets in a text, in order, and how each was recognized.
///
/// ```
/// use runlore::record::find_secrets;
/// let found = find_secrets("user=ann password=x");
/// assert_eq!((found[0].range.clone(), found[0].rule.as_str()), (18..19, "the name `password`"));
/// ```
pub fn find_secrets(text: &str) -> Vec<FoundSecret> {
    let told = |SecretRange { range, reason }| {
        let rule = match reason {
            Reason::Name(name) => format!("the name `{}`", text[name].trim_start_matches('-')),
            Reason::Prefix(prefix) => format!("a token that begins with `{prefix}`"),
            Reason::Look(look) => look.to_owned(),
        };
        FoundSecret { range, rule }
    };
    find::secrets(text, false).into_iter().map(told).collect()
}

/// Redacts the secrets in a text, such as a message, `Debug` output or a command line.
///
/// ```
/// use runlore::record::scrub;
/// assert_eq!(scrub("user=ann password=x"), "user=ann password=[redacted]");
/// ```
pub fn scrub(text: &str) -> String {
    hide_secrets(text, false).into_owned()
}

/// Whether a text contains a secret.
pub(crate) fn has_secret(text: &str) -> bool {
    !find::secrets(text, false).is_empty()
}

/// Redacts the secrets in a text. `is_cut` means that the text is the beginning of a longer one.
pub fn hide_secrets(text: &str, is_cut: bool) -> Cow<'_, str> {
    let secrets = find::secrets(text, is_cut);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut copied = 0;
    for SecretRange { range, .. } in secrets {
        clean.push_str(&text[copied..range.start]);
        clean.push_str(REDACTED);
        copied = range.end;
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// Redacts a value that is to be stored under `name`. Secrets are recognized by names, by their
/// position in a list, or by their look.
pub fn hidden(name: &str, value: Value) -> Value {
    hide(value, class(name))
}

fn hide(value: Value, around: Class) -> Value {
    match value {
        Value::String(_) if around.is_secret() => Value::String(REDACTED.to_owned()),
        Value::Number(_) if around == Class::Strict => Value::String(REDACTED.to_owned()),
        Value::String(text) => Value::String(hide_secrets(&text, false).into_owned()),
        Value::Array(items) => {
            let mut list = List::new(Some(items.len()));
            let each = |item: Value| match item.as_str().map(|text| list.next(text)) {
                Some(Hidden::All) => Value::String(REDACTED.to_owned()),
                Some(Hidden::From(kept)) => {
                    let kept = item.as_str().and_then(|text| text.get(..kept)).unwrap_or_default();
                    Value::String(format!("{kept}{REDACTED}"))
                }
                _ => hide(item, around),
            };
            items.into_iter().map(each).collect()
        }
        Value::Object(fields) => {
            // As in `{"name": "password", "value": "x"}`.
            let names_secret = ["name", "key", "header"].iter().any(|label| {
                fields
                    .get(*label)
                    .and_then(Value::as_str)
                    .is_some_and(|name| class(name) >= Class::Secret)
            });
            let each = |(name, value): (String, Value)| {
                let own =
                    if names_secret && name == "value" { Class::Secret } else { class(&name) };
                let value = hide(value, around.max(own));
                (name, value)
            };
            fields.into_iter().map(each).collect()
        }
        other => other,
    }
}

/// State for redacting the items of a list in order. A text may be a secret because of the one
/// before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    arguments: Arguments,
    /// Whether the list has two items, which may be a name and its value.
    is_pair: bool,
    at: u32,
    follows_name: bool,
}

impl List {
    pub(crate) fn new(length: Option<usize>) -> Self {
        Self {
            arguments: Arguments::default(),
            is_pair: length == Some(2),
            at: 0,
            follows_name: false,
        }
    }

    /// Returns what to hide of the next item, which is text.
    pub(crate) fn next(&mut self, text: &str) -> Hidden {
        self.at += 1;
        if std::mem::take(&mut self.follows_name) {
            return Hidden::All;
        }
        self.follows_name = self.is_pair && self.at == 1 && class(text) >= Class::Secret;
        self.arguments.next(text)
    }

    /// Returns what to hide of the next item, which is not text.
    pub(crate) fn skip(&mut self) -> Hidden {
        self.at += 1;
        let follows_name = std::mem::take(&mut self.follows_name);
        if follows_name { Hidden::All } else { Hidden::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_hidden_and_nothing_else() {
        for (text, clean) in [
            (
                "mongodb://ann:s3cr:et@host/db and http://x/y",
                "mongodb://ann:[redacted]@host/db and http://x/y",
            ),
            ("https://host:80/a@b", "https://host:80/a@b"),
            ("https://ann@host/", "https://ann@host/"),
            ("https://ghp_0123456789abcdef0123@git.host/", "https://[redacted]@git.host/"),
            ("pg://ann:pa/ss@h/db", "pg://ann:[redacted]@h/db"),
            (
                "https://h/p?user=ann&api_key=x&n=1#f",
                "https://h/p?user=ann&api_key=[redacted]&n=1#f",
            ),
            ("user:pass@host", "user:pass@host"),
            ("é://ü:ö@ä", "é://ü:[redacted]@ä"),
        ] {
            assert_eq!(scrub(text), clean);
        }
    }

    #[test]
    fn text_for_people_is_scrubbed() {
        for (text, clean) in [
            (
                r#"Config { user: "ann", password: "a\"b", token: Some("t"), port: 1 }"#,
                r#"Config { user: "ann", password: "[redacted]", token: Some([redacted]), port: 1 }"#,
            ),
            ("failed: password=hunter2, user=ann", "failed: password=[redacted], user=ann"),
            ("password=20240101", "password=[redacted]"),
            ("password='my secret pass' next", "password='[redacted]' next"),
            ("Authorization: Bearer abc.def\nHost: x", "Authorization: [redacted]\nHost: x"),
            (r#"{"authorization": "token ghp"}"#, r#"{"authorization": "[redacted]"}"#),
            (r#"{"api_key":"k","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#),
            (r#"credentials: Inner { value: "X" }, n: 1"#, "credentials: Inner {[redacted]}, n: 1"),
            (r#"auth_token: ["a", "b]"], n: 1"#, "auth_token: [[redacted]], n: 1"),
            ("token: 17, tokens_per_sec: 3", "token: 17, tokens_per_sec: 3"),
            ("token: None", "token: None"),
            ("std::secret::Token", "std::secret::Token"),
            ("password:", "password:"),
            ("pässword=ü token=é", "pässword=ü token=[redacted]"),
        ] {
            assert_eq!(scrub(text), clean, "{text}");
        }
    }

    #[test]
    fn json_is_hidden_by_names_places_and_looks() {
        let value = serde_json::json!({
            "list": ["--password", "x", "-u", "ann:x", "ok"],
            "pair": [["Authorization", "x"], ["host", "h"]],
            "env": [{"name": "API_KEY", "value": "x"}, {"name": "PATH", "value": "p"}],
            "password": 1234,
            "pass": 3,
            "text": "token=x",
        });
        let clean = serde_json::json!({
            "list": ["--password", REDACTED, "-u", "ann:[redacted]", "ok"],
            "pair": [["Authorization", REDACTED], ["host", "h"]],
            "env": [{"name": "API_KEY", "value": REDACTED}, {"name": "PATH", "value": "p"}],
            "password": REDACTED,
            "pass": 3,
            "text": "token=[redacted]",
        });
        assert_eq!(hidden("", value), clean);
    }

    #[test]
    fn the_end_of_a_cut_text_shows_no_secret() {
        assert_eq!(hide_secrets("pg://ann:swordf", true), "pg://ann:[redacted]");
        assert_eq!(hide_secrets("pg://db:5432", true), "pg://db:5432");
        assert_eq!(hide_secrets("-----BEGIN PRIVATE KEY----- MII", true), REDACTED);
    }
}
