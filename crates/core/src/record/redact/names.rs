//! Recognizes the names of secrets: arguments, fields, map keys, headers, options and variables.
//!
//! Names are compared word by word. `db_password`, `dbPassword` and `DB-PASSWORD` are therefore
//! treated alike, while `tokens_per_sec`, `primary_key` and `compass` are not secret.

use std::sync::OnceLock;

/// How secret a value is according to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Not a secret.
    Plain,
    /// Text is probably a secret, but a number is not: `pass`, `pin`, `session`.
    Ambiguous,
    /// Text and bytes are secrets: `token`, `api_key`.
    Secret,
    /// Text, bytes and numbers are secrets: `password`, `otp`.
    Strict,
}

impl Class {
    pub(crate) fn is_secret(self) -> bool {
        self != Self::Plain
    }
}

/// The names that the settings add and exempt, each as a list of words.
#[derive(Debug, Default)]
struct Custom {
    hidden: Vec<Vec<String>>,
    allowed: Vec<Vec<String>>,
}

static CUSTOM: OnceLock<Custom> = OnceLock::new();

/// Sets the names to hide and the names to leave visible. Only the first call with any names has an
/// effect.
pub(crate) fn configure(hidden: &[String], allowed: &[String]) {
    let words = |names: &[String]| -> Vec<Vec<String>> {
        let each = names.iter().map(|name| Words::of(name).iter().map(str::to_owned).collect());
        each.filter(|words: &Vec<String>| !words.is_empty()).collect()
    };
    let custom = Custom { hidden: words(hidden), allowed: words(allowed) };
    if !(custom.hidden.is_empty() && custom.allowed.is_empty()) {
        _ = CUSTOM.set(custom);
    }
}

/// Whether the settings add or exempt names.
pub(super) fn are_configured() -> bool {
    CUSTOM.get().is_some()
}

/// Returns the words that the matcher must find for the names that the settings add.
pub(super) fn added_words() -> impl Iterator<Item = &'static str> {
    CUSTOM.get().into_iter().flat_map(|custom| custom.hidden.iter()).filter_map(|words| {
        // The longest word is likely to be the rarest one in texts.
        words.iter().max_by_key(|word| word.len()).map(String::as_str)
    })
}

/// Whether text under this name is redacted.
///
/// ```
/// use runlore::record::is_secret_name;
/// assert!(is_secret_name("db_password") && is_secret_name("apiKey") && is_secret_name("X-Auth-Token"));
/// assert!(!is_secret_name("tokens_per_sec") && !is_secret_name("primary_key"));
/// ```
pub fn is_secret_name(name: &str) -> bool {
    class(name).is_secret()
}

/// The length of the longest name that is examined.
pub(super) const MAX_NAME: usize = 256;

/// Returns how secret a value under this name is.
pub fn class(name: &str) -> Class {
    if name.len() > MAX_NAME {
        return Class::Plain;
    }
    let custom = CUSTOM.get();
    // A quick check, because this runs for every field of every value. Few names contain three
    // letters of a secret name.
    if custom.is_none() && !may_be_secret(name.as_bytes()) {
        return Class::Plain;
    }
    let words = Words::of(name);
    if let Some(custom) = custom {
        if custom.allowed.iter().any(|allowed| words.iter().eq(allowed.iter())) {
            return Class::Plain;
        }
        if custom.hidden.iter().any(|hidden| words.contains(hidden)) {
            return Class::Secret;
        }
    }
    if matches!(name, "PWD" | "OLDPWD") {
        // These are the shell's working directories.
        return Class::Plain;
    }
    let is_variable = is_variable(name);
    let count = words.count;
    (0..count).map(|at| class_at(&words, at, is_variable)).max().unwrap_or(Class::Plain)
}

/// Whether the name is written like an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_uppercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns how secret the value is according to the word at index `at` and its neighbours.
fn class_at(words: &Words, at: usize, is_variable: bool) -> Class {
    let word = words.get(at);
    if !may_be_secret(word.as_bytes()) {
        return Class::Plain;
    }
    let (before, after) = (at.checked_sub(1).map_or("", |at| words.get(at)), words.get(at + 1));
    let class = match singular(word) {
        "pass" | "auth" | "session" | "pin" | "private"
            if word.ends_with('s') && word != "pass" =>
        {
            Class::Plain
        }
        "pass" if BENIGN_PASSES.contains(&before) => Class::Plain,
        "session" if before == "desktop" => Class::Plain,
        "pass" | "auth" | "session" | "pin" | "private" => match after {
            "" => Class::Ambiguous,
            "code" | "header" | "hash" | "value" | "str" | "string" | "bytes" | "data" | "blob"
                if word != "private" =>
            {
                Class::Ambiguous
            }
            "id" if word == "session" => Class::Ambiguous,
            "phrase" | "word" | "wd" if word == "pass" => Class::Strict,
            _ => Class::Plain,
        },
        "pat" if at > 0 && after.is_empty() => Class::Ambiguous,
        "token" if word == "tokens" && !TOKEN_HOLDERS.contains(&before) => Class::Plain,
        "token" if TOKEN_FACTS.contains(&after) => Class::Plain,
        "key" if is_secret_key(before, after, is_variable && at > 0) => Class::Secret,
        "connection" | "conn" | "connect" if matches!(after, "string" | "strings" | "str") => {
            Class::Secret
        }
        "code" if matches!(before, "otp" | "totp" | "mfa" | "2fa") => Class::Strict,
        "code" if CODES.contains(&before) => Class::Secret,
        "phrase" if matches!(before, "seed" | "recovery" | "secret" | "mnemonic") => Class::Secret,
        "signature" if before == "access" => Class::Secret,
        one if STRICT.contains(&one)
            || STRICT_ENDINGS.iter().any(|ending| one.ends_with(ending)) =>
        {
            Class::Strict
        }
        one if SECRET.contains(&one) => Class::Secret,
        one if NOT_SECRET.contains(&one) => Class::Plain,
        one if SECRET_ENDINGS.iter().any(|ending| one.ends_with(ending)) => Class::Secret,
        _ => Class::Plain,
    };
    match class {
        Class::Plain => class,
        _ if FACTS.contains(&after) || at > 0 && QUESTIONS.contains(&words.get(0)) => Class::Plain,
        // If another word follows, as in `password_hash`, text is a secret but a number is not.
        Class::Strict if !after.is_empty() => Class::Secret,
        class => class,
    }
}

fn is_secret_key(before: &str, after: &str, is_variable: bool) -> bool {
    if matches!(after, "data" | "pem" | "material" | "bytes" | "der" | "b64" | "base64") {
        return !PUBLIC_KEYS.contains(&before);
    }
    KEY_HOLDERS.contains(&before)
        || is_variable && after.is_empty() && !before.is_empty() && !PUBLIC_KEYS.contains(&before)
}

/// Returns a word without the plural ending.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(one) if !one.ends_with('s') && word.len() > 4 => one,
        Some("key") => "key",
        _ => word,
    }
}

const STRICT: &[&str] =
    &["password", "passwd", "passphrase", "passcode", "pwd", "otp", "totp", "passwort"];
const STRICT_ENDINGS: &[&str] = &["password", "passwd", "passphrase", "passcode"];

const SECRET: &[&str] = words![
    secret pw token credential cred creds authorization bearer jwt cookie dsn passkey
    mnemonic keypass storepass requirepass masterauth sessionid sessid phpsessid jsessionid
    connectionstring connstring connstr pgpass sshpass dbpass userpass rootpass mypass
    adminpass mysqlpass smtppass mailpass userpwd dbpwd mypwd adminpwd privkey authkey
    sshkey sshprivkey oauth basicauth userinfo userauth httpauth
];
const SECRET_ENDINGS: &[&str] = words![
    secret token apikey accesskey secretkey privatekey signingkey encryptionkey masterkey
    accountkey sharedkey sessionkey licensekey storagekey credential credentials cookie
];
const NOT_SECRET: &[&str] =
    &["nonsecret", "subtoken", "detoken", "pretoken", "untoken", "nexttoken"];

/// Words before `key` that make it a secret: `api_key`, `signing_key`. Other keys, such as those of
/// a table or a map, stay visible.
const KEY_HOLDERS: &[&str] = words![
    api access secret private priv signing sign encryption encrypt decryption decrypt crypto
    cipher symmetric ssh auth authentication authorization master account storage shared
    session service deploy deployment admin root aes rsa ecdsa ed25519 hmac jwt webhook
    subscription app application server wallet gpg pgp tls ssl license licence function
    functions consumer integration ingest ingestion instrumentation vault stripe openai
    anthropic github gitlab aws azure gcp google slack twilio sendgrid mailgun datadog hf
    huggingface sentry newrelic cloudflare wandb cohere mistral security bearer token cookie
    pass sas apikey
];

/// Words before `key` that make it public, even in an environment variable.
const PUBLIC_KEYS: &[&str] = words![
    primary foreign public pub publishable sort partition cache row index group routing
    object map dict lookup unique composite candidate natural surrogate bucket hot registry
    join shard hash range order cluster clustering message sorting config
];

/// Words before `tokens` that make them secrets. Other `tokens` are those of a tokenized text.
const TOKEN_HOLDERS: &[&str] = words![
    api access auth refresh bearer session secret csrf xsrf service deploy bot oauth
    personal github gitlab slack jwt security device push
];

/// Words after `token` that show that it is a token of a tokenized text.
const TOKEN_FACTS: &[&str] = words![
    id ids embedding embeddings mask masks logits logprob logprobs prob probs weights freq
    frequency frequencies vocab dropout indices pooling span spans offset offsets text str
    stream classification
];

/// Words that turn the name of a secret into the name of a fact about it: `password_length`,
/// `token_url`.
const FACTS: &[&str] = words![
    count counts counter len length lengths size sizes type types kind kinds url urls uri
    endpoint expiry expires expiration expired ttl name names policy policies method methods
    mode rate ratio per limit limits path paths file files filename dir directory folder idx
    position budget usage used max min total provider providers enabled disabled required
    valid invalid version versions age timeout timeouts duration lifetime domain jar manager
    host port backend handler class scheme schemes status state error errors failures
    attempts strength field fields label column columns issuer audience scope scopes region
    rotation sock socket changed updated created at stdin prompt command ip ips network
    subnet dns arn ref through over format algorithm alg strategy realm user username server
    servers location locations source latency seconds ms ns bits
];

/// First words that turn a name into a question or a number: `has_password`, `max_tokens`.
const QUESTIONS: &[&str] = words![
    has have is num n max min total avg mean no without require requires needs should count
    number
];

/// Words before `pass` that make it a step of a computation.
const BENIGN_PASSES: &[&str] = words![
    forward backward first second third single multi two one last next final render compiler
    optimizer optimization training eval band low high by test tests did
];

/// Words before `code` that make it a secret, because the code grants access.
const CODES: &[&str] = words![
    recovery backup verification security mfa 2fa otp totp auth authorization login access
    pass pin time
];

/// Three-letter stems. Every secret name above contains one of them, except `pw`.
const STEMS: &[&[u8; 3]] = &[
    b"pas", b"aut", b"ses", b"pin", b"pri", b"pat", b"tok", b"key", b"con", b"cod", b"phr", b"sig",
    b"pwd", b"otp", b"sec", b"cre", b"bea", b"jwt", b"coo", b"dsn", b"mne", b"use",
];

/// A bit set of the stems, indexed by [`triple`], which ignores case.
static MAY_BE_SECRET: [u64; 512] = {
    let mut bits = [0; 512];
    let mut at = 0;
    while at < STEMS.len() {
        let [a, b, c] = *STEMS[at];
        let place = triple(a, b, c);
        bits[place / 64] |= 1 << (place % 64);
        at += 1;
    }
    bits
};

const fn triple(a: u8, b: u8, c: u8) -> usize {
    (a as usize & 31) << 10 | (b as usize & 31) << 5 | c as usize & 31
}

fn may_be_secret(name: &[u8]) -> bool {
    let is_pw = |ending: &[u8; 2]| ending.eq_ignore_ascii_case(b"pw");
    name.last_chunk().is_some_and(is_pw)
        || name.array_windows().any(|&[a, b, c]| {
            let place = triple(a, b, c);
            MAY_BE_SECRET[place / 64] >> (place % 64) & 1 != 0
        })
}

/// The words of a name in lower case. `dbPassword`, `db_password` and `DB-PASSWORD` have the same
/// two words.
struct Words {
    text: [u8; MAX_NAME],
    /// Where each word ends and the next one begins.
    ends: [u16; Self::MOST],
    count: usize,
}

impl Words {
    const MOST: usize = 24;

    fn of(name: &str) -> Self {
        let mut words = Self { text: [0; MAX_NAME], ends: [0; Self::MOST], count: 0 };
        let bytes = name.as_bytes();
        let mut length = 0;
        for (at, &byte) in bytes.iter().enumerate().take(MAX_NAME) {
            if starts_word(bytes, at) && length > words.end() {
                words.close(length);
            }
            if is_of_word(byte) && words.count < Self::MOST {
                words.text[length] = byte.to_ascii_lowercase();
                length += 1;
            }
        }
        words.close(length);
        words
    }

    /// Returns where the last word ends.
    fn end(&self) -> usize {
        self.count.checked_sub(1).map_or(0, |last| self.ends[last].into())
    }

    /// Ends the current word at `length`, unless it is empty.
    fn close(&mut self, length: usize) {
        let start = self.end();
        if length > start && self.count < Self::MOST {
            self.ends[self.count] = length as u16;
            self.count += 1;
        }
    }

    /// Returns the word at `index` without trailing digits. Empty if there is no such word.
    fn get(&self, index: usize) -> &str {
        if index >= self.count {
            return "";
        }
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].into());
        let word = &self.text[start..self.ends[index].into()];
        let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let kept = if digits < word.len() && word != b"ed25519" {
            word.len() - digits
        } else {
            word.len()
        };
        std::str::from_utf8(&word[..kept]).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|index| self.get(index))
    }

    /// Whether the name contains these words in a row.
    fn contains(&self, wanted: &[String]) -> bool {
        (0..self.count)
            .any(|at| wanted.iter().enumerate().all(|(index, word)| self.get(at + index) == word))
    }
}

/// Whether a byte is part of a word. Letters outside ASCII are letters: `pässword` is one word.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn starts_word(name: &[u8], at: usize) -> bool {
    let byte = name[at];
    if !is_of_word(byte) {
        return false;
    }
    let Some(before) = at.checked_sub(1).map(|at| name[at]) else { return true };
    let camel = byte.is_ascii_uppercase()
        && (before.is_ascii_lowercase()
            || before.is_ascii_digit()
            || name.get(at + 1).is_some_and(u8::is_ascii_lowercase));
    !is_of_word(before) || camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_values_are_hidden() {
        for (name, wanted) in [
            ("password", Class::Strict),
            ("dbPassword2", Class::Strict),
            ("otp_code", Class::Strict),
            ("password_hash", Class::Secret),
            ("newPw", Class::Secret),
            ("token", Class::Secret),
            ("access_key_id", Class::Secret),
            ("pass", Class::Ambiguous),
            ("db_pass", Class::Ambiguous),
            ("session", Class::Ambiguous),
            ("session_timeout", Class::Plain),
            ("", Class::Plain),
        ] {
            assert_eq!(class(name), wanted, "{name}");
        }
        assert_eq!(class(&"password".repeat(100)), Class::Plain);
    }
}
