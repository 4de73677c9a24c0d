//! Searches a text for all kinds of secrets in one pass.
//!
//! A matcher, which is built once, finds the positions where a name or a token could begin. Most
//! texts have none. The rule for such a position then examines the text there.

use std::ops::Range;
use std::sync::OnceLock;

use memchr::memmem;

use super::matcher::Matcher;
use super::names::{self, Class};
use super::{arguments, assigned, shapes, urls};
use crate::fork::get_or_make;

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretRange {
    pub(super) range: Range<usize>,
    pub(super) reason: Reason,
}

/// How a secret was recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// By the name before it. The range is the name's position in the text.
    Name(Range<usize>),
    /// By the prefix that a vendor's tokens begin with.
    Prefix(&'static str),
    /// By something else about its look or its position.
    Look(&'static str),
}

/// Parts of words that occur in names of secrets. The matcher needs at least four letters.
const WORDS: &[&str] = &[
    "pass", "secr", "toke", "cred", "auth", "bear", "cook", "sess", "priv", "conn", "mnem", "phra",
    "code", "oaut",
];

/// Parts of names with `key`: mostly `key` and the letter before it, because the matcher needs four
/// letters.
const KEYS: &[&str] = &[
    "_key", "-key", ".key", " key", " Key", " KEY", "_KEY", "-KEY", "_Key", "-Key", "apik", "apiK",
    "APIK", "ApiK", "Apik", "sKey", "gKey", "nKey", "hKey", "eKey", "tKey", "rKey", "dKey", "pKey",
    "skey", "tkey", "ekey", "gkey", "hkey", "rkey", "SKEY", "TKEY", "EKEY",
];

/// Names of three letters. The matcher searches for them together with the character after them.
const SHORT_NAMES: &[&str] = &["pwd", "_pw", "jwt", "otp", "dsn", "pin"];
const AFTER_SHORT_NAMES: &[char] = &['=', ':', '"', '\'', ' ', '\\'];

/// Programs with options that hold a secret although their names do not show it.
const PROGRAMS: &[&str] = &[
    "curl",
    "mysql",
    "mariadb",
    "mongo",
    "redis-cli",
    "sshpass",
    "docker",
    "podman",
    "ldapsearch",
    "smbclient",
    "sqlcmd",
    "unzip",
    "openssl",
];

/// How JSON Web Tokens begin: `{"` in base64, and the first letter of a field of the header.
const JSON_WEB: &[&str] = &[
    "eyJh", "eyJ0", "eyJr", "eyJl", "eyJj", "eyJq", "eyJ4", "eyJ6", "eyJp", "eyJz", "eyJ1", "eyAi",
    "ewog",
];

/// Characters that may precede a prefix of three letters.
const BEFORE_SHORT_PREFIXES: &[char] =
    &[' ', '"', '\'', '=', ':', '/', '(', ',', '\n', '[', '>', '`'];

/// Examines a position at which the matcher found this text.
type Rule = fn(&mut Scan<'_>, usize, &'static str);

/// The texts to search for, with the rule that examines each. The words of names and the prefixes
/// of vendors come on top; see [`matcher`].
const RULES: &[(&[&str], Rule)] = &[
    (KEYS, name_after),
    (&["_pat=", "_PAT=", "_pat:", "_PAT:", "_pat\"", "_PAT\""], name_after),
    (&["sig=", "Sig=", "ignature="], signature),
    (&[shapes::PEM], pem_block),
    (&["Basic ", "basic "], basic),
    (&["@tcp(", "@unix("], address),
    (&["IDENTIFIED BY ", "identified by "], identified_by),
    (&[" -u ", " -U ", "-user ", "\"-u\"", "\"-U\"", "-user\"", "'-u'", "-u\\\""], option),
    (PROGRAMS, command),
    (JSON_WEB, json_web_token),
    (shapes::AMAZON, amazon_id),
];

static MATCHER: OnceLock<Matcher<(Rule, &'static str)>> = OnceLock::new();

/// The matcher that includes the names from the settings. It is separate, because the settings may
/// be read after the first text was searched.
static WITH_ADDED_NAMES: OnceLock<Matcher<(Rule, &'static str)>> = OnceLock::new();

fn matcher() -> Matcher<(Rule, &'static str)> {
    let (added_short, added): (Vec<_>, Vec<_>) =
        names::added_words().partition(|word| word.len() < 4);
    let words = WORDS.iter().copied().chain(added).flat_map(in_each_case);
    let short_names = SHORT_NAMES.iter().copied().chain(added_short).flat_map(in_each_case);
    let short_names = short_names
        .flat_map(|name| AFTER_SHORT_NAMES.iter().map(move |after| format!("{name}{after}")));
    let names = words.chain(short_names).map(|name| (name, (name_after as Rule, "")));
    let prefixes = shapes::VENDORS.iter().map(|vendor| vendor.prefix);
    // A prefix of three letters is matched together with the character before it.
    let vendors = prefixes.flat_map(|prefix| {
        let short = BEFORE_SHORT_PREFIXES.iter().filter(move |_| prefix.len() < 4);
        let short =
            short.map(move |before| (format!("{before}{prefix}"), (vendor_after as Rule, "")));
        short.chain([(prefix.to_owned(), (vendor as Rule, ""))])
    });
    let others = RULES
        .iter()
        .flat_map(|&(texts, rule)| texts.iter().map(move |&text| (text.to_owned(), (rule, text))));
    Matcher::new(names.chain(others).chain(vendors))
}

fn in_each_case(word: &str) -> [String; 3] {
    let mut capital = word.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    [word.to_owned(), capital, word.to_ascii_uppercase()]
}

/// Returns the secrets of a text, in order and without overlaps. `is_cut` means that the text is
/// the beginning of a longer one.
pub(super) fn secrets(text: &str, is_cut: bool) -> Vec<SecretRange> {
    if is_prose(text.as_bytes()) {
        return Vec::new();
    }
    let kept = if names::are_configured() { &WITH_ADDED_NAMES } else { &MATCHER };
    let matcher = get_or_make(kept, matcher);
    let mut scan =
        Scan { text, is_cut, found: Vec::new(), clean_to: 0, name_end: 0, command_end: 0 };
    scan.beginning();
    scan.run(matcher);
    if scan.found.is_empty() { scan.found } else { apart(scan.found) }
}

/// Whether a text is plain prose: words, blanks, dots and commas. Such a text contains no secret,
/// because a secret has another sign before it or digits in it.
///
/// The compiler vectorizes this function, so that prose is recognized quickly.
fn is_prose(text: &[u8]) -> bool {
    let is_of_prose = |byte: u8| {
        // Evaluates all conditions without short-circuiting, because vector code cannot branch.
        ((byte | 0x20).wrapping_sub(b'a') < 26)
            | (byte == b' ')
            | (byte == b'\n')
            | (byte == b'.')
            | (byte == b',')
            | (byte >= 0x80)
    };
    let (chunks, rest) = text.as_chunks::<16>();
    let is_words = |chunk: &[u8; 16]| {
        let all =
            chunk.map(|byte| u8::from(is_of_prose(byte))).into_iter().fold(1, |all, is| all & is);
        // Sixteen bytes without a blank may be a token.
        let blanks =
            chunk.map(|byte| u8::from(byte <= b' ')).into_iter().fold(0, |any, is| any | is);
        all & blanks == 1
    };
    chunks.iter().all(is_words)
        && rest.iter().all(|&byte| is_of_prose(byte))
        && memmem::find(text, b"login ").is_none()
}

/// Sorts the secrets and merges those that overlap.
fn apart(mut found: Vec<SecretRange>) -> Vec<SecretRange> {
    found.sort_by_key(|secret| secret.range.start);
    found.dedup_by(|later, earlier| {
        let overlaps = later.range.start < earlier.range.end;
        if overlaps {
            earlier.range.end = earlier.range.end.max(later.range.end);
        }
        overlaps
    });
    found
}

/// Whether the text begins with a prefix that the matcher finds only after another character.
fn starts_with_token(text: &str) -> bool {
    matches!(
        text.as_bytes(),
        [b'h', b'f', b'_', ..]
            | [b's', b'k', b'-', ..]
            | [b'S', b'G', b'.', ..]
            | [b'-', b'u' | b'U', b' ', ..]
    )
}

struct Scan<'t> {
    text: &'t str,
    is_cut: bool,
    found: Vec<SecretRange>,
    /// The position up to which the text needs no further check.
    clean_to: usize,
    /// The end of the last name that was checked. `command_end` is the same for commands.
    name_end: usize,
    command_end: usize,
}

impl Scan<'_> {
    fn run(&mut self, matcher: &Matcher<(Rule, &'static str)>) {
        let bytes = self.text.as_bytes();
        let url_from = |from: usize| memmem::find(bytes.get(from..)?, b"://").map(|at| from + at);
        let mut next_url = url_from(0);
        let mut next_place = matcher.find(bytes, 0);
        loop {
            match (next_url, next_place) {
                (Some(url), place) if place.is_none_or(|(at, _)| url < at) => {
                    if url >= self.clean_to {
                        self.url(url);
                    }
                    next_url = url_from(self.clean_to.max(url + 1));
                }
                (_, Some((at, (rule, found)))) => {
                    if at >= self.clean_to {
                        rule(self, at, found);
                    }
                    // Skips hidden text, because its end may look like the beginning of a token.
                    next_place = matcher.find(bytes, self.clean_to.max(at + 1));
                }
                _ => return,
            }
        }
    }

    fn add(&mut self, range: Range<usize>, reason: Reason) {
        if range.start >= self.clean_to && !range.is_empty() {
            self.clean_to = range.end;
            self.found.push(SecretRange { range, reason });
        }
    }

    /// Checks the beginning of the text for prefixes that the matcher finds only after another
    /// character.
    fn beginning(&mut self) {
        if starts_with_token(self.text) {
            if self.text.starts_with("-") {
                option(self, 0, "");
            } else {
                vendor(self, 0, "");
            }
        }
    }

    fn url(&mut self, at: usize) {
        let found = &mut self.found;
        urls::secrets(self.text, at, self.is_cut, |range, what| {
            found.push(SecretRange { range, reason: Reason::Look(what) });
        });
        // Continues right after the last secret, because the rest of the URL may contain a token.
        if let Some(last) = self.found.last() {
            self.clean_to = self.clean_to.max(last.range.end);
        }
    }
}

fn json_web_token(scan: &mut Scan<'_>, at: usize, _: &str) {
    if let Some(token) = shapes::json_web_token(scan.text, at) {
        scan.add(token, Reason::Look("JSON Web Token"));
    }
}

fn amazon_id(scan: &mut Scan<'_>, at: usize, _: &str) {
    if let Some(id) = shapes::amazon_id(scan.text, at) {
        scan.add(id, Reason::Look("id of an Amazon key"));
    }
}

fn vendor(scan: &mut Scan<'_>, at: usize, _: &str) {
    if let Some((range, prefix)) = shapes::vendor_token(scan.text, at) {
        scan.add(range, Reason::Prefix(prefix));
    }
}

/// Like `vendor`, but the token begins after one character.
fn vendor_after(scan: &mut Scan<'_>, at: usize, found: &str) {
    vendor(scan, at + 1, found);
}

fn pem_block(scan: &mut Scan<'_>, at: usize, _: &str) {
    if let Some(block) = shapes::pem_block(scan.text, at) {
        scan.add(block, Reason::Look("PEM block"));
    }
}

fn basic(scan: &mut Scan<'_>, at: usize, found: &str) {
    if let Some(value) = shapes::scheme_value(scan.text, at + found.len() - 1, true) {
        scan.add(value, Reason::Look("basic authorization"));
    }
}

fn address(scan: &mut Scan<'_>, at: usize, _: &str) {
    if let Some(secret) = urls::before_address(scan.text, at) {
        scan.add(secret, Reason::Look("credentials in an address"));
    }
}

fn identified_by(scan: &mut Scan<'_>, at: usize, found: &str) {
    let start = at + found.len();
    if let Some(quote @ ('\'' | '"')) = scan.text[start..].chars().next() {
        let rest = &scan.text[start + 1..];
        let length = rest.find(quote).unwrap_or(rest.len());
        scan.add(start + 1..start + 1 + length, Reason::Look("IDENTIFIED BY"));
    }
}

/// Checks `sig=`, `X-Amz-Signature=` and similar parameters, in URLs without a scheme.
fn signature(scan: &mut Scan<'_>, at: usize, found: &str) {
    let text = scan.text;
    let name = assigned::name_around(text, at);
    let start = at + found.len();
    let value = &text[start..];
    let length = value
        .bytes()
        .take_while(|&byte| shapes::is_of_token(byte) || b"%+/=.~".contains(&byte))
        .count();
    let is_parameter = text[..name.start].ends_with(['?', '&', ';', '=']);
    if is_parameter && length >= 8 && urls::is_secret_parameter(&text[name], &value[..length]) {
        scan.add(start..start + length, Reason::Look("signature"));
    }
}

fn command(scan: &mut Scan<'_>, at: usize, program: &str) {
    if at >= scan.command_end {
        let found = &mut scan.found;
        let add = |range| found.push(SecretRange { range, reason: Reason::Look("option") });
        // `clean_to` stays, because the secrets are further on in the line and other rules must
        // check the text before them.
        scan.command_end = arguments::in_line(scan.text, at, program, add);
    }
}

/// Checks the name around the character after this position, and hides its value if that is a
/// secret.
fn name_after(scan: &mut Scan<'_>, at: usize, _: &str) {
    let at = at + 1;
    // This word is part of a name that was already checked.
    if at < scan.name_end {
        return;
    }
    let text = scan.text;
    let mut name = assigned::name_around(text, at);
    scan.name_end = name.end;
    if matches!(text[name.clone()].to_ascii_lowercase().as_str(), "key" | "keys")
        && text[..name.start].ends_with(' ')
    {
        // As in `API key: …`.
        name.start = assigned::name_around(text, name.start - 1).start;
    }
    let word = &text[name.clone()];
    let class = names::class(word);
    if class == Class::Plain {
        return;
    }
    if let Some(value) = assigned::value(text, name.clone(), class) {
        scan.add(value, Reason::Name(name));
    } else if word.eq_ignore_ascii_case("bearer")
        && let Some(value) = shapes::scheme_value(text, name.end, false)
    {
        scan.add(value, Reason::Look("bearer token"));
    }
}

/// Checks an option that is followed by `user:password`.
fn option(scan: &mut Scan<'_>, at: usize, _: &str) {
    let is_between = |c: char| matches!(c, ' ' | '"' | '\'' | ',' | '\\');
    let option = scan.text[at..].trim_start_matches(is_between);
    let Some(length) = option.find(is_between) else { return };
    let value = option[length..].trim_start_matches(is_between);
    let start = scan.text.len() - value.len();
    let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
    let end = end.unwrap_or(value.len());
    if let Some(password) = arguments::after_user(&scan.text[start..start + end]) {
        scan.add(start + password..start + end, Reason::Look("user and password"));
    }
}
