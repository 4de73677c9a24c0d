//! Finds the value that follows a name in a text: `password=x`, `"password": "x"`,
//! `("password", "x")`, `--password x`, `<password>x</password>`.

use std::ops::Range;

use super::names::{Class, is_variable};
use super::shapes::{has_digit, looks_random};

/// The length of the longest name that is recognized in a text.
const LONGEST: usize = 80;

/// Returns the name around this position. Empty if it is too long.
pub(super) fn name_around(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let is_of_name = |&&byte: &&u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || !byte.is_ascii()
    };
    let before = bytes[..at].iter().rev().take(LONGEST).take_while(is_of_name).count();
    let after = bytes[at..].iter().take(LONGEST).take_while(is_of_name).count();
    // A name that is too long may be cut inside a character. It is not the name of a secret.
    let is_short = before + after <= LONGEST;
    if is_short && text.is_char_boundary(at - before) && text.is_char_boundary(at + after) {
        at - before..at + after
    } else {
        at..at
    }
}

/// What separates a name from its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equals,
    Colon,
    /// The value is the next item of a list or pair.
    Comma,
    /// The value is the next word.
    Space,
    /// The value is the content of an XML element.
    Element,
}

/// Returns the position of the secret that belongs to this name, if it has one.
pub(super) fn value(text: &str, name: Range<usize>, class: Class) -> Option<Range<usize>> {
    if let Some(inside) = of_type(text, &name, class) {
        return Some(inside);
    }
    let (sign, at) = sign(text, &name, class)?;
    if text[at..].starts_with(super::REDACTED) {
        return None;
    }
    let word = &text[name.clone()];
    let start = at + blanks(&text[at..]);
    let value = &text[start..];
    if sign == Sign::Element {
        let end = value.find('<')?;
        return (end > 0 && value[end..].starts_with("</")).then(|| start..start + end);
    }
    let is_header = is_header(word);
    if let Some(quoted) = quoted(text, start) {
        // A quoted value is hidden up to its closing quote, even for a header.
        return keeps(&text[quoted.clone()], class, word)
            .then_some(quoted)
            .filter(|quoted| !quoted.is_empty());
    }
    match sign {
        Sign::Comma => return group(text, start).filter(|_| class >= Class::Secret),
        Sign::Colon if is_header && !value.starts_with(['[', '{']) => return header(text, start),
        Sign::Space if value.starts_with("--") => return None,
        _ => {}
    }
    if let Some(block) = block(text, &name, start).filter(|_| sign == Sign::Colon) {
        return Some(block);
    }
    if let Some(group) = group(text, start) {
        let has_text = || text[group.clone()].contains(['"', '\'']);
        return (class >= Class::Secret || has_text() && !text[start..].starts_with(['{', '[']))
            .then_some(group);
    }
    bare(text, &name, start, sign, class)
}

/// Returns the content of a type that is named after a secret, in `Debug` output: `Password("x")`.
/// `Token` is excluded, because it may be a token of a tokenized text.
fn of_type(text: &str, name: &Range<usize>, class: Class) -> Option<Range<usize>> {
    let word = &text[name.clone()];
    let is_type = word.starts_with(|c: char| c.is_ascii_uppercase())
        && word != "Token"
        && class >= Class::Secret;
    if !is_type || !text[name.end..].starts_with('(') {
        return None;
    }
    let inside = group(text, name.end)?;
    let is_text = opens_quote(&text[inside.clone()]) || class == Class::Strict;
    is_text.then_some(inside)
}

/// Returns what separates the name from its value, and where the separator ends.
fn sign(text: &str, name: &Range<usize>, class: Class) -> Option<(Sign, usize)> {
    let bytes = text.as_bytes();
    let closing = closing_quote(bytes, name.end);
    let mut at = closing.unwrap_or(name.end);
    if bytes.get(at) == Some(&b']') {
        at += 1;
    }
    let after_blanks = at + blanks(&text[at..]);
    let rest = &bytes[after_blanks..];
    let sign = match rest {
        [b'=', b'>' | b'=', ..] => (Sign::Equals, after_blanks + 2),
        [b'=', ..] => (Sign::Equals, after_blanks + 1),
        // A path such as `module::Type` has no value.
        [b':', b':', ..] => return None,
        [b':', b'=', ..] => (Sign::Equals, after_blanks + 2),
        // A name before `://` is the scheme of a URL, which has its own rules.
        [b':', b'/', b'/', ..] => return None,
        [b':', ..] => (Sign::Colon, after_blanks + 1),
        [b'-', b'>', ..] => (Sign::Equals, after_blanks + 2),
        [b'%', b'3', b'D' | b'd', ..] => (Sign::Equals, after_blanks + 3),
        [b'%', b'3', b'A' | b'a', ..] => (Sign::Colon, after_blanks + 3),
        [b',', ..] if closing.is_some() => return listed(text, name, after_blanks + 1),
        [b'>', ..] if bytes[..name.start].ends_with(b"<") => (Sign::Element, after_blanks + 1),
        _ if after_blanks > at => return spaced(text, name, after_blanks, class),
        _ => return None,
    };
    Some(sign)
}

/// Returns the end of the quote, possibly escaped, that closes the name at `at`.
fn closing_quote(bytes: &[u8], at: usize) -> Option<usize> {
    let escapes = bytes[at..].iter().take_while(|&&byte| byte == b'\\').count();
    matches!(bytes.get(at + escapes), Some(b'"' | b'\'' | b'`')).then(|| at + escapes + 1)
}

/// Handles a quoted name and a comma: `("password", "x")`, `["--password", "x"]`, or
/// `name: "password", value: "x"`.
fn listed(text: &str, name: &Range<usize>, after_comma: usize) -> Option<(Sign, usize)> {
    const VALUES: &[&str] =
        &["value", "val", "values", "content", "data", "string_value", "stringValue", "raw_value"];
    let start = after_comma + blanks(&text[after_comma..]);
    let bytes = text.as_bytes();
    let field = start
        + bytes[start..].iter().take_while(|byte| matches!(byte, b'"' | b'\\' | b'\'')).count();
    let length = bytes[field..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    if VALUES.contains(&&text[field..field + length]) {
        let at = closing_quote(bytes, field + length).unwrap_or(field + length);
        let at = at + blanks(&text[at..]);
        if matches!(bytes.get(at), Some(b':' | b'=')) {
            return Some((Sign::Colon, at + 1));
        }
    }
    if text[name.clone()].starts_with('-') {
        return Some((Sign::Comma, start));
    }
    let opening = text[..name.start].trim_end_matches(['"', '\'', '\\', '`', 'b']).trim_end();
    match opening.as_bytes().last() {
        Some(b'(') => Some((Sign::Comma, start)),
        Some(b'[') => {
            // A list of more than two items is a list of names.
            let end = closing_quote(bytes, quoted(text, start)?.end)?;
            text[end..].trim_start().starts_with(']').then_some((Sign::Comma, start))
        }
        _ => None,
    }
}

/// Handles a name and a space: an option, `PASSWORD 'x'` as in SQL, or `login ann password x` as in
/// `.netrc`.
fn spaced(text: &str, name: &Range<usize>, at: usize, class: Class) -> Option<(Sign, usize)> {
    let before = &text[..name.start];
    let is_at_word = before.ends_with(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'))
        || before.is_empty();
    let is_option = text[name.clone()].starts_with('-') && is_at_word;
    let is_quoted = class == Class::Strict && opens_quote(&text[at..]);
    for verb in ["is ", "was "] {
        // `the password is "x"` contains a secret, `the password is wrong` does not.
        if let Some(said) = text[at..].strip_prefix(verb) {
            let word = &said[..bare_length(said, Sign::Space)];
            let is_value = is_like_a_password(word);
            let is_quoted = class == Class::Strict && opens_quote(said);
            return (is_value && class >= Class::Secret || is_quoted)
                .then_some((Sign::Space, at + verb.len()));
        }
    }
    let next = &text[at..at + bare_length(&text[at..], Sign::Space)];
    let next = next.trim_end_matches([')', ',', '.']);
    let is_digits = (4..=8).contains(&next.len()) && next.bytes().all(|byte| byte.is_ascii_digit());
    let word = text[name.clone()].to_ascii_lowercase();
    let is_pin = is_digits && matches!(word.as_str(), "pin" | "otp" | "totp" | "passcode");
    if is_pin || class == Class::Strict && is_like_a_password(next) {
        return Some((Sign::Space, at));
    }
    let is_login = || {
        class == Class::Strict
            && before.split('\n').next_back().is_some_and(|line| line.contains("login "))
    };
    (is_option || is_quoted || is_login()).then_some((Sign::Space, at))
}

/// Whether the text begins with a quote, possibly escaped.
fn opens_quote(text: &str) -> bool {
    text.trim_start_matches('\\').starts_with(['\'', '"', '`'])
}

/// Returns the content of the quotes that open at `start`: those of strings or bytes, plain or
/// escaped.
fn quoted(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    // As in `b"…"`, `r"…"` and `@"…"`.
    let letter = usize::from(matches!(bytes.get(start), Some(b'b' | b'r' | b'u' | b'f' | b'@')));
    let escapes_at = start + letter;
    let escapes = bytes[escapes_at..].iter().take_while(|&&byte| byte == b'\\').count();
    let open = escapes_at + escapes;
    let quote = *bytes.get(open).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let inside = open + 1;
    if letter == 0
        && matches!(
            bytes[inside..],
            [b',' | b'}' | b']' | b')']
                | [b',' | b'}' | b']' | b')', b' ' | b'"' | b',' | b'}' | b']' | b')', ..]
        )
    {
        // The quote closes a text whose last word is the name, so there is no value.
        return Some(inside..inside);
    }
    if escapes == 0 && bytes[inside..].starts_with(&[quote, quote]) {
        let end = text[inside + 2..].find(&text[open..inside + 2]);
        return Some(inside + 2..end.map_or(text.len(), |end| inside + 2 + end));
    }
    let (mut run, mut skips) = (0, false);
    for (offset, &byte) in bytes[inside..].iter().enumerate() {
        let is_end = byte == quote && if escapes == 0 { run % 2 == 0 } else { run <= escapes };
        // A doubled quote stands for one quote inside the text, as in YAML and SQL.
        let is_double = quote == b'\'' && bytes.get(inside + offset + 1) == Some(&quote);
        if is_end && is_double && escapes == 0 {
            skips = true;
        } else if std::mem::take(&mut skips) {
            // The second quote of the pair.
        } else if is_end {
            return Some(inside..inside + offset - run.min(escapes));
        }
        run = if byte == b'\\' { run + 1 } else { 0 };
    }
    Some(inside..text.len())
}

/// Whether a quoted value is a secret, given its name and the class of the name.
fn keeps(value: &str, class: Class, name: &str) -> bool {
    let is_number =
        !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_flag = name.starts_with('-');
    !(is_placeholder(value) || class == Class::Ambiguous && is_flag && is_number)
}

/// Whether this is a header whose value has several words.
fn is_header(name: &str) -> bool {
    let name = name.as_bytes();
    [&b"authorization"[..], b"cookie"].iter().any(|ending| {
        name.len() >= ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
    })
}

/// Returns the value of a header, up to the end of its line or of the quotes around it.
fn header(text: &str, start: usize) -> Option<Range<usize>> {
    let line = text[start..].find(['\n', '\r', '"', '\'', '`']).unwrap_or(text.len() - start);
    let line = text[start..start + line].trim_end_matches(['\\', ' ']);
    (!line.is_empty() && !is_placeholder(line)).then(|| start..start + line.len())
}

/// Returns a value of several lines in YAML: `password: |` and the indented lines after it.
fn block(text: &str, name: &Range<usize>, start: usize) -> Option<Range<usize>> {
    let first = text[start..].split('\n').next()?.trim_end();
    if !matches!(first, "|" | ">" | "|-" | ">-" | "|+" | ">+") {
        return None;
    }
    let line_start = text[..name.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = text[line_start..name.start].chars().take_while(|c| c.is_whitespace()).count();
    let body = start + text[start..].find('\n')? + 1;
    let mut end = body;
    for line in text[body..].split_inclusive('\n') {
        let depth = line.chars().take_while(|&c| c == ' ' || c == '\t').count();
        if !line.trim().is_empty() && depth <= indent {
            break;
        }
        end += line.len();
    }
    (end > body).then_some(body..end)
}

/// Returns the content of the brackets that open here, possibly after the name of a type:
/// `Some("x")`, `Inner { value: "x" }`.
fn group(text: &str, start: usize) -> Option<Range<usize>> {
    let word =
        text[start..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(0);
    let opened = start + word + usize::from(word > 0 && text[start + word..].starts_with(" {"));
    if !text[opened..].starts_with(['(', '[', '{']) || text[opened..].starts_with("{{") {
        return None;
    }
    if text[opened..].starts_with(super::REDACTED) {
        return None;
    }
    let end = end_of_group(text, opened);
    (end > opened + 1).then(|| opened + 1..end)
}

/// Returns the position of the bracket that closes the one at `from`.
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

/// Returns a value without quotes, up to the next separator, if it is a secret.
fn bare(
    text: &str,
    name: &Range<usize>,
    start: usize,
    sign: Sign,
    class: Class,
) -> Option<Range<usize>> {
    let end = start + bare_length(&text[start..], sign);
    let value = &text[start..end];
    let word = &text[name.clone()];
    let is_number = value.parse::<f64>().is_ok();
    let is_pin = is_number
        && value.len() >= 4
        && value.bytes().all(|byte| byte.is_ascii_digit())
        && is_numeric_secret(word);
    if value.is_empty() || is_word_for_nothing(value) || is_placeholder(value) {
        return None;
    }
    if is_scheme(value) && text[end..].starts_with(' ') {
        // As in `token: Bearer …`.
        let more = bare_length(&text[end + 1..], sign);
        let is_value = more >= 4 && !is_word_of_prose(&text[end + 1..end + 1 + more]);
        return is_value.then(|| start..end + 1 + more);
    }
    let hides = match (class, sign) {
        _ if is_pin => true,
        (Class::Ambiguous, _) if is_number => false,
        (Class::Ambiguous, Sign::Colon) => value.len() >= 4 && looks_random(value),
        (Class::Ambiguous, _) => !is_answer(value),
        (Class::Strict, Sign::Colon | Sign::Space) => !is_word_of_prose(value),
        (_, Sign::Space) => !is_word_of_prose(value),
        // In `Debug` output, a bare word is a number, a boolean or a variant, but not text.
        (_, Sign::Colon) if is_number => false,
        (_, Sign::Colon) => {
            !is_word_of_prose(value)
                && (looks_random(value) || !follows_a_word(&text[..name.start]))
        }
        _ => true,
    };
    if !hides {
        return None;
    }
    // The value may have several words if it is on a line of its own, as in YAML, or if it is
    // called a phrase.
    let is_own_line = sign == Sign::Colon
        && class == Class::Strict
        && (begins_line(&text[..name.start]) || word.to_ascii_lowercase().ends_with("phrase"));
    let end = if is_own_line {
        let line = text[start..].split(['\n', '\r']).next().unwrap_or_default();
        let line = line.split(" #").next().unwrap_or_default();
        let stop = [", ", "; ", "\", ", "}"].iter().filter_map(|stop| line.find(stop)).min();
        end.max(start + line[..stop.unwrap_or(line.len())].trim_end().len())
    } else {
        end
    };
    Some(start..end)
}

/// Whether a number under this name may be a secret, such as a PIN.
fn is_numeric_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pin", "otp", "code", "password", "passwd", "pwd", "passcode"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// Returns the length of a value without quotes. Secrets may contain any characters, so a separator
/// ends the value only if the text after it looks like the next field.
fn bare_length(value: &str, sign: Sign) -> usize {
    let bytes = value.as_bytes();
    for (at, c) in value.char_indices() {
        let rest = &bytes[(at + c.len_utf8()).min(bytes.len())..];
        let ends = match c {
            _ if c.is_whitespace() => true,
            '"' | '`' => true,
            '\'' => !rest.first().is_some_and(u8::is_ascii_alphanumeric),
            '\\' => matches!(rest, [b'"' | b'\'' | b'n' | b'r' | b't' | b'\\', ..]),
            '<' => rest.first() == Some(&b'/'),
            _ if sign == Sign::Space => false,
            ',' | ';' | '&' | '|' => {
                rest.first().is_none_or(u8::is_ascii_whitespace) || starts_field(rest)
            }
            ')' | ']' | '}' => rest.first().is_none_or(|byte| {
                byte.is_ascii_whitespace()
                    || matches!(
                        byte,
                        b',' | b';' | b'.' | b')' | b']' | b'}' | b'"' | b'\'' | b'\\'
                    )
            }),
            _ => false,
        };
        if ends {
            return at;
        }
    }
    value.len()
}

/// Whether the text begins with a name and a separator, or with a quote.
fn starts_field(rest: &[u8]) -> bool {
    let is_of_name =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let length = rest.iter().take(LONGEST).take_while(is_of_name).count();
    match rest.get(length) {
        Some(b'=' | b':') => length > 0,
        Some(b' ') => {
            // As in `User Id=…`.
            let second = rest[length + 1..].iter().take(LONGEST).take_while(is_of_name).count();
            length > 0 && second > 0 && rest.get(length + 1 + second) == Some(&b'=')
        }
        Some(b'"' | b'\'' | b'&' | b';' | b'|') => length == 0,
        _ => false,
    }
}

/// Returns the number of blanks at the beginning of the text.
fn blanks(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether a word mixes letters and digits, as words of sentences do not.
fn is_like_a_password(word: &str) -> bool {
    has_digit(word) && word.len() >= 6 && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn begins_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'"' | b'\''))
}

/// Whether the text before the name is prose, as in `unexpected token: …`.
fn follows_a_word(before: &str) -> bool {
    let Some(before) = before.strip_suffix(' ') else { return false };
    let word = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_scheme(value: &str) -> bool {
    ["bearer", "basic", "token", "digest", "negotiate", "apikey"]
        .iter()
        .any(|scheme| value.eq_ignore_ascii_case(scheme))
}

/// Whether this word, such as `null`, often stands where a secret could be but is not one.
fn is_word_for_nothing(value: &str) -> bool {
    const NOTHING: &[&str] = &[
        "none",
        "null",
        "nil",
        "true",
        "false",
        "undefined",
        "string",
        "str",
        "&str",
        "option<string>",
        "bool",
    ];
    value.len() <= 14 && NOTHING.contains(&value.to_ascii_lowercase().as_str())
}

/// Whether this stands for a value that is inserted elsewhere or already hidden.
fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    value.starts_with(super::REDACTED)
        || value.starts_with("${")
        || value.starts_with("{{")
        || value.starts_with('<') && value.ends_with('>') && !value.contains(' ')
        || value.starts_with('$') && is_variable(&value[1..])
        || value.starts_with("%(")
        || matches!(value, "%s" | "?" | "{}" | "...")
        || value.len() >= 3 && value.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'.'))
}

/// Whether this word states an outcome or a method, such as `ok` or `digest`.
fn is_answer(value: &str) -> bool {
    const ANSWERS: &[&str] = words![
        ok yes no on off failed passed basic digest none optional required enabled
        disabled all any auto default oauth oauth2 ldap kerberos local main
    ];
    ANSWERS.contains(&value.to_ascii_lowercase().as_str())
}

/// Whether this word continues a sentence about a secret.
fn is_word_of_prose(value: &str) -> bool {
    const PROSE: &[&str] = words![
        to for and or is are was were with flag option from in not given must if when
        the a an should expected required missing invalid wrong too cannot can user at
        try please empty contains does has have no may will of on be by as this that it
        instead argument value incorrect expired unknown unexpected authentication could
        failed ok accepted rejected access only permission your you we use set see need
        needs denied length
    ];
    let word = value.trim_end_matches([',', '.', ';', ':', '!', '?']).to_ascii_lowercase();
    word == "(not" || PROSE.contains(&word.as_str())
}
