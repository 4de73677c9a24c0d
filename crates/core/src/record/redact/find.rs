//! One look through a text for everything that may be a secret.
//!
//! A kept matcher finds the places where a name or a token could begin; most texts have none. The rule for such a place
//! then looks at what is there.

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

/// What a secret is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// The name before it, which is there in the text.
    Name(Range<usize>),
    /// The letters that a vendor's tokens begin with.
    Prefix(&'static str),
    /// Something else about its look or its place.
    Look(&'static str),
}

/// Words that names of secrets have in them. The matcher needs four letters or more.
const WORDS: &[&str] = &[
    "pass", "secr", "toke", "cred", "auth", "bear", "cook", "sess", "priv", "conn", "mnem", "phra",
    "code", "oaut",
];

/// `key`, with the letter before it.
const KEYS: &[&str] = &[
    "_key", "-key", ".key", " key", " Key", " KEY", "_KEY", "-KEY", "_Key", "-Key", "apik", "apiK",
    "APIK", "ApiK", "Apik", "sKey", "gKey", "nKey", "hKey", "eKey", "tKey", "rKey", "dKey", "pKey",
    "skey", "tkey", "ekey", "gkey", "hkey", "rkey", "SKEY", "TKEY", "EKEY",
];

/// Names of three letters, with what may follow them.
const SHORT_NAMES: &[&str] = &["pwd", "_pw", "jwt", "otp", "dsn", "pin"];
const AFTER_SHORT_NAMES: &[char] = &['=', ':', '"', '\'', ' ', '\\'];

/// Beginnings of other rules.
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

/// Programs with options that name no secret and hold one.
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

/// What JSON Web Tokens begin with: `{"` in base64, and the first letter of a header's field.
const JSON_WEB: &[&str] = &[
    "eyJh", "eyJ0", "eyJr", "eyJl", "eyJj", "eyJq", "eyJ4", "eyJ6", "eyJp", "eyJz", "eyJ1", "eyAi",
    "ewog",
];

/// What may stand before a prefix of three letters.
const BEFORE_SHORT_PREFIXES: &[char] =
    &[' ', '"', '\'', '=', ':', '/', '(', ',', '\n', '[', '>', '`'];

/// The rule that looks at a place.
#[derive(Debug, Clone, Copy)]
enum Place {
    Name,
    Sign(&'static str),
    Program(&'static str),
    JsonWebToken,
    AmazonId,
    Vendor,
    /// The token begins one letter later.
    VendorNext,
}

static MATCHER: Once<Matcher<Place>> = Once::new();

/// The matcher with the names that the settings add, which may be read after the first text.
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
        // A prefix of three letters is found with the one before it.
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

/// The secrets of a text, in order and apart from each other. `is_cut` says that the text is the beginning of a longer one.
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

/// Whether a text is words with blanks between them: a secret has a sign before it, or digits in it. The compiler makes
/// vector instructions of it, so that prose is done with soon.
fn is_prose(text: &[u8]) -> bool {
    let is_of_prose = |byte: u8| {
        // All of it, whatever comes first: there is no jump among vectors.
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
        // A word of more than sixteen letters is a token.
        let blanks =
            chunk.map(|byte| u8::from(byte <= b' ')).into_iter().fold(0, |any, is| any | is);
        all & blanks == 1
    };
    chunks.iter().all(is_words)
        && rest.iter().all(|&byte| is_of_prose(byte))
        && memmem::find(text, b"login ").is_none()
}

/// The secrets in order; those that overlap are one.
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

/// Whether it begins with a prefix that the matcher knows only after another letter.
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
    /// What comes before is done with.
    clean_to: usize,
    /// Where the last name ends that was looked at, and the last command.
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
                    // What begins a token may be the end of what was hidden before it.
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
            // The secrets are further on in the line; other rules look at what is before them.
            self.command_end = arguments::in_line(self.text, at, program, add);
        }
    }

    fn add(&mut self, range: Range<usize>, rule: Rule) {
        if range.start >= self.clean_to && !range.is_empty() {
            self.clean_to = range.end;
            self.found.push(Found { range, rule });
        }
    }

    /// What the matcher finds only after another letter.
    fn beginning(&mut self) {
        if starts_with_token(self.text) {
            if self.text.starts_with("-") {
                self.option(0);
            } else if let Some((range, prefix)) = shapes::vendor_token(self.text, 0) {
                self.add(range, Rule::Prefix(prefix));
            }
        }
    }

    /// A name around this place, and the value that it has.
    fn name(&mut self, at: usize) {
        // A word that begins inside a name is a part of it.
        if at < self.name_end {
            return;
        }
        let text = self.text;
        let mut name = assigned::name_around(text, at);
        self.name_end = name.end;
        if matches!(text[name.clone()].to_ascii_lowercase().as_str(), "key" | "keys")
            && text[..name.start].ends_with(' ')
        {
            // `API key: …`
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
                // `sig=`, `X-Amz-Signature=` and the like, in URLs without a scheme.
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
        // What follows a password may be a token by its look.
        if let Some(last) = self.found.last() {
            self.clean_to = self.clean_to.max(last.range.end);
        }
    }

    /// An option that `user:password` follows.
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
