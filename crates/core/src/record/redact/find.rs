//! Searches a text for all kinds of secrets in one pass.
//!
//! A matcher, which is built once, finds the positions where a name or a token could begin. Most
//! texts have none. The rule for such a position then examines the text there.

use std::ops::Range;

use memchr::memmem;

use super::matcher::Matcher;
use super::names::{self, Class};
use super::{arguments, assigned, shapes, urls};
use crate::once::Once;

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) rule: Rule,
}

/// How a secret was recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
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

/// Texts that trigger other rules.
const SIGNS: &[&str] = &[
    shapes::PEM,
    "Basic ",
    "basic ",
    "sig=",
    "Sig=",
    "ignature=",
    "_pat=",
    "_PAT=",
    "_pat:",
    "_PAT:",
    "_pat\"",
    "_PAT\"",
    "@tcp(",
    "@unix(",
    "IDENTIFIED BY ",
    "identified by ",
    " -u ",
    " -U ",
    "-user ",
    "\"-u\"",
    "\"-U\"",
    "-user\"",
    "'-u'",
    "-u\\\"",
];

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

/// The rule for a position that the matcher found.
#[derive(Debug, Clone, Copy)]
enum Place {
    Name,
    Sign(&'static str),
    Program(&'static str),
    JsonWebToken,
    AmazonId,
    Vendor,
    /// Like `Vendor`, but the token begins one character later.
    VendorNext,
}

static MATCHER: Once<Matcher<Place>> = Once::new();

/// The matcher that includes the names from the settings. It is separate, because the settings may
/// be read after the first text was searched.
static WITH_ADDED_NAMES: Once<Matcher<Place>> = Once::new();

fn matcher() -> Matcher<Place> {
    let each = |texts: &'static [&'static str], place: fn(&'static str) -> Place| {
        texts.iter().map(move |&text| (text.to_owned(), place(text)))
    };
    let (added_short, added): (Vec<_>, Vec<_>) =
        names::added_words().partition(|word| word.len() < 4);
    let words = WORDS.iter().copied().chain(added).flat_map(in_each_case);
    let short_names = SHORT_NAMES.iter().copied().chain(added_short).flat_map(in_each_case);
    let short_names = short_names
        .flat_map(|name| AFTER_SHORT_NAMES.iter().map(move |after| format!("{name}{after}")));
    let vendors = shapes::VENDORS.iter().flat_map(|vendor| {
        // A prefix of three letters is matched together with the character before it.
        let short = BEFORE_SHORT_PREFIXES.iter().filter(|_| vendor.prefix.len() < 4);
        let short = short.map(|before| (format!("{before}{}", vendor.prefix), Place::VendorNext));
        short.chain([(vendor.prefix.to_owned(), Place::Vendor)])
    });
    Matcher::new(
        words
            .chain(short_names)
            .map(|name| (name, Place::Name))
            .chain(each(KEYS, |_| Place::Name))
            .chain(each(SIGNS, Place::Sign))
            .chain(each(PROGRAMS, Place::Program))
            .chain(each(JSON_WEB, |_| Place::JsonWebToken))
            .chain(each(shapes::AMAZON, |_| Place::AmazonId))
            .chain(vendors),
    )
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
pub(super) fn secrets(text: &str, is_cut: bool) -> Vec<Found> {
    if is_prose(text.as_bytes()) {
        return Vec::new();
    }
    let kept = if names::are_configured() { &WITH_ADDED_NAMES } else { &MATCHER };
    let matcher = kept.get_or_init(matcher);
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
fn apart(mut found: Vec<Found>) -> Vec<Found> {
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
    found: Vec<Found>,
    /// The position up to which the text needs no further check.
    clean_to: usize,
    /// The end of the last name that was checked. `command_end` is the same for commands.
    name_end: usize,
    command_end: usize,
}

impl Scan<'_> {
    fn run(&mut self, matcher: &Matcher<Place>) {
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
                (_, Some((at, place))) => {
                    if at >= self.clean_to {
                        self.place(at, place);
                    }
                    // Skips hidden text, because its end may look like the beginning of a token.
                    next_place = matcher.find(bytes, self.clean_to.max(at + 1));
                }
                _ => return,
            }
        }
    }

    fn place(&mut self, at: usize, place: Place) {
        let text = self.text;
        match place {
            Place::Name => self.name(at + 1),
            Place::Sign(sign) => self.sign(at, sign),
            Place::Program(program) => self.command(at, program),
            Place::JsonWebToken => {
                if let Some(token) = shapes::json_web_token(text, at) {
                    self.add(token, Rule::Look("JSON Web Token"));
                }
            }
            Place::AmazonId => {
                if let Some(id) = shapes::amazon_id(text, at) {
                    self.add(id, Rule::Look("id of an Amazon key"));
                }
            }
            Place::Vendor | Place::VendorNext => {
                let at = at + usize::from(matches!(place, Place::VendorNext));
                if let Some((range, prefix)) = shapes::vendor_token(text, at) {
                    self.add(range, Rule::Prefix(prefix));
                }
            }
        }
    }

    fn command(&mut self, at: usize, program: &str) {
        if at >= self.command_end {
            let found = &mut self.found;
            let add = |range| found.push(Found { range, rule: Rule::Look("option") });
            // `clean_to` stays, because the secrets are further on in the line and other rules must
            // check the text before them.
            self.command_end = arguments::in_line(self.text, at, program, add);
        }
    }

    fn add(&mut self, range: Range<usize>, rule: Rule) {
        if range.start >= self.clean_to && !range.is_empty() {
            self.clean_to = range.end;
            self.found.push(Found { range, rule });
        }
    }

    /// Checks the beginning of the text for prefixes that the matcher finds only after another
    /// character.
    fn beginning(&mut self) {
        if starts_with_token(self.text) {
            if self.text.starts_with("-") {
                self.option(0);
            } else if let Some((range, prefix)) = shapes::vendor_token(self.text, 0) {
                self.add(range, Rule::Prefix(prefix));
            }
        }
    }

    /// Checks the name around this position, and hides its value if that is a secret.
    fn name(&mut self, at: usize) {
        // This word is part of a name that was already checked.
        if at < self.name_end {
            return;
        }
        let text = self.text;
        let mut name = assigned::name_around(text, at);
        self.name_end = name.end;
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
            self.add(value, Rule::Name(name));
        } else if word.eq_ignore_ascii_case("bearer")
            && let Some(value) = shapes::scheme_value(text, name.end, false)
        {
            self.add(value, Rule::Look("bearer token"));
        }
    }

    fn sign(&mut self, at: usize, sign: &'static str) {
        let text = self.text;
        match sign {
            shapes::PEM => {
                if let Some(block) = shapes::pem_block(text, at) {
                    self.add(block, Rule::Look("PEM block"));
                }
            }
            "Basic " | "basic " => {
                if let Some(value) = shapes::scheme_value(text, at + "basic".len(), true) {
                    self.add(value, Rule::Look("basic authorization"));
                }
            }
            "@tcp(" | "@unix(" => {
                if let Some(secret) = urls::before_address(text, at) {
                    self.add(secret, Rule::Look("credentials in an address"));
                }
            }
            by if by.eq_ignore_ascii_case("identified by ") => {
                let start = at + by.len();
                if let Some(quote @ ('\'' | '"')) = text[start..].chars().next() {
                    let end =
                        text[start + 1..].find(quote).map_or(text.len(), |end| start + 1 + end);
                    self.add(start + 1..end, Rule::Look("IDENTIFIED BY"));
                }
            }
            _ if sign.contains("-u") || sign.contains("-U") => self.option(at),
            _ if sign.ends_with('=') && !sign.starts_with('_') => {
                // `sig=`, `X-Amz-Signature=` and similar parameters, in URLs without a scheme.
                let name = assigned::name_around(text, at);
                let value = &text[(at + sign.len()).min(text.len())..];
                let length = value
                    .bytes()
                    .take_while(|&byte| shapes::is_of_token(byte) || b"%+/=.~".contains(&byte))
                    .count();
                let is_parameter = text[..name.start].ends_with(['?', '&', ';', '=']);
                if is_parameter
                    && length >= 8
                    && urls::is_secret_parameter(&text[name.clone()], &value[..length])
                {
                    let start = at + sign.len();
                    self.add(start..start + length, Rule::Look("signature"));
                }
            }
            _ => self.name(at + 1),
        }
    }

    fn url(&mut self, at: usize) {
        let found = &mut self.found;
        urls::secrets(self.text, at, self.is_cut, |range, what| {
            found.push(Found { range, rule: Rule::Look(what) });
        });
        // Continues right after the last secret, because the rest of the URL may contain a token.
        if let Some(last) = self.found.last() {
            self.clean_to = self.clean_to.max(last.range.end);
        }
    }

    /// Checks an option that is followed by `user:password`.
    fn option(&mut self, at: usize) {
        let is_between = |c: char| matches!(c, ' ' | '"' | '\'' | ',' | '\\');
        let option = self.text[at..].trim_start_matches(is_between);
        let Some(length) = option.find(is_between) else { return };
        let value = option[length..].trim_start_matches(is_between);
        let start = self.text.len() - value.len();
        let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
        let end = end.unwrap_or(value.len());
        if let Some(password) = arguments::after_user(&self.text[start..start + end]) {
            self.add(start + password..start + end, Rule::Look("user and password"));
        }
    }
}
