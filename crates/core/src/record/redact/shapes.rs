//! Recognizes secrets by their look: tokens of vendors, JWTs, PEM blocks, values after `Bearer`.

use std::ops::Range;

/// A kind of token that begins with a prefix chosen by its vendor.
#[derive(Debug)]
pub(super) struct Vendor {
    pub(super) prefix: &'static str,
    /// How many letters and digits in a row the token must contain. Ten are enough if they include
    /// a digit.
    run: usize,
}

const fn vendor(prefix: &'static str, run: usize) -> Vendor {
    Vendor { prefix, run }
}

/// If one prefix is the beginning of another, the longer one comes first.
pub(super) const VENDORS: &[Vendor] = &[
    vendor("ghp_", 12),
    vendor("gho_", 12),
    vendor("ghu_", 12),
    vendor("ghs_", 12),
    vendor("ghr_", 12),
    vendor("github_pat_", 12),
    vendor("glpat-", 8),
    vendor("gldt-", 12),
    vendor("glrt-", 12),
    vendor("glsa_", 16),
    vendor("glc_", 16),
    vendor("sk-", 12),
    vendor("sk_live_", 8),
    vendor("sk_test_", 8),
    vendor("rk_live_", 8),
    vendor("rk_test_", 8),
    vendor("whsec_", 12),
    vendor("xoxb-", 8),
    vendor("xoxp-", 8),
    vendor("xoxa-", 8),
    vendor("xoxr-", 8),
    vendor("xoxs-", 8),
    vendor("xoxe", 8),
    vendor("xoxc-", 8),
    vendor("xoxd-", 8),
    vendor("xapp-", 8),
    vendor("npm_", 20),
    vendor("pypi-", 16),
    vendor("hf_", 16),
    vendor("AIza", 16),
    vendor("SG.", 12),
    vendor("dop_v1_", 16),
    vendor("shpat_", 16),
    vendor("shpss_", 16),
    vendor("shpca_", 16),
    vendor("shppa_", 16),
    vendor("sq0atp-", 12),
    vendor("sq0csp-", 12),
    vendor("ya29.", 12),
    vendor("GOCSPX-", 12),
    vendor("hvs.", 16),
    vendor("hvb.", 16),
    vendor("dckr_pat_", 12),
    vendor("nvapi-", 16),
    vendor("gsk_", 20),
    vendor("pplx-", 20),
    vendor("xai-", 20),
    vendor("tskey-", 8),
    vendor("PMAK-", 16),
    vendor("lin_api_", 16),
    vendor("figd_", 16),
    vendor("sbp_", 20),
    vendor("ATATT", 20),
    vendor("AGE-SECRET-KEY-1", 16),
    vendor("rubygems_", 16),
    vendor("sntrys_", 16),
    vendor("dapi", 30),
    vendor("LTAI", 12),
    vendor("EAACEdEose0cBA", 8),
    vendor("CFPAT-", 16),
    vendor("HRKU-", 12),
    vendor("NRAK-", 12),
    vendor("atlasv1.", 16),
];

/// The prefixes of Amazon's access key ids.
pub(super) const AMAZON: &[&str] = &["AKIA", "ASIA"];
const AMAZON_LENGTH: usize = 12;

pub(super) const PEM: &str = "-----BEGIN ";

/// Returns the vendor token at `at`, and its prefix.
pub(super) fn vendor_token(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let vendor = VENDORS.iter().find(|vendor| bytes[at..].starts_with(vendor.prefix.as_bytes()))?;
    let is_inside = |byte: u8| {
        byte.is_ascii_alphanumeric() || vendor.prefix == "sk-" && matches!(byte, b'-' | b'_')
    };
    if at.checked_sub(1).is_some_and(|before| is_inside(bytes[before])) {
        return None;
    }
    let start = at + vendor.prefix.len();
    let length =
        bytes[start..].iter().take_while(|&&byte| is_of_token(byte) || byte == b'.').count();
    let token = text[start..start + length].trim_end_matches(['.', '-']);
    let run = |part: &str| {
        part.len() >= vendor.run || part.len() >= 10.min(vendor.run) && has_digit(part)
    };
    // English words after a prefix such as `sk-` are short and have no digits.
    let is_token = token.split(|c: char| !c.is_ascii_alphanumeric()).any(run);
    is_token.then(|| (at..start + token.len(), vendor.prefix))
}

/// Returns the Amazon access key id at `at`.
pub(super) fn amazon_id(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let length = bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        .count();
    let is_alone = !bytes[..at].last().is_some_and(u8::is_ascii_alphanumeric)
        && !bytes.get(at + length).is_some_and(u8::is_ascii_alphanumeric);
    (is_alone && length >= 4 + AMAZON_LENGTH).then(|| at..at + length)
}

/// Returns the JSON Web Token at `at`: two or more parts in base64, the first of which is a JSON
/// object.
pub(super) fn json_web_token(text: &str, at: usize) -> Option<Range<usize>> {
    const PART: usize = 8;
    let bytes = text.as_bytes();
    if bytes[..at].last().is_some_and(|&byte| is_of_token(byte) || matches!(byte, b'/' | b'+')) {
        return None;
    }
    let length = bytes[at..]
        .iter()
        .take_while(|&&byte| is_of_token(byte) || matches!(byte, b'.' | b'='))
        .count();
    let token = text[at..at + length].trim_end_matches(['.', '=']);
    let mut parts = token.split('.');
    let is_token =
        parts.next()?.len() >= PART && parts.next().is_some_and(|part| part.len() >= PART);
    is_token.then(|| at..at + token.len())
}

/// Returns the PEM block at `at`, up to its end or the end of the text.
pub(super) fn pem_block(text: &str, at: usize) -> Option<Range<usize>> {
    let label = &text[at + PEM.len()..];
    let label = &label[..label.find("-----")?];
    if label.len() > 64
        || !label
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'0'..=b'9'))
    {
        return None;
    }
    let body = at + PEM.len() + label.len();
    let end = text[body..].find("-----END").map_or(text.len(), |end| {
        let after = body + end + "-----END".len();
        text[after..].find("-----").map_or(text.len(), |dashes| after + dashes + 5)
    });
    Some(at..end)
}

/// Returns the value after the name of an authorization scheme, as in `Bearer abc123`.
pub(super) fn scheme_value(text: &str, scheme_end: usize, is_basic: bool) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if bytes.get(scheme_end) != Some(&b' ') {
        return None;
    }
    let start = scheme_end + 1;
    let is_of_value = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let length = bytes[start..].iter().take_while(|&&byte| is_of_value(byte)).count();
    let value = text[start..start + length].trim_end_matches('.');
    let is_secret = if is_basic {
        is_user_and_password(value)
    } else {
        value.len() >= 6 && looks_random(value)
    };
    is_secret.then(|| start..start + value.len())
}

/// Whether the value looks random: it has a digit or a capital letter inside, or is longer than
/// words are.
pub(super) fn looks_random(value: &str) -> bool {
    has_digit(value)
        || value.len() >= 20 && !value.contains(' ')
        || value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
            && value.bytes().any(|byte| byte.is_ascii_lowercase())
}

pub(super) fn has_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether the value is `user:password` in base64.
fn is_user_and_password(value: &str) -> bool {
    let mut bits = 0_u32;
    let mut count = 0;
    let mut has_colon = false;
    for byte in value.trim_end_matches('=').bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            let byte = (bits >> count) as u8;
            if byte < b' ' {
                return false;
            }
            has_colon |= byte == b':';
        }
    }
    has_colon && value.len() >= 4
}

pub(super) fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
