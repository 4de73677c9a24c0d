//! Finds secrets in URLs: passwords before the host, tokens and signatures in the query, webhooks.

use std::ops::Range;

use super::names::{Class, class};
use super::shapes::looks_random;

/// A user name of at least this length and without a password is taken for a token.
const TOKEN: usize = 20;

/// How far a password with unusual characters may extend past the apparent end of the URL.
const FAR: usize = 256;

/// Reports the secrets of the URL whose `://` is at `at`, in order. Returns where the URL ends.
/// `is_cut` means that the text is the beginning of a longer one.
pub(super) fn secrets(
    text: &str,
    at: usize,
    is_cut: bool,
    mut found: impl FnMut(Range<usize>, &'static str),
) -> usize {
    let start = at + "://".len();
    let rest = &text[start..];
    // A URL ends at a blank or a quote. Letters outside ASCII belong to it.
    let ends =
        |&byte: &u8| byte <= b' ' || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\');
    let end = rest.bytes().position(|byte| ends(&byte));
    let mut url = &rest[..end.unwrap_or(rest.len())];
    if let Some(secret) = userinfo(url).or_else(|| odd_userinfo(rest, &mut url)) {
        found(start + secret.start..start + secret.end, "credentials in a URL");
    } else if is_cut
        && end.is_none()
        && let Some(secret) = unfinished(url)
    {
        found(start + secret.start..start + secret.end, "credentials in a URL");
    }
    let after_userinfo = url.rfind('@').map_or(0, |at| at + 1);
    if let Some(query) = url[after_userinfo..].find(['?', '#', ';']) {
        let query = after_userinfo + query + 1;
        parameters(&url[query..], |secret| {
            found(start + query + secret.start..start + query + secret.end, "query of a URL");
        });
    } else if let Some(secret) = webhook(url) {
        found(start + secret.start..start + secret.end, "webhook");
    }
    start + url.len()
}

/// Returns the secret part of the text before the `@` of a URL.
fn userinfo(url: &str) -> Option<Range<usize>> {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    let at = match url[..authority].rfind('@') {
        Some(at) => {
            // A password may contain an unescaped `@` and, after it, a `?` or `#`.
            let rest = &url[at + 1..];
            let is_host = |host: &str| !host.is_empty() && !host.contains(':');
            match rest.rfind('@') {
                Some(more)
                    if is_host(&rest[more + 1..])
                        && url[..at].contains(':')
                        && !rest[..more].contains('/') =>
                {
                    at + 1 + more
                }
                _ => at,
            }
        }
        // A password may contain an unescaped slash. A number after the colon is a port.
        None => {
            let (_, after) = url[..authority].split_once(':')?;
            let is_port = after.bytes().all(|byte| byte.is_ascii_digit());
            if is_port || url.starts_with('[') { None } else { url.rfind('@') }?
        }
    };
    match url[..at].find(':') {
        Some(colon) if colon + 1 < at => Some(colon + 1..at),
        None if at >= TOKEN => Some(0..at),
        _ => None,
    }
}

/// Finds a password that contains a quote or a space: the text after the colon is not a port, and
/// an `@` follows.
fn odd_userinfo<'t>(rest: &'t str, url: &mut &'t str) -> Option<Range<usize>> {
    let (user, port) = url.split_once(':')?;
    let is_user = !user.is_empty() && !user.contains(['/', '?', '#', '[']);
    if !is_user
        || port.contains('/')
        || port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty()
    {
        return None;
    }
    let line = rest.split(['\n', '\r']).next().unwrap_or_default();
    let near = (0..=line.len().min(FAR)).rev().find(|&at| line.is_char_boundary(at))?;
    let at = line[..near].find('@')?;
    let host = line[at + 1..]
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '/' | '?'))
        .next()?;
    let is_host = host.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !is_host || line[..at].contains("://") {
        return None;
    }
    *url = &rest[..at + 1 + host.len()];
    Some(user.len() + 1..at)
}

/// Returns what may be a password whose `@` is past the end of the text.
fn unfinished(url: &str) -> Option<Range<usize>> {
    let (user, port) = url.split_once(':')?;
    let is_password =
        !user.contains(['/', '?', '#', '[', '@']) && !port.contains('/') && !port.is_empty();
    let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_password && !is_port).then(|| user.len() + 1..url.len())
}

/// Reports the values in a query that are secrets.
fn parameters(query: &str, mut found: impl FnMut(Range<usize>)) {
    let mut at = 0;
    for pair in query.split(['&', ';', '#', '?']) {
        if let Some((name, value)) = pair.split_once('=')
            && !value.is_empty()
            && is_secret_parameter(name.trim_start_matches("amp;"), value)
        {
            found(at + name.len() + 1..at + pair.len());
        }
        at += pair.len() + 1;
    }
}

/// Whether the value of a parameter is a secret.
pub(super) fn is_secret_parameter(name: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match class(name) {
        Class::Ambiguous => return !is_number,
        Class::Secret | Class::Strict => return true,
        Class::Plain => {}
    }
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "sig" | "signature" | "hmac" | "assertion" | "saml" | "samlresponse" | "sas" => true,
        // In most URLs these parameters are harmless identifiers, but in some they grant access.
        "key" | "code" | "policy" | "sid" | "state" | "hash" => {
            value.len() >= 16 && looks_random(value)
        }
        _ => {
            name.ends_with("-signature")
                || name.ends_with("-credential")
                || name.ends_with("-security-token")
        }
    }
}

/// Returns the secret path of a webhook URL. Anyone who knows it can post to the webhook.
fn webhook(url: &str) -> Option<Range<usize>> {
    const HOOKS: &[(&str, &str)] = &[
        ("hooks.slack.com", "/services/"),
        ("hooks.slack.com", "/workflows/"),
        ("discord.com", "/api/webhooks/"),
        ("discordapp.com", "/api/webhooks/"),
        ("api.telegram.org", "/bot"),
        ("hooks.zapier.com", "/hooks/catch/"),
        ("webhook.office.com", "/webhookb2/"),
    ];
    let (host, _) = url.split_once('/')?;
    let end = HOOKS.iter().find_map(|(end_of_host, path)| {
        let path = host.ends_with(end_of_host).then(|| url[host.len()..].strip_prefix(path))??;
        Some(url.len() - path.len())
    })?;
    (end < url.len()).then_some(end..url.len())
}

/// Returns the secret of `user:secret` before `@tcp(`, the notation of Go's database drivers.
pub(super) fn before_address(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[..at];
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'=' | b'`');
    let start = bytes.iter().rposition(ends).map_or(0, |at| at + 1);
    let colon = text[start..at].find(':')?;
    (start + colon + 1 < at).then(|| start + colon + 1..at)
}
