//! Regular expressions of `$regex`, matched in time linear in the length of the text.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use super::operators::shortened;
use runlore_core::error::{Error, ErrorKind, Result};

/// The maximum length of a pattern in bytes, as in MongoDB.
const MAX_LENGTH: usize = 32_764;
/// The maximum memory of a compiled pattern. It rejects patterns such as `a{1000}{1000}`.
const MAX_COMPILED: usize = 4 << 20;

/// A pattern with its options. Two are equal if their source and options are equal.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    options: Box<str>,
    compiled: regex::Regex,
}

impl Pattern {
    pub fn new(source: &str, options: &str) -> Result<Self> {
        let refused = |why: String| Error::new(ErrorKind::Query, why);
        if let Some(unknown) = options.chars().find(|option| !"imsxu".contains(*option)) {
            let why = format!(
                "`$options` has no `{}`; valid are `i`, `m`, `s`, `x` and `u`",
                unknown.escape_debug()
            );
            return Err(refused(why));
        }
        if source.len() > MAX_LENGTH {
            return Err(refused(format!("a regular expression has at most {MAX_LENGTH} bytes")));
        }
        if is_possessive(source) {
            let shown = shortened(source);
            let why = format!(
                "`$regex` cannot use the regular expression `{shown}`: a `+` behind another quantifier, as in `a++`, is not supported"
            );
            return Err(refused(why));
        }
        let mut letters: Vec<char> = options.chars().collect();
        letters.sort_unstable();
        letters.dedup();
        let has = |option| letters.contains(&option);
        let compiled = regex::RegexBuilder::new(&translated(source, has('m')))
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .dot_matches_new_line(has('s'))
            .ignore_whitespace(has('x'))
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| refused(explained(source, &error)))?;
        Ok(Self { source: source.into(), options: letters.iter().collect(), compiled })
    }

    /// Returns the pattern as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the options in alphabetical order.
    pub fn options(&self) -> &str {
        &self.options
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.options) == (&other.source, &other.options)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{}", self.source, self.options)
    }
}

/// Reduces the `regex` crate's multi-line error to one sentence.
fn explained(source: &str, error: &regex::Error) -> String {
    let said = match error {
        regex::Error::CompiledTooBig(_) => "it would take too much memory".to_owned(),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    };
    let shown = shortened(source);
    format!("`$regex` cannot use the regular expression `{shown}`: {said}")
}

/// Translates a pattern from MongoDB's syntax to that of the `regex` crate.
///
/// `\d`, `\w`, `\s` and `\b` match ASCII only. `$` also matches before a final line feed. Brackets
/// and hyphens inside a class keep the meaning that they have in MongoDB.
fn translated(source: &str, multi_line: bool) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source.chars().peekable();
    let has_lines = multi_line || sets_multi_line(source);
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                None => out.push('\\'),
                Some('b') => out.push_str(r"(?-u:\b)"),
                Some('B') => out.push_str(r"(?-u:\B)"),
                Some(escaped) => push_escape(&mut out, escaped),
            },
            '$' if !has_lines => out.push_str(r"(?:\n?\z)"),
            '[' => {
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                push_class(&mut out, &mut rest);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(r"[\x20\t\n\r\x0B\x0C]"),
        'S' => out.push_str(r"[^\x20\t\n\r\x0B\x0C]"),
        other => out.extend(['\\', other]),
    }
}

/// Translates a class, starting after its opening bracket. The `regex` crate has operators inside
/// classes that MongoDB lacks, such as `--`.
fn push_class(out: &mut String, rest: &mut Peekable<Chars<'_>>) {
    // A `]` at the very beginning is a literal.
    let mut is_first = true;
    // Whether the previous item may start a range.
    let mut can_begin = false;
    while let Some(character) = rest.next() {
        let was_first = std::mem::take(&mut is_first);
        match character {
            ']' if !was_first => return out.push(']'),
            '\\' => {
                let escaped = rest.next();
                can_begin = escaped.is_some_and(|escaped| !"dDwWsSpP".contains(escaped));
                match escaped {
                    Some(escaped) => push_escape(out, escaped),
                    None => out.push('\\'),
                }
            }
            '[' if rest.peek() == Some(&':') => {
                // A named class such as `[:alpha:]`; its `]` does not end the outer class.
                out.push('[');
                while let Some(inner) = rest.next_if(|inner| *inner != ']') {
                    out.push(inner);
                }
                out.extend(rest.next());
                can_begin = false;
            }
            '-' if can_begin && begins_no_class(rest) => {
                out.push('-');
                if let Some(end) = rest.next_if(|end| *end != '\\') {
                    push_literal(out, end);
                } else if let (Some(_), Some(escaped)) = (rest.next(), rest.next()) {
                    push_escape(out, escaped);
                }
                can_begin = false;
            }
            other => {
                push_literal(out, other);
                can_begin = true;
            }
        }
    }
}

/// Returns whether a range's upper bound follows the hyphen. `false` before the end of the class
/// or before a nested class.
fn begins_no_class(rest: &Peekable<Chars<'_>>) -> bool {
    let mut ahead = rest.clone();
    match (ahead.next(), ahead.next()) {
        (None | Some(']'), _) | (Some('['), Some(':')) => false,
        (Some('\\'), Some(escaped)) => !"dDwWsSpP".contains(escaped),
        _ => true,
    }
}

/// Appends a literal character of a class, escaped if necessary.
fn push_literal(out: &mut String, character: char) {
    match character {
        '[' | ']' | '-' | '&' | '~' | '^' | '#' => out.extend(['\\', character]),
        // With the option `x`, the `regex` crate would ignore it.
        white if white.is_whitespace() => out.push_str(&format!(r"\x{{{:x}}}", u32::from(white))),
        other => out.push(other),
    }
}

/// Returns whether a `+` follows another quantifier, as in `a++`.
///
/// In MongoDB this is a possessive quantifier, which never backtracks. The `regex` crate does not
/// support it and would parse it as a nested repetition.
fn is_possessive(source: &str) -> bool {
    let mut rest = source.chars().peekable();
    // The text of the counted repetition `{…}` read so far. `None` outside of one.
    let mut counted: Option<String> = None;
    let mut is_repeated = false;
    while let Some(character) = rest.next() {
        let was_repeated = std::mem::take(&mut is_repeated);
        if let Some(count) = &mut counted {
            match character {
                '0'..='9' | ',' => {
                    count.push(character);
                    continue;
                }
                '}' => is_repeated = count.starts_with(|digit: char| digit.is_ascii_digit()),
                _ => {}
            }
            counted = None;
            if character == '}' {
                continue;
            }
        }
        match character {
            '\\' => _ = rest.next(),
            '[' => {
                rest.next_if_eq(&'^');
                push_class(&mut String::new(), &mut rest);
            }
            '(' => _ = rest.next_if_eq(&'?'),
            '{' => counted = Some(String::new()),
            '+' if was_repeated => return true,
            // After another quantifier, `?` makes that one lazy.
            '?' if was_repeated => {}
            '+' | '*' | '?' => is_repeated = true,
            _ => {}
        }
    }
    false
}

/// Returns whether the pattern sets the multi-line flag itself, as in `(?m)` or `(?im:…)`.
fn sets_multi_line(source: &str) -> bool {
    source.split("(?").skip(1).any(|rest| {
        let flags = rest.split([')', ':']).next().unwrap_or_default();
        flags.contains('m') && flags.chars().all(|flag| "imsxU-".contains(flag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(source: &str, options: &str, text: &str) -> bool {
        Pattern::new(source, options).unwrap().is_match(text)
    }

    #[test]
    fn classes_are_about_ascii_and_case_is_not() {
        assert!(matches(r"^\d+$", "", "42"));
        assert!(!matches(r"\d", "", "٣"));
        assert!(!matches(r"\w", "", "é"));
        assert!(matches("É", "i", "é"));
        assert!(matches(r"[\d_]x\b", "", "9x é"));
        assert!(matches(r"[^\s]\Bb", "", "ab"));
    }

    #[test]
    fn an_end_may_have_a_last_line_feed() {
        assert!(matches("ab$", "", "ab\n"));
        assert!(!matches("ab$", "", "ab\nc"));
        assert!(matches("ab$", "m", "ab\nc"));
        assert!(matches(r"a\$|b$", "", "a$"));
        assert!(matches("[$]", "", "$"));
        assert!(matches("^(?:a|b)$", "", "b\n"));
        assert!(matches("(?m)^b$", "", "a\nb\nc"));
    }

    #[test]
    fn brackets_inside_a_class_are_characters() {
        assert!(matches("^[[]$", "", "["));
        assert!(matches("^[]a]$", "", "]"));
        assert!(matches("^[^]a]$", "", "b"));
        assert!(matches("^[&&~~]+$", "", "~&"));
        assert!(matches("^[[:alpha:]_]+$", "", "a_"));
    }

    #[test]
    fn hyphens_inside_a_class_are_ranges_or_characters() {
        let is = |source: &str, text: &str| matches(&format!("^{source}+$"), "", text);
        assert!(is("[+--]", "+,-") && !is("[+--]", "."));
        assert!(is("[--/]", "-./") && !is("[--/]", ","));
        assert!(is("[a-]", "a-") && is("[-a]", "a-") && !is("[a-]", "b"));
        assert!(is("[a-c-e]", "abc-e") && !is("[a-c-e]", "d"));
        assert!(is(r"[\d-z]", "1-z") && !is(r"[\d-z]", "a"));
        assert!(is(r"[A-\d]", "A-1") && !is(r"[A-\d]", "B"));
        assert!(is("[[:digit:]-z]", "1-z") && is("[!-[:digit:]]", "!-1"));
        assert!(is(r"[\x41-\x43]", "ABC") && is(r"[\--/]", "-./") && is(r"[+-\-]", "+,-"));
        assert!(is("[]-a]", "]^a") && is("[^]-a]", "b") && !is("[^]-a]", "^"));
        assert!(is("[a^]", "a^"));
        assert!(matches("^[a #]+$", "x", "a #"));
    }

    #[test]
    fn what_cannot_be_used_is_told_in_one_line() {
        for (source, options) in [
            ("(", ""),
            ("a(?=b)", ""),
            (r"(a)\1", ""),
            ("a{999}{999}{999}", ""),
            ("a++", ""),
            ("(a|b)*+c", ""),
            (r"[a\]]?+", ""),
            ("a{2,}+", ""),
            ("a", "q"),
            ("\\", ""),
            ("[", ""),
        ] {
            let told = Pattern::new(source, options).unwrap_err().to_string();
            assert!(!told.contains('\n'), "{told}");
        }
        for usable in
            ["a+?", r"\++", "[+]+", "a}+", r"a\*+", "(?:a+)+", "a{2}{3}", "x{,3}y", "a+b+"]
        {
            assert!(!is_possessive(usable), "{usable}");
        }
        assert!(Pattern::new(&"(".repeat(10_000), "").is_err());
        assert!(Pattern::new(&"a".repeat(40_000), "").is_err());
    }
}
