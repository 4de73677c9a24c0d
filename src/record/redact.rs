//! Keeping secrets out of records.
//!
//! A secret is known by its name (`password`, `api_key`, …) or by its place in a URL
//! (`scheme://user:secret@host`). Names are compared segment by segment, so that `db_password` is
//! hidden while `tokens_per_sec` and `primary_key` are left alone. Redaction happens on the caller's side: a
//! secret never reaches a queue, a file or another thread.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::once::Once;

/// What stands in a record where a secret was.
pub(crate) const REDACTED: &str = "[redacted]";

/// Names that the settings add, each as its segments.
static MORE: Once<Vec<Vec<String>>> = Once::new();

/// Adds names whose values are secrets.
pub(crate) fn add_names(names: &[String]) {
    let segments = |name: &String| {
        let parts =
            name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let names: Vec<_> = names.iter().map(segments).filter(|parts| !parts.is_empty()).collect();
    if !names.is_empty() {
        MORE.get_or_init(|| names);
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

/// The letters that they begin with, a bit each.
const FIRST_LETTERS: u32 = {
    let (mut letters, mut at) = (0, 0);
    while at < NAMES.len() {
        letters |= 1 << (NAMES[at][0].as_bytes()[0] - b'a');
        at += 1;
    }
    letters
};

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
            // This runs for every field of every value, and few of their segments begin as a secret name does.
            let first = bytes[at] | 0x20;
            first.is_ascii_lowercase()
                && FIRST_LETTERS >> (first - b'a') & 1 != 0
                && starts_segment(bytes, at)
                && NAMES.iter().any(|wanted| {
                    wanted[0].as_bytes()[0] == first && segments_match(bytes, at, wanted)
                })
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

/// What is secret in the URLs of a text, as byte ranges in order: passwords, long user names (tokens), and the values of
/// secret names in a query.
fn url_secrets(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let mut search = 0;
    while let Some(found) = text[search..].find("://") {
        let start = search + found + 3;
        let rest = &text[start..];
        let end = rest.find(|c: char| matches!(c, '"' | '\'' | '<' | '>') || c.is_whitespace());
        let url = &rest[..end.unwrap_or(rest.len())];
        secrets.extend(userinfo(url).map(|secret| start + secret.start..start + secret.end));
        if let Some(query) = url.find('?') {
            let mut at = query + 1;
            for pair in url[query + 1..].split(['&', ';', '#']) {
                if let Some((name, value)) = pair.split_once('=')
                    && is_secret_name(name)
                {
                    let value_at = start + at + name.len() + 1;
                    secrets.push(value_at..value_at + value.len());
                }
                at += pair.len() + 1;
            }
        }
        search = start;
    }
    secrets
}

/// The secret part of what stands before the `@` of a URL.
fn userinfo(url: &str) -> Option<Range<usize>> {
    /// A user name this long is a token.
    const TOKEN: usize = 20;
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    let at = match url[..authority].rfind('@') {
        Some(at) => at,
        // A password may hold a slash by mistake; a port is a number.
        None => {
            let (_, after) = url[..authority].split_once(':')?;
            let is_port = after.bytes().all(|byte| byte.is_ascii_digit());
            if is_port { None } else { url.rfind('@') }?
        }
    };
    match url[..at].find(':') {
        Some(colon) if colon + 1 < at => Some(colon + 1..at),
        None if at >= TOKEN => Some(0..at),
        _ => None,
    }
}

/// Whether a URL in the text has a secret.
pub(crate) fn has_url_secret(text: &str) -> bool {
    text.contains("://") && !url_secrets(text).is_empty()
}

/// The text with secrets in URLs hidden.
pub(crate) fn hide_url_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let secrets = url_secrets(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut copied = 0;
    for secret in secrets {
        if secret.start >= copied {
            clean.push_str(&text[copied..secret.start]);
            clean.push_str(REDACTED);
            copied = secret.end;
        }
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// Text made for people (`Debug` output, messages, command lines) with secrets hidden: those in URLs, and what follows
/// a secret name and `:` or `=`.
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
        let name = &text[name_start..name_end];
        let is_hidden = text[at..].starts_with(REDACTED);
        if name_start < copied || is_hidden || !is_secret_name(name) {
            continue;
        }
        let secret = secret_value(&text, at, name, text.as_bytes()[sign] == b':');
        if !secret.is_empty() {
            clean.push_str(&text[copied..secret.start]);
            clean.push_str(REDACTED);
            copied = secret.end;
            at = secret.end;
        }
    }
    clean.push_str(&text[copied..]);
    clean
}

/// The arguments of a program with secrets hidden: `--password=x`, the word after `--password`, whatever that looks
/// like, and what [`scrub`] finds. A secret that stands by itself, without a name, cannot be known.
///
/// ```
/// use runlore::record::scrub_arguments;
/// let shown: Vec<_> = scrub_arguments(["login", "--token", "-x", "--password=a b"]).collect();
/// assert_eq!(shown, ["login", "--token", "[redacted]", "--password=[redacted]"]);
/// ```
pub fn scrub_arguments<I>(arguments: I) -> impl Iterator<Item = String>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    let mut follows_secret_option = false;
    arguments.into_iter().map(move |argument| {
        let argument = argument.as_ref();
        let assigned = argument.split_once('=');
        // What is hidden may be an option itself, where the one before it has no value.
        let is_secret_option =
            argument.starts_with('-') && assigned.is_none() && is_secret_name(argument);
        if std::mem::replace(&mut follows_secret_option, is_secret_option) {
            return REDACTED.to_owned();
        }
        match assigned {
            Some((name, _)) if is_secret_name(name) && could_be_assigned(name) => {
                format!("{name}={REDACTED}")
            }
            _ => scrub(argument),
        }
    })
}

/// Whether it could be the name of an option or a variable, rather than the beginning of a text or a URL.
fn could_be_assigned(name: &str) -> bool {
    !name.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '&'))
}

/// The value that begins after a secret name: a quoted text, a group in brackets, else up to the next separator.
fn secret_value(text: &str, from: usize, name: &str, after_colon: bool) -> Range<usize> {
    let start = from + (text[from..].len() - text[from..].trim_start_matches(' ').len());
    // A header's value has several words, of which the last is the secret.
    if name.to_ascii_lowercase().ends_with("authorization") && !text[start..].starts_with('"') {
        let line = text[start..].find(['\n', '\r', '"', '\'']).unwrap_or(text.len() - start);
        return start..start + line;
    }
    // `Some("x")`, `Inner { value: "x" }`: the name of the type is none.
    let word = text[start..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(0);
    let opened = start + word + usize::from(text[start + word..].starts_with(" {"));
    match text[opened..].chars().next() {
        Some(quote @ ('"' | '\'')) if word == 0 => start + 1..end_of_quoted(text, start + 1, quote),
        Some('(' | '[' | '{') => opened + 1..end_of_group(text, opened),
        _ => {
            let end = text[start..]
                .find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | '}' | ']'))
                .unwrap_or(text.len() - start);
            let value = &text[start..start + end];
            // In `Debug` output a bare word is a number, a truth value or a variant: no text.
            let is_plain =
                value.parse::<f64>().is_ok() || matches!(value, "None" | "null" | "true" | "false");
            if after_colon && is_plain { start..start } else { start..start + end }
        }
    }
}

fn end_of_quoted(text: &str, from: usize, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in text[from..].char_indices() {
        match c {
            _ if c == quote && !escaped => return from + offset,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The place of the bracket that closes the one at `from`.
fn end_of_group(text: &str, from: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for (offset, c) in text[from..].char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return from + offset;
                }
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// A value as it may be stored under a name: strings under secret names, and passwords in URLs, are hidden.
pub(crate) fn hidden(name: &str, value: Value) -> Value {
    hide(value, is_secret_name(name))
}

fn hide(value: Value, secret: bool) -> Value {
    match value {
        Value::String(_) if secret => Value::String(REDACTED.to_owned()),
        Value::String(text) => Value::String(hide_url_secrets(&text).into_owned()),
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
            assert_eq!(hide_url_secrets(text), clean);
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
    fn secrets_in_arguments_are_hidden_and_nothing_else() {
        for (said, kept) in [
            (&["--password=hunter2", "x"][..], &["--password=[redacted]", "x"][..]),
            (&["--token", "abc def", "x"], &["--token", "[redacted]", "x"]),
            (&["--token", "-abc"], &["--token", "[redacted]"]),
            (&["--password", "--abc", "x"], &["--password", "[redacted]", "x"]),
            (&["--token", "--password", "x"], &["--token", "[redacted]", "[redacted]"]),
            (&["--token", "a=b", "x"], &["--token", "[redacted]", "x"]),
            (&["-Ddb.password=a b, c"], &["-Ddb.password=[redacted]"]),
            (&["PASSWORD=two words"], &["PASSWORD=[redacted]"]),
            (&["--url", "pg://ann:x@h/db"], &["--url", "pg://ann:[redacted]@h/db"]),
            (&["--url=pg://ann:x@h/db"], &["--url=pg://ann:[redacted]@h/db"]),
            (&["http://h/?token=x&n=1"], &["http://h/?token=[redacted]&n=1"]),
            (&["-H", "Authorization: Bearer x y"], &["-H", "Authorization: [redacted]"]),
            (&["token", "password", "--tokens=3"], &["token", "password", "--tokens=3"]),
            (&["--token"], &["--token"]),
            (&["", "-", "--", "="], &["", "-", "--", "="]),
        ] {
            assert_eq!(scrub_arguments(said).collect::<Vec<_>>(), kept);
        }
    }
}
