//! Finds secrets in the arguments of programs: `--password x`, `-u ann:x`, `mysql -px`.

use std::ops::Range;

use super::names::{Class, class, is_secret_name};
use super::shapes::has_digit;
use super::{REDACTED, scrub};

/// What to hide of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Nothing because of its position. The text itself may still contain secrets.
    Nothing,
    All,
    /// Everything after this many bytes.
    From(usize),
}

/// What the next argument is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Anything,
    /// The value of an option whose name is of this class.
    Value(Class),
    /// `user:password`, or `user%password`.
    User,
}

/// State for examining the arguments of a command in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arguments {
    program: Program,
    next: Next,
    /// Whether the first argument was seen.
    has_begun: bool,
}

/// The options of a program that hold a secret although their names do not show it.
#[derive(Debug, Clone, Copy, Default)]
struct Program {
    /// Options whose value is the next argument or the rest of the same argument.
    values: &'static [&'static str],
    /// Options whose value is the rest of the same argument.
    attached: &'static [&'static str],
}

impl Program {
    fn named(argument: &str) -> Self {
        let name = argument.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".exe");
        let (values, attached): (&[&str], &[&str]) = match name {
            _ if name.starts_with("mysql") || name.starts_with("mariadb") => (&[], &["-p"]),
            _ if name.starts_with("mongo") => (&["-p"], &[]),
            "sshpass" | "login" => (&["-p"], &[]),
            "redis-cli" => (&["-a"], &[]),
            "ldapsearch" | "ldapadd" | "ldapmodify" | "ldapwhoami" | "ldapdelete" => (&["-w"], &[]),
            "sqlcmd" | "bcp" | "osql" | "zip" | "unzip" => (&["-P"], &[]),
            "7z" | "7za" | "7zz" | "rar" | "unrar" => (&[], &["-p"]),
            "openssl" => (&["-passin", "-passout", "-pass", "-k"], &[]),
            "curl" => (&["-b", "--oauth2-bearer"], &[]),
            _ => (&[], &[]),
        };
        Self { values, attached }
    }
}

impl Arguments {
    /// Returns what to hide of the next argument.
    pub(crate) fn next(&mut self, argument: &str) -> Hidden {
        let next = std::mem::take(&mut self.next);
        // `-p` is a password in `docker login -p …`, but a port in `docker run -p …`.
        if !self.has_begun || argument == "login" {
            self.has_begun = true;
            // A longer argument is not a program name.
            self.program =
                if argument.len() <= 256 { Program::named(argument) } else { Program::default() };
        }
        // Evaluated even if the argument is hidden: it may be an option itself, because the option
        // before it may have no value.
        let of_option =
            if argument.starts_with('-') { self.option(argument) } else { Hidden::Nothing };
        match next {
            Next::Value(Class::Ambiguous) if argument.parse::<f64>().is_ok() => of_option,
            Next::Value(_) => Hidden::All,
            Next::User => after_user(argument).map_or(of_option, Hidden::From),
            Next::Anything => of_option,
        }
    }

    fn option(&mut self, option: &str) -> Hidden {
        if let Some((name, value)) = option.split_once('=') {
            let is_secret = match class(name) {
                Class::Plain => false,
                Class::Ambiguous => value.parse::<f64>().is_err(),
                _ => true,
            };
            return if is_secret && could_be_assigned(name) {
                Hidden::From(name.len() + 1)
            } else {
                Hidden::Nothing
            };
        }
        let class = class(option);
        if class.is_secret() && !option.contains(' ') {
            self.next = Next::Value(class);
            return Hidden::Nothing;
        }
        for flag in self.program.values.iter().chain(self.program.attached) {
            if let Some(value) = option.strip_prefix(flag) {
                if !value.is_empty() && flag.len() == 2 {
                    // A published port, as in `docker run -p8080:80`, is not a password.
                    let is_port = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
                    let is_word = self.program.attached.is_empty() && !has_digit(value);
                    return if is_port && self.program.attached.is_empty() || is_word {
                        Hidden::Nothing
                    } else {
                        Hidden::From(2)
                    };
                }
                if value.is_empty() && self.program.values.contains(flag) {
                    self.next = Next::Value(Class::Ambiguous);
                    return Hidden::Nothing;
                }
            }
        }
        match option {
            "-u" | "-U" | "--user" | "--proxy-user" | "--userpwd" | "--basic" | "--login" => {
                self.next = Next::User;
            }
            _ if option.starts_with("-u") || option.starts_with("-U") => {
                return after_user(&option[2..]).map_or(Hidden::Nothing, |at| Hidden::From(at + 2));
            }
            _ if is_attached_password(option) => return Hidden::From(2),
            _ => {}
        }
        Hidden::Nothing
    }
}

/// Whether the `-p…` of an unknown program looks like a password: letters mixed with digits, unlike
/// a word or a port.
fn is_attached_password(option: &str) -> bool {
    const WORDS: &[&str] = &["-print0", "-python2", "-python3"];
    option.strip_prefix("-p").is_some_and(|value| {
        value.len() >= 6
            && has_digit(value)
            && value.bytes().any(|byte| byte.is_ascii_alphabetic())
            && !value.contains(['/', '=', ':', ' ', '-', '_', '.'])
            && !WORDS.contains(&option)
    })
}

/// Returns where the password begins in `user:password` or `user%password`. `None` if both are
/// numbers, because these are a user id and a group id.
pub(super) fn after_user(value: &str) -> Option<usize> {
    let (user, password) = value.split_once([':', '%'])?;
    let are_numbers = user.bytes().chain(password.bytes()).all(|byte| byte.is_ascii_digit());
    let is_login =
        !user.is_empty() && !password.is_empty() && !are_numbers && !password.starts_with("//");
    is_login.then(|| user.len() + 1)
}

/// Whether this could be the name of an option or variable, and not the beginning of a text or URL.
fn could_be_assigned(name: &str) -> bool {
    !name.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '&' | '{' | '"'))
}

/// Redacts the secrets in the arguments of a program.
///
/// It hides the value in `--password=x`, any argument after `--password`, the password in
/// `-u ann:x`, and what [`scrub`] finds. It cannot recognize a secret without a name.
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
    let mut state = Arguments::default();
    arguments.into_iter().map(move |argument| {
        let argument = argument.as_ref();
        match state.next(argument) {
            Hidden::All => return REDACTED.to_owned(),
            Hidden::From(kept) => return format!("{}{REDACTED}", &argument[..kept]),
            Hidden::Nothing => {}
        }
        match argument.split_once('=') {
            Some((name, value))
                if could_be_assigned(name)
                    && (class(name) >= Class::Secret
                        || is_secret_name(name) && value.parse::<f64>().is_err()) =>
            {
                format!("{name}={REDACTED}")
            }
            _ => {
                // As in `aws configure set aws_secret_access_key …`.
                if is_compound(argument) && class(argument) >= Class::Secret {
                    state.next = Next::Value(Class::Secret);
                }
                scrub(argument)
            }
        }
    })
}

/// Whether this is a name of several words, like the names of configuration options.
fn is_compound(argument: &str) -> bool {
    argument.contains('_')
        && argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reports the secrets of a command line inside a text. The program's name begins at `at`. Returns
/// where the command ends, or `at` if this is not a command line.
pub(super) fn in_line(
    text: &str,
    at: usize,
    program: &str,
    mut found: impl FnMut(Range<usize>),
) -> usize {
    let is_word =
        |before: u8| before.is_ascii_alphanumeric() || matches!(before, b'_' | b'-' | b'.' | b':');
    if text[..at].bytes().next_back().is_some_and(is_word) {
        return at;
    }
    let line = text[at..].split(['\n', '\r']).next().unwrap_or_default();
    if !line[program.len()..]
        .bytes()
        .next()
        .is_some_and(|byte| matches!(byte, b' ' | b'-' | b'd' | b'a' | b's' | b'i' | b'r' | b'e'))
    {
        return at;
    }
    let mut state = Arguments::default();
    let mut from = 0;
    while let Some(word) = next_word(line, from) {
        if matches!(&line[word.clone()], "|" | "&&" | ";" | "||") {
            break;
        }
        let (word, is_last) = before_closing_quote(line, word);
        match state.next(&line[word.clone()]) {
            Hidden::Nothing => {}
            Hidden::All => found(at + word.start..at + word.end),
            Hidden::From(kept) => found(at + word.start + kept..at + word.end),
        }
        from = word.end + 1;
        if is_last {
            break;
        }
    }
    at + from
}

/// Returns the word up to the quote that ends the whole command, and whether there is such a quote.
/// It is a quote that was not opened inside the word.
fn before_closing_quote(line: &str, word: Range<usize>) -> (Range<usize>, bool) {
    let is_quoted = word.start > 0 && matches!(line.as_bytes()[word.start - 1], b'"' | b'\'');
    let text = &line[word.clone()];
    let closing =
        ['"', '\''].into_iter().filter(|&quote| !is_quoted && text.matches(quote).count() % 2 == 1);
    match closing.filter_map(|quote| text.find(quote)).min() {
        Some(length) => {
            (word.start..word.start + text[..length].trim_end_matches('\\').len(), true)
        }
        None => (word, false),
    }
}

/// Returns the next word of a command line, without the quotes around it.
fn next_word(line: &str, from: usize) -> Option<Range<usize>> {
    let rest = line.get(from..)?;
    let start = from + (rest.len() - rest.trim_start().len());
    let first = line[start..].chars().next()?;
    if matches!(first, '"' | '\'') {
        let length = line[start + 1..].find(first).unwrap_or(line.len() - start - 1);
        return Some(start + 1..start + 1 + length);
    }
    let length = line[start..].find(char::is_whitespace).unwrap_or(line.len() - start);
    Some(start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (&["--pass", "3", "x"], &["--pass", "3", "x"]),
            (&["--pass", "hunter2", "x"], &["--pass", "[redacted]", "x"]),
            (&["--pass=3"], &["--pass=3"]),
            (&["mysql", "-uroot", "-phunter", "db"], &["mysql", "-uroot", "-p[redacted]", "db"]),
            (&["curl", "-u", "ann:hunter2", "x"], &["curl", "-u", "ann:[redacted]", "x"]),
            (&["curl", "-uann:hunter2", "x"], &["curl", "-uann:[redacted]", "x"]),
            (
                &["docker", "run", "-u", "1000:1000", "-p", "8080:80"],
                &["docker", "run", "-u", "1000:1000", "-p", "8080:80"],
            ),
            (&["docker", "login", "-p", "hunter"], &["docker", "login", "-p", "[redacted]"]),
            (&["cargo", "test", "-p", "runlore"], &["cargo", "test", "-p", "runlore"]),
            (&["gcc", "-pthread", "-pipe", "-p1"], &["gcc", "-pthread", "-pipe", "-p1"]),
            (&["x", "-pS3cretpw"], &["x", "-p[redacted]"]),
            (&["PGPASSWORD=x", "psql"], &["PGPASSWORD=[redacted]", "psql"]),
        ] {
            assert_eq!(scrub_arguments(said).collect::<Vec<_>>(), kept);
        }
    }
}
