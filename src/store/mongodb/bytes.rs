//! The bytes of a document.
//!
//! The keys of objects are sorted: to MongoDB two objects are equal only if their keys come in the same order, and to a record
//! the order means nothing. Of a key that is there twice, the last one counts, as everywhere.

/// The bytes that stand before an element, and say what it is.
pub(super) mod kind {
    pub(in super::super) const DOUBLE: u8 = 0x01;
    pub(in super::super) const STRING: u8 = 0x02;
    pub(in super::super) const DOCUMENT: u8 = 0x03;
    pub(in super::super) const ARRAY: u8 = 0x04;
    pub(in super::super) const OBJECT_ID: u8 = 0x07;
    pub(in super::super) const BOOL: u8 = 0x08;
    pub(in super::super) const DATE: u8 = 0x09;
    pub(in super::super) const NULL: u8 = 0x0a;
    pub(in super::super) const INT: u8 = 0x10;
    pub(in super::super) const LONG: u8 = 0x12;
    pub(in super::super) const DECIMAL: u8 = 0x13;
}

/// Objects of a record whose order is remembered for the next.
const REMEMBERED: usize = 256;

/// The upper half of a decimal that is a whole number: no sign, and the exponent 0.
const WHOLE: u64 = 0x3040_0000_0000_0000;

/// A whole number that is too large for 64 bits with a sign: the only number of MongoDB's that has it exactly.
pub(super) fn decimal(number: u64) -> [u8; 16] {
    (u128::from(WHOLE) << 64 | u128::from(number)).to_le_bytes()
}

/// The whole number that a decimal is, if it is such a one.
pub(super) fn whole(decimal: [u8; 16]) -> Option<u64> {
    let bits = u128::from_le_bytes(decimal);
    (bits >> 64 == u128::from(WHOLE)).then_some(bits as u64)
}

/// A document being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// The elements of the open documents.
    elements: Vec<Element>,
    /// The order of the elements of each object that came unsorted, by its number: record after record has the same objects.
    orders: Vec<Vec<usize>>,
    /// How many objects came unsorted so far.
    unsorted: usize,
    sorted: Vec<u8>,
    /// Whether something was met that BSON has no form for.
    pub(super) is_lossy: bool,
}

#[derive(Debug, Clone, Copy)]
struct Element {
    start: usize,
    /// The length of its key.
    key: usize,
    /// The first bytes of its key, as a number that compares like them.
    head: u64,
}

/// The first bytes of a key as a number that compares like them.
#[inline]
pub(super) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => key.iter().rev().fold(0, |head, byte| (head >> 8) | (u64::from(*byte) << 56)),
    }
}

/// A document that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    start: usize,
    first: usize,
}

impl Writer {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.elements.clear();
        (self.unsorted, self.is_lossy) = (0, false);
    }

    pub(super) fn open(&mut self) -> Open {
        let open = Open { start: self.bytes.len(), first: self.elements.len() };
        self.bytes.extend([0; 4]);
        open
    }

    pub(super) fn close(&mut self, open: Open) {
        self.sort(open);
        self.elements.truncate(open.first);
        self.end(open.start);
    }

    /// Ends an array, or a document of elements that came sorted.
    pub(super) fn close_sorted(&mut self, open: Open) {
        self.end(open.start);
    }

    /// Ends a document or an array that began there.
    pub(super) fn end(&mut self, start: usize) {
        self.bytes.push(0);
        let length = (self.bytes.len() - start) as i32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn sort(&mut self, open: Open) {
        let Self { bytes, elements, orders, unsorted, sorted, .. } = self;
        let elements = &elements[open.first..];
        let key = |element: &Element| &bytes[element.start + 1..element.start + 1 + element.key];
        let is_before = |one: &Element, other: &Element| {
            one.head < other.head || one.head == other.head && key(one) < key(other)
        };
        if elements.is_sorted_by(is_before) {
            return;
        }
        let number = *unsorted;
        *unsorted += 1;
        if number >= orders.len() {
            orders.push(Vec::new());
        }
        let at = number.min(orders.len() - 1);
        let order = &mut orders[at];
        let fits = order.len() == elements.len()
            && order.is_sorted_by(|one, other| is_before(&elements[*one], &elements[*other]));
        if !fits {
            order.clear();
            order.extend(0..elements.len());
            order.sort_by(|one, other| key(&elements[*one]).cmp(key(&elements[*other])));
            // Of equal keys the last one counts.
            order.reverse();
            order.dedup_by(|one, other| key(&elements[*one]) == key(&elements[*other]));
            order.reverse();
        }
        sorted.clear();
        let is_whole = open.start == 0;
        sorted.extend_from_slice(if is_whole { &bytes[..4] } else { &[] });
        for index in &*order {
            let end = elements.get(index + 1).map_or(bytes.len(), |next| next.start);
            sorted.extend_from_slice(&bytes[elements[*index].start..end]);
        }
        if order.len() < elements.len() {
            // It has places that another object may not have.
            order.clear();
        }
        if is_whole {
            // Most of a record is in it once more: that need not be copied back.
            std::mem::swap(bytes, sorted);
        } else {
            bytes.truncate(open.start + 4);
            bytes.extend_from_slice(sorted);
        }
        orders.truncate(REMEMBERED);
    }

    /// Begins an element whose key has no NUL in it, and comes between quotes, where its kind and its end belong; returns where, for
    /// the kind to be put there. `head` is the key's [`head_of`].
    pub(super) fn element(&mut self, quoted: &[u8], head: u64) -> usize {
        let at = self.bytes.len();
        let key = quoted.len() - 2;
        self.bytes.extend_from_slice(quoted);
        self.bytes[at + 1 + key] = 0;
        self.elements.push(Element { start: at, key, head });
        at
    }

    /// The same for a key that has no NUL in it.
    pub(super) fn known_element(&mut self, key: &str) -> usize {
        let at = self.sorted_element(key);
        self.elements.push(Element { start: at, key: key.len(), head: head_of(key.as_bytes()) });
        at
    }

    /// The same where the elements come sorted, each once.
    #[inline(always)]
    pub(super) fn sorted_element(&mut self, key: &str) -> usize {
        let at = self.bytes.len();
        self.bytes.push(0);
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.push(0);
        at
    }

    /// The same for a key that may be anything: a NUL would be its end.
    pub(super) fn any_element(&mut self, key: &str) -> usize {
        if !key.contains('\0') {
            return self.known_element(key);
        }
        self.is_lossy = true;
        self.known_element(&key.replace('\0', ""))
    }

    /// Forgets what a document has had so far.
    pub(super) fn empty(&mut self, open: Open) {
        self.bytes.truncate(open.start + 4);
        self.elements.truncate(open.first);
    }

    /// The key of an element.
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let key = &self.bytes[at + 1..];
        &key[..key.iter().position(|byte| *byte == 0).unwrap_or(key.len())]
    }

    /// The value of an element.
    pub(super) fn value(&self, at: usize) -> &[u8] {
        &self.bytes[at + self.key(at).len() + 2..]
    }

    /// Takes the last element back.
    pub(super) fn take_back(&mut self, at: usize) {
        self.bytes.truncate(at);
        self.elements.pop();
    }

    pub(super) fn put(&mut self, key: &str, kind: u8, value: &[u8]) {
        let at = self.any_element(key);
        self.bytes[at] = kind;
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn put_text(&mut self, key: &str, text: &str) {
        let at = self.any_element(key);
        self.bytes[at] = kind::STRING;
        self.text(text);
    }

    /// Elements that were written elsewhere, as a document.
    pub(super) fn put_document(&mut self, key: &str, elements: &[u8]) {
        let at = self.any_element(key);
        self.bytes[at] = kind::DOCUMENT;
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend_from_slice(elements);
        self.end(start);
    }

    /// A text between quotes.
    pub(super) fn quoted(&mut self, quoted: &[u8]) {
        let length = (quoted.len() - 1) as i32;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&quoted[1..]);
        if let Some(last) = self.bytes.last_mut() {
            *last = 0;
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        let length = (text.len() + 1) as i32;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    /// A whole number, as short as may be; gives its kind.
    pub(super) fn whole(&mut self, number: i64) -> u8 {
        match i32::try_from(number) {
            Ok(small) => {
                self.bytes.extend_from_slice(&small.to_le_bytes());
                kind::INT
            }
            Err(_) => {
                self.bytes.extend_from_slice(&number.to_le_bytes());
                kind::LONG
            }
        }
    }

    /// Begins an item of an array; returns where, for its kind to be put there.
    pub(super) fn item(&mut self, index: usize) -> usize {
        let at = self.bytes.len();
        self.bytes.push(0);
        if index < 10 {
            self.bytes.push(b'0' + index as u8);
        } else {
            let mut digits = [0; 20];
            let mut left = index;
            let mut first = digits.len();
            while left > 0 {
                first -= 1;
                digits[first] = b'0' + (left % 10) as u8;
                left /= 10;
            }
            self.bytes.extend_from_slice(&digits[first..]);
        }
        self.bytes.push(0);
        at
    }
}
