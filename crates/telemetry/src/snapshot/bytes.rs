//! Encoding of numbers and strings, and a decoder for bytes that may be damaged.

/// A cursor over encoded bytes. Every method returns `None` if the bytes end too early or are
/// invalid.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of remaining bytes.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    pub(crate) fn integer(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn float(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads the number of items that follow. Each item has at least one byte, so a count beyond
    /// the remaining bytes is damaged. That keeps a damaged count from allocating memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        (count <= self.rest.len()).then_some(count)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.integer()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }
}

/// Appends an integer as LEB128: seven bits per byte, the lowest first. The highest bit of a byte
/// means that more follow.
#[inline]
pub(crate) fn put_integer(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_float(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_integer(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A list that is being written. Its length is filled in at the end.
#[derive(Debug)]
pub(crate) struct OpenList {
    at: usize,
    count: u32,
}

impl OpenList {
    pub(crate) fn begin(out: &mut Vec<u8>) -> Self {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { at, count: 0 }
    }

    /// Counts an item that was written.
    pub(crate) fn item(&mut self) {
        self.count += 1;
    }

    pub(crate) fn end(self, out: &mut [u8]) {
        out[self.at..self.at + 4].copy_from_slice(&self.count.to_le_bytes());
    }
}
