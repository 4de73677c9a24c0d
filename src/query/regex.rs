//! Regular expressions of `$regex`, in time linear in the text.

use std::fmt;

use super::operators::shortened;
use crate::error::{Error, ErrorKind, Result};

/// As long as MongoDB allows.
const MAX_LENGTH: usize = 32_764;
/// How much memory a compiled expression may take: `a{1000}{1000}` is refused.
const MAX_COMPILED: usize = 4 << 20;

/// A pattern with its options. Two are equal if they are written the same.
#[derive(Clone)]
pub(crate) struct Pattern {
    source: Box<str>,
    options: Box<str>,
    compiled: regex::Regex,
}

impl Pattern {
    pub(crate) fn new(source: &str, options: &str) -> Result<Self> {
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

    /// The pattern as it was written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Its options, in the order of the alphabet.
    pub(crate) fn options(&self) -> &str {
        &self.options
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
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

/// One sentence of what the library says in a drawing.
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

/// Says in the library's words what the pattern means to MongoDB: `\d`, `\w`, `\s` and `\b` are about ASCII, `$` also stands
/// before a last line feed, and a bracket inside a class is a bracket.
fn translated(source: &str, multi_line: bool) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source.chars().peekable();
    // The number of characters since a class began.
    let mut in_class: Option<usize> = None;
    let has_lines = multi_line || sets_multi_line(source);
    while let Some(character) = rest.next() {
        if let Some(since) = &mut in_class {
            *since += 1;
        }
        match character {
            '\\' => {
                let Some(escaped) = rest.next() else {
                    out.push('\\');
                    break;
                };
                match escaped {
                    'd' => out.push_str("[0-9]"),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str("[0-9A-Za-z_]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' => out.push_str(r"[\x20\t\n\r\x0B\x0C]"),
                    'S' => out.push_str(r"[^\x20\t\n\r\x0B\x0C]"),
                    'b' if in_class.is_none() => out.push_str(r"(?-u:\b)"),
                    'B' if in_class.is_none() => out.push_str(r"(?-u:\B)"),
                    other => out.extend(['\\', other]),
                }
            }
            '$' if in_class.is_none() && !has_lines => out.push_str(r"(?:\n?\z)"),
            '[' if in_class.is_none() => {
                in_class = Some(0);
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '[' if rest.peek() != Some(&':') => out.push_str(r"\["),
            '[' => {
                // `[:alpha:]`, which ends before the class does.
                out.push('[');
                while let Some(inner) = rest.next_if(|inner| *inner != ']') {
                    out.push(inner);
                }
                out.extend(rest.next());
            }
            '&' | '~' if in_class.is_some() => out.extend(['\\', character]),
            // Right at the beginning of a class, it is one of its characters.
            ']' if in_class.is_some_and(|since| since > 1) => {
                in_class = None;
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether the pattern itself says somewhere that `^` and `$` are about lines: `(?m)`, `(?im:…)`.
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
    fn what_cannot_be_used_is_told_in_one_line() {
        for (source, options) in [
            ("(", ""),
            ("a(?=b)", ""),
            (r"(a)\1", ""),
            ("a{999}{999}{999}", ""),
            ("a", "q"),
            ("\\", ""),
            ("[", ""),
        ] {
            let told = Pattern::new(source, options).unwrap_err().to_string();
            assert!(!told.contains('\n'), "{told}");
        }
        assert!(Pattern::new(&"(".repeat(10_000), "").is_err());
        assert!(Pattern::new(&"a".repeat(40_000), "").is_err());
    }
}
