//! Keeping secrets out of records.
//!
//! A secret is known by its name (`password`, `api_key`, …) or by its place in a URL
//! (`scheme://user:secret@host`). Names are compared segment by segment, so that `db_password` is
//! hidden while `tokens_per_sec` and `primary_key` are left alone. Redaction happens on the caller's side: a
//! secret never reaches a queue, a file or another thread.

use std::sync::OnceLock;

use serde_json::Value;

/// What stands in a record where a secret was.
pub(crate) const REDACTED: &str = "[redacted]";

/// Names that the settings add, each as its segments.
static MORE: OnceLock<Vec<Vec<String>>> = OnceLock::new();

/// Adds names whose values are secrets.
pub(crate) fn add_names(names: &[String]) {
    let segments = |name: &String| {
        let parts =
            name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let names: Vec<_> = names.iter().map(segments).filter(|parts| !parts.is_empty()).collect();
    if !names.is_empty() {
        _ = MORE.set(names);
    }
}

const NAMES: &[&[&str]] = &[
    &["password"],
    &["passwd"],
    &["secret"],
    &["token"],
    &["apikey"],
    &["api", "key"],
    &["credential"],
    &["credentials"],
    &["authorization"],
    &["private", "key"],
];

/// Whether values under this name are secrets.
///
/// ```
/// use runlore::record::is_secret_name;
/// assert!(is_secret_name("db_password") && is_secret_name("apiKey") && is_secret_name("X-Auth-Token"));
/// assert!(!is_secret_name("tokens_per_sec") && !is_secret_name("primary_key"));
/// ```
pub fn is_secret_name(name: &str) -> bool {
    if name.len() > 256 {
        return false;
    }
    let bytes = name.as_bytes();
    if let Some(more) = MORE.get()
        && (0..bytes.len()).any(|at| {
            starts_segment(bytes, at) && more.iter().any(|wanted| segments_match(bytes, at, wanted))
        })
    {
        return true;
    }
    // The shortest of the usual names has five letters.
    bytes.len() >= 5
        && (0..bytes.len()).any(|at| {
            // Most letters begin no secret name, and this runs for every field of every value.
            matches!(bytes[at] | 0x20, b'a' | b'c' | b'p' | b's' | b't')
                && starts_segment(bytes, at)
                && NAMES.iter().any(|wanted| segments_match(bytes, at, wanted))
        })
}

fn starts_segment(name: &[u8], at: usize) -> bool {
    let byte = name[at];
    if !byte.is_ascii_alphanumeric() {
        return false;
    }
    let Some(before) = at.checked_sub(1).map(|at| name[at]) else { return true };
    let camel = byte.is_ascii_uppercase()
        && (before.is_ascii_lowercase() || name.get(at + 1).is_some_and(u8::is_ascii_lowercase));
    !before.is_ascii_alphanumeric() || camel
}

fn segments_match(name: &[u8], mut at: usize, wanted: &[impl AsRef<str>]) -> bool {
    for (index, segment) in wanted.iter().map(AsRef::as_ref).enumerate() {
        if index > 0 {
            while name.get(at).is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
                at += 1;
            }
        }
        let Some(part) = name.get(at..at + segment.len()) else { return false };
        if !part.eq_ignore_ascii_case(segment.as_bytes()) {
            return false;
        }
        at += segment.len();
        if at < name.len() && name[at].is_ascii_alphanumeric() && !starts_segment(name, at) {
            return false;
        }
    }
    true
}

/// The byte range of a password inside the first URL at or after `from`.
fn url_secret(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut search = from;
    while let Some(found) = text[search..].find("://") {
        let start = search + found + 3;
        let authority = &text[start..];
        let end = authority
            .find(|c: char| {
                matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace()
            })
            .unwrap_or(authority.len());
        if let Some(at) = authority[..end].rfind('@') {
            let colon = authority[..at].find(':').map_or(at, |colon| colon + 1);
            if colon < at {
                return Some((start + colon, start + at));
            }
        }
        search = start;
    }
    None
}

/// Whether a string holds a URL with a password.
pub(crate) fn has_url_secret(text: &str) -> bool {
    url_secret(text, 0).is_some()
}

/// The text with passwords in URLs hidden.
pub(crate) fn hide_url_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut copied = 0;
    while let Some((start, end)) = url_secret(text, copied) {
        clean.push_str(&text[copied..start]);
        clean.push_str(REDACTED);
        copied = end;
    }
    clean.push_str(&text[copied..]);
    clean
}

/// Text made for people (`Debug` output, messages, command lines) with secrets hidden: URL passwords,
/// and what follows a secret name and `:` or `=`.
///
/// ```
/// use runlore::record::scrub;
/// assert_eq!(scrub("user=ann password=x"), "user=ann password=[redacted]");
/// ```
pub fn scrub(text: &str) -> String {
    let text = hide_url_secrets(text);
    let mut clean = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find([':', '=']) {
        let sign = at + found;
        at = sign + 1;
        if text[at..].starts_with(':') {
            // A path such as `module::Type` is no field.
            at += 1;
            continue;
        }
        let name_end = text[..sign].trim_end_matches([' ', '"', '\'', '\\']).len();
        let name_start = text[..name_end]
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |found| found + text[found..].chars().next().map_or(1, char::len_utf8));
        if name_start < copied || !is_secret_name(&text[name_start..name_end]) {
            continue;
        }
        let (start, end) = secret_value(&text, at);
        if start < end {
            clean.push_str(&text[copied..start]);
            clean.push_str(REDACTED);
            copied = end;
            at = end;
        }
    }
    clean.push_str(&text[copied..]);
    clean
}

/// The range of the value that begins after a name: a quoted text, else up to the next separator.
fn secret_value(text: &str, from: usize) -> (usize, usize) {
    let mut start = from + (text[from..].len() - text[from..].trim_start().len());
    // `Some("x")`, `Secret("x")`: the quoted part is the secret.
    let wrapper = text[start..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(0);
    if text[start + wrapper..].starts_with("(\"") {
        start += wrapper + 1;
    }
    // `Authorization: Bearer x`: the scheme is not the secret, what follows is.
    for scheme in ["Bearer ", "Basic ", "bearer ", "basic "] {
        if text[start..].starts_with(scheme) {
            start += scheme.len();
        }
    }
    if text[start..].starts_with('"') {
        let mut escaped = false;
        for (offset, c) in text[start + 1..].char_indices() {
            match c {
                '"' if !escaped => return (start + 1, start + 1 + offset),
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        return (start + 1, text.len());
    }
    let end = text[start..]
        .find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | '}' | ']'))
        .unwrap_or(text.len() - start);
    let value = &text[start..start + end];
    // Numbers and words such as `None` are not what the name promises to hide.
    if value.parse::<f64>().is_ok() || matches!(value, "None" | "null" | "true" | "false") {
        return (start, start);
    }
    (start, start + end)
}

/// A value as it may be stored under a name: strings under secret names, and passwords in URLs, are hidden.
pub(crate) fn hidden(name: &str, value: Value) -> Value {
    hide(value, is_secret_name(name))
}

fn hide(value: Value, secret: bool) -> Value {
    match value {
        Value::String(_) if secret => Value::String(REDACTED.to_owned()),
        Value::String(text) => Value::String(hide_url_secrets(&text)),
        Value::Array(items) => items.into_iter().map(|item| hide(item, secret)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| {
                let secret = secret || is_secret_name(&name);
                (name, hide(value, secret))
            })
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_decide() {
        for secret in [
            "password",
            "DB_PASSWORD",
            "userPassword",
            "x-api-key",
            "apiKey",
            "API_KEY",
            "apikey",
            "auth.token",
            "client_secret",
            "privateKey",
            "Authorization",
            "aws_credentials",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for plain in [
            "tokens_per_sec",
            "primary_key",
            "tokenizer",
            "secretary",
            "keyboard",
            "pass",
            "api",
            "",
            "key",
        ] {
            assert!(!is_secret_name(plain), "{plain}");
        }
    }

    #[test]
    fn url_passwords_are_hidden_and_nothing_else() {
        assert_eq!(
            hide_url_secrets("mongodb://ann:s3cr:et@host/db and http://x/y"),
            "mongodb://ann:[redacted]@host/db and http://x/y"
        );
        assert_eq!(hide_url_secrets("https://host:80/a@b"), "https://host:80/a@b");
        assert!(!has_url_secret("user:pass@host"));
    }

    #[test]
    fn debug_text_is_scrubbed() {
        assert_eq!(
            scrub(r#"Config { user: "ann", password: "a\"b", token: Some("t"), port: 1 }"#),
            r#"Config { user: "ann", password: "[redacted]", token: Some("[redacted]"), port: 1 }"#
        );
        assert_eq!(
            scrub("login failed: password=hunter2, user=ann"),
            "login failed: password=[redacted], user=ann"
        );
        assert_eq!(scrub("Authorization: Bearer abc.def"), "Authorization: Bearer [redacted]");
        assert_eq!(scrub(r#"{"api_key":"k","n":1}"#), r#"{"api_key":"[redacted]","n":1}"#);
        assert_eq!(scrub("token: 17, tokens_per_sec: 3"), "token: 17, tokens_per_sec: 3");
        assert_eq!(scrub("std::secret::Token"), "std::secret::Token");
    }
}
