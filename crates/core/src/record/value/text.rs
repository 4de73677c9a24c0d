//! Conversion of bytes to text. Bytes recovered from a dead process may be invalid, so all are
//! checked, but most are plain ASCII.
#![allow(unsafe_code)]

/// Returns the text up to the first byte that is not valid UTF-8.
#[inline]
pub(super) fn valid_start(bytes: &[u8]) -> &str {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return unsafe { std::str::from_utf8_unchecked(bytes) };
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_where_it_is_none() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"plain text", "plain text"),
            ("grün".as_bytes(), "grün"),
            (b"gr\xc3\xbcn\xff rest", "grün"),
            (b"half \xc3", "half "),
        ] {
            assert_eq!(valid_start(bytes), text);
        }
    }
}
