//! The encoder, which copies one value into a buffer within the limits.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write};

use serde::Serialize;

use super::bounded::BoundedText;
use super::serialize::MAX_NESTING;
use super::tag::{self, Absent};
use super::{Limits, describes};
use crate::contain::contain;
use crate::record::hash;
use crate::record::hash::{BLOCK, Budget, Hash, NoHash};
use crate::record::redact;
use crate::record::redact::{Class, Hidden, List};

/// A type that decides itself what a record stores of it.
///
/// Implement it for types whose data is too large or too opaque to store, such as tensors or
/// handles, and write facts instead. Annotated functions prefer this trait over `Serialize` and
/// `Debug`. Records have no hash of such a value, because different values may have the same facts.
///
/// ```
/// use runlore::record::{CaptureValue, Encoder};
///
/// struct Tensor { shape: Vec<usize>, data: Vec<f32> }
///
/// impl CaptureValue for Tensor {
///     fn capture(&self, to: &mut Encoder<'_>) {
///         to.map(|facts| {
///             facts.field("shape", &self.shape);
///             facts.field("bytes", &(self.data.len() * 4));
///         });
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a record should hold of it",
    note = "implement `runlore::record::CaptureValue`, or derive `serde::Serialize` or `Debug`, which are used without it"
)]
pub trait CaptureValue {
    /// Writes exactly one value to the encoder.
    fn capture(&self, to: &mut Encoder<'_>);

    /// Whether `capture` writes the value itself and not just facts, so that it may be hashed.
    #[doc(hidden)]
    fn is_whole(&self) -> bool {
        false
    }
}

/// How much of a value the caller's thread may hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashing {
    /// Nothing. The record has no hash of the value.
    Off,
    /// As much as the time budget allows.
    InTime,
    /// The whole value, however long that takes.
    Full,
}

/// How secret a value is.
#[derive(Debug, Clone, Copy)]
pub enum Secrecy<'n> {
    Known(Class),
    /// The name of the value decides. It is evaluated only when the answer is needed.
    Named(&'n str),
}

impl Secrecy<'_> {
    /// Not a secret.
    pub const NONE: Self = Self::Known(Class::Plain);
}

/// Writes one value in a compact form and stops at the limits.
#[derive(Debug)]
pub struct Encoder<'b> {
    pub(super) buffer: &'b mut Vec<u8>,
    pub(super) limits: Limits,
    /// The position up to which the value's content may fill the buffer.
    pub(super) end: usize,
    pub(super) depth: u32,
    /// The number of enclosing values that leave no trace in the record, such as `Some`.
    pub(super) nesting: u32,
    /// Whether strings at this point are secrets.
    pub(super) secrecy: Secrecy<'b>,
    /// Whether a limit stopped the copying somewhere.
    pub(super) cut: bool,
    /// Whether a secret was redacted somewhere.
    redacted: bool,
    hashing: Hashing,
    /// The time budget that is left for the value.
    pub(super) budget: Budget,
    /// Why there is no hash, if that is known.
    no_hash: Option<NoHash>,
    /// Whether a device may still be computing the value.
    outstanding: bool,
    /// Whether all of the value is copied in order to be hashed. Only time limits the size then.
    pub(super) copies_all: bool,
}

/// The position of an integer in a buffer that is reused as a template, with a new number each
/// time.
#[derive(Debug, Clone, Copy)]
pub struct Slot(usize);

impl Slot {
    /// Writes a number to this position.
    #[inline]
    pub fn fill(self, buffer: &mut [u8], number: u64) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(place) = buffer.get_mut(self.0..self.0 + size_of::<i64>()) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
}

impl<'b> Encoder<'b> {
    pub fn new(buffer: &'b mut Vec<u8>, limits: Limits, secrecy: Secrecy<'b>) -> Self {
        let end = buffer.len() + limits.bytes as usize;
        Self {
            buffer,
            limits,
            end,
            depth: 0,
            nesting: 0,
            secrecy,
            cut: false,
            redacted: false,
            hashing: Hashing::Off,
            budget: Budget::default(),
            no_hash: None,
            outstanding: false,
            copies_all: false,
        }
    }

    /// An encoder that copies all of a value, however large, as long as the budget lasts.
    pub(crate) fn without_limits(buffer: &'b mut Vec<u8>, class: Class, budget: Budget) -> Self {
        let limits = Limits { bytes: BLOCK as u32, items: u32::MAX, depth: MAX_NESTING };
        Self { budget, copies_all: true, ..Self::new(buffer, limits, Secrecy::Known(class)) }
    }

    /// Copies all of a value. Fails if it has no hash.
    pub(crate) fn copy_all<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoHash> {
        let is_copied = super::serialize::serialize(self, value);
        match self.no_hash {
            // A locked value or an invalid text that the record does not show.
            Some(NoHash::Described) => Err(NoHash::Failed),
            Some(why) => Err(why),
            None if !is_copied => Err(NoHash::Failed),
            None if self.cut => Err(NoHash::Cut),
            None => Ok(()),
        }
    }

    /// Ends the copying of all of a value, which gets no hash.
    pub(super) fn give_up(&mut self, why: NoHash) {
        self.no_hash = self.no_hash.or(Some(why));
        self.end = 0;
    }

    /// Requests a hash of the whole value in case a limit stops the copying. `budget` is what
    /// earlier values have left.
    pub fn hashing(mut self, hashing: Hashing, budget: Budget) -> Self {
        self.budget = if hashing == Hashing::Full { Budget::unlimited() } else { budget };
        self.hashing = if hash::is_on() { hashing } else { Hashing::Off };
        self
    }

    /// Returns the time budget that is left for this and later values.
    pub fn left(&self) -> Budget {
        self.budget
    }

    /// Marks the value as only described or named by the record. It gets no hash, because different
    /// values could share it.
    pub fn withhold_hash(&mut self) {
        self.no_hash = Some(NoHash::Described);
    }

    /// Returns why there is no hash, if that is known.
    pub fn no_hash(&self) -> Option<NoHash> {
        self.no_hash
    }

    /// Whether the current value is the outermost one and its whole is to be hashed here.
    fn hashes_whole(&self) -> bool {
        self.depth == 0 && self.hashing != Hashing::Off && self.no_hash.is_none() && !self.redacted
    }

    /// Whether strings at this point are secrets.
    pub(super) fn is_secret(&mut self) -> bool {
        self.class().is_secret()
    }

    /// Returns the secrecy of the value according to the names of the fields around it.
    #[inline]
    pub fn class(&mut self) -> Class {
        let class = match self.secrecy {
            Secrecy::Known(known) => return known,
            Secrecy::Named(name) => redact::class(name),
        };
        self.secrecy = Secrecy::Known(class);
        class
    }

    /// Whether a limit stopped the copying.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// Whether a secret was redacted.
    pub fn has_redacted(&self) -> bool {
        self.redacted
    }

    /// Sets whether a device may still be computing the value.
    #[doc(hidden)]
    pub fn set_outstanding(&mut self, is_outstanding: bool) {
        self.outstanding = is_outstanding;
    }

    /// Whether a device may still be computing the value.
    pub fn is_outstanding(&self) -> bool {
        self.outstanding
    }

    pub(super) fn redact(&mut self) {
        self.note_secret();
        self.tag(tag::REDACTED);
    }

    fn note_secret(&mut self) {
        self.redacted = true;
        if self.copies_all {
            self.give_up(NoHash::Secret);
        }
    }

    /// Writes that the value is nested too deeply to be copied.
    pub(super) fn too_deep(&mut self) {
        self.cut = true;
        if self.copies_all {
            self.give_up(NoHash::Deep);
        }
        self.absent(Absent::TooDeep);
    }

    /// Returns how many more bytes of a text fit.
    #[inline]
    pub(super) fn room(&self) -> usize {
        if self.copies_all { usize::MAX / 2 } else { self.end.saturating_sub(self.buffer.len()) }
    }

    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.buffer.len() < self.end || self.add_room()
    }

    /// Makes room for one more block if all of the value is copied and there is time left.
    #[cold]
    fn add_room(&mut self) -> bool {
        if !self.copies_all || self.no_hash.is_some() {
            return false;
        }
        if self.budget.is_spent() {
            self.give_up(NoHash::Slow);
            return false;
        }
        self.end = self.buffer.len() + BLOCK;
        true
    }

    #[inline]
    pub(super) fn tag(&mut self, tag: u8) {
        self.buffer.push(tag);
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub fn absent(&mut self, why: Absent) {
        self.put(&[tag::ABSENT, why as u8]);
    }

    /// Writes that the value is missing, but keeps its hash.
    pub fn absent_but_for(&mut self, hash: Option<Hash>, why: Absent) {
        if let Some(hash) = hash {
            self.tag(tag::WHOLE);
            hash.put(|bytes| self.put(bytes));
        }
        self.absent(why);
    }

    /// Writes null.
    pub fn null(&mut self) {
        self.tag(tag::NULL);
    }

    pub fn unit(&mut self) {
        self.tag(tag::UNIT);
    }

    /// Writes a boolean.
    pub fn bool(&mut self, value: bool) {
        self.tag(if value { tag::TRUE } else { tag::FALSE });
    }

    /// Writes a signed integer.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        if self.class() == Class::Strict {
            return self.redact();
        }
        let mut bytes = [tag::INT; 9];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        self.put(&bytes);
    }

    /// Reserves an integer that is filled in later.
    pub fn slot(&mut self) -> Slot {
        self.i64(0);
        Slot(self.buffer.len() - size_of::<i64>())
    }

    /// Writes an unsigned integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        if let Ok(value) = i64::try_from(value) {
            return self.i64(value);
        }
        if self.class() == Class::Strict {
            return self.redact();
        }
        let mut bytes = [tag::UINT; 9];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        self.put(&bytes);
    }

    /// Writes an integer of any size. Records store it as text if it has more than 64 bits.
    pub fn i128(&mut self, value: i128) {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.i64(value),
            (_, Ok(value)) => self.u64(value),
            _ => self.big(&value),
        }
    }

    /// Writes an unsigned integer of any size. Records store it as text if it has more than 64
    /// bits.
    pub fn u128(&mut self, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.u64(value),
            Err(_) => self.big(&value),
        }
    }

    fn big(&mut self, value: &dyn fmt::Display) {
        if self.class() == Class::Strict {
            return self.redact();
        }
        self.put(&[tag::BIG, 0]);
        let start = self.buffer.len();
        _ = write!(Text(self.buffer), "{value}");
        self.buffer[start - 1] = (self.buffer.len() - start) as u8;
    }

    /// Writes an `f64`.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        let mut bytes = [tag::F64; 9];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        self.put(&bytes);
    }

    /// Writes an `f32`.
    #[inline]
    pub fn f32(&mut self, value: f32) {
        let mut bytes = [tag::F32; 5];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        self.put(&bytes);
    }

    /// Writes a text and redacts the secrets in it.
    pub fn str(&mut self, text: &str) {
        let start = self.buffer.len();
        self.copy_str(text);
        if self.cut && self.hashes_whole() {
            self.add_hash(start, |budget| hash::of_text(text, redact::has_secret, budget));
        }
    }

    pub(super) fn copy_str(&mut self, text: &str) {
        if self.is_secret() {
            return self.redact();
        }
        if self.copies_all {
            return match hash::search(text, redact::has_secret, &mut self.budget) {
                Ok(()) => self.put_all(tag::STR, text.as_bytes()),
                Err(why) => self.null_without_hash(why),
            };
        }
        // Looks beyond the limit, because a secret that begins before it may end after it.
        let window = &text[..floor_char_boundary(text, self.room() + 1024)];
        let clean = redact::hide_secrets(window, window.len() < text.len());
        self.redacted |= matches!(clean, Cow::Owned(_));
        let kept = floor_char_boundary(&clean, self.room());
        let cut = window.len() < text.len() || kept < clean.len();
        self.text(&clean[..kept], text.len() as u64, cut);
    }

    /// Writes all of a text or byte string.
    fn put_all(&mut self, tag: u8, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else {
            return self.null_without_hash(NoHash::Slow);
        };
        self.tag(tag);
        self.put(&length.to_le_bytes());
        // Copying is fast, so the clock is read only once per megabyte.
        const LONG: usize = 16 * BLOCK;
        for block in bytes.chunks(LONG) {
            self.put(block);
            if block.len() == LONG && self.budget.is_spent() {
                return self.give_up(NoHash::Slow);
            }
        }
    }

    fn null_without_hash(&mut self, why: NoHash) {
        self.give_up(why);
        self.null();
    }

    /// Writes a string of the operating system, such as a path.
    ///
    /// Invalid UTF-8 is replaced, and the record notes it. Such a text has no hash, because
    /// different strings may look the same.
    pub fn os_str(&mut self, text: &OsStr) {
        match text.to_str() {
            Some(text) => self.str(text),
            None => self.lossy(&text.to_string_lossy()),
        }
    }

    /// Like [`Encoder::os_str`], for a string inside another value. It gets no hash, because the
    /// outer value is hashed as a whole.
    pub(super) fn copy_os_str(&mut self, text: &OsStr) {
        match text.to_str() {
            Some(text) => self.copy_str(text),
            None => self.lossy(&text.to_string_lossy()),
        }
    }

    /// Writes the lossy text of a string that is not UTF-8.
    pub(super) fn lossy(&mut self, text: &str) {
        self.withhold_hash();
        if self.is_secret() {
            return self.redact();
        }
        self.tag(tag::LOSSY);
        self.copy_str(text);
    }

    /// Writes the `Display` output of a value.
    pub(super) fn display(&mut self, value: &(impl fmt::Display + ?Sized)) {
        if self.is_secret() {
            return self.redact();
        }
        if self.copies_all {
            let mut text = BoundedText::new(0, Some(self.budget));
            let failed = write!(text, "{value}").is_err();
            self.budget = text.budget.unwrap_or(self.budget);
            return match text.stopped.or(failed.then_some(NoHash::Failed)) {
                Some(why) => self.null_without_hash(why),
                None => self.copy_str(&text.text),
            };
        }
        let text = BoundedText::of(value, self.room() + 1024);
        if text.stopped.is_none() {
            return self.copy_str(&text.text);
        }
        let clean = redact::hide_secrets(&text.text, true);
        self.redacted |= matches!(clean, Cow::Owned(_));
        let kept = floor_char_boundary(&clean, self.room());
        self.text(&clean[..kept], u64::MAX, true);
    }

    fn text(&mut self, shown: &str, true_length: u64, cut: bool) {
        if cut {
            self.cut = true;
            self.tag(tag::STR_CUT);
            self.put(&true_length.to_le_bytes());
        } else {
            self.tag(tag::STR);
        }
        self.put(&(shown.len() as u32).to_le_bytes());
        self.put(shown.as_bytes());
    }

    /// Writes bytes, which records store as base64.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.is_secret() {
            return self.redact();
        }
        let kept = bytes.len().min(self.room());
        let searched = if self.copies_all { MOST_SEARCHED } else { kept };
        if holds_secret(bytes, searched) {
            return self.redact();
        }
        if self.copies_all {
            return self.put_all(tag::BYTES, bytes);
        }
        if kept < bytes.len() {
            self.tag(tag::BYTES_CUT);
            self.put(&(bytes.len() as u64).to_le_bytes());
            if self.depth == 0 {
                let hash = hash::of_slice(b'b', bytes, &mut self.budget);
                self.put_hash(hash);
            } else {
                // The outer value is hashed as a whole.
                self.cut = true;
                self.put(&[0]);
            }
        } else {
            self.tag(tag::BYTES);
        }
        self.put(&(kept as u32).to_le_bytes());
        self.put(&bytes[..kept]);
    }

    /// Writes the `Debug` output of a value as text.
    pub fn debug(&mut self, value: &dyn fmt::Debug) {
        if self.is_secret() {
            return self.redact();
        }
        let start = self.buffer.len();
        let window = self.room() + 1024;
        let budget = self.hashes_whole().then_some(self.budget);
        let mut text = BoundedText::new(window, budget);
        let failed = write!(text, "{value:?}").is_err();
        self.budget = text.budget.unwrap_or(self.budget);
        if failed && text.stopped.is_none() {
            return self.absent(Absent::Refused);
        }
        // Redact before cutting, because a secret may extend across the limit.
        let shown = &text.text[..floor_char_boundary(&text.text, window)];
        let is_part = text.stopped.is_some() || shown.len() < text.text.len();
        let clean = redact::hide_secrets(shown, is_part);
        let kept = floor_char_boundary(&clean, self.room());
        let is_cut = is_part || kept < clean.len();
        self.redacted |= matches!(clean, Cow::Owned(_));
        self.text(&clean[..kept], u64::MAX, is_cut);
        if text.has_gap {
            self.withhold_hash();
        }
        if is_cut && self.hashes_whole() {
            self.add_hash(start, |budget| match text.stopped {
                Some(why) => Err(why),
                None => hash::of_text(&text.text, redact::has_secret, budget),
            });
        }
    }

    /// Writes the name of a type that offers nothing else to record.
    pub fn type_name(&mut self, name: &str) {
        self.withhold_hash();
        self.tag(tag::TYPE_NAME);
        let kept = floor_char_boundary(name, self.room().max(64));
        self.put(&(kept as u32).to_le_bytes());
        self.put(&name.as_bytes()[..kept]);
    }

    /// Writes a value by its `Serialize` implementation.
    pub fn serialize<T: Serialize + ?Sized>(&mut self, value: &T) {
        let start = self.buffer.len();
        if self.depth == 0 && describes::<T>() {
            self.withhold_hash();
        }
        let is_copied = super::serialize::serialize(self, value);
        if is_copied && self.cut && self.hashes_whole() {
            let class = self.class();
            self.add_hash(start, |budget| hash::of_value(value, class, budget));
        }
    }

    /// Inserts the hash of the whole value in front of its copied part. If that fails, only the
    /// hash is lost.
    #[cold]
    fn add_hash(
        &mut self,
        start: usize,
        hash: impl FnOnce(&mut Budget) -> Result<Option<Hash>, NoHash>,
    ) {
        let budget = &mut self.budget;
        match contain(|| hash(budget)).unwrap_or(Err(NoHash::Failed)) {
            Ok(Some(hash)) => {
                let mut mark = vec![tag::WHOLE];
                hash.put(|bytes| mark.extend_from_slice(bytes));
                self.buffer.splice(start..start, mark);
            }
            Ok(None) => {}
            Err(why) => self.no_hash = Some(why),
        }
    }

    /// Writes the hash of a long slice. Writes a length of zero if the slice has no hash.
    pub(super) fn put_hash(&mut self, hash: Result<Option<Hash>, NoHash>) {
        match hash {
            Ok(Some(hash)) => hash.put(|bytes| self.put(bytes)),
            Ok(None) => self.put(&[0]),
            Err(why) => {
                self.no_hash = self.no_hash.or(Some(why));
                self.put(&[0]);
            }
        }
    }

    /// Redacts the list item that was written from `start` on, if its position in the list makes it
    /// a secret.
    #[inline]
    pub(super) fn hide_in_list(&mut self, start: usize, list: &mut List) {
        if matches!(self.buffer.get(start), Some(&tag::STR | &tag::STR_CUT | &tag::SEQ)) {
            self.hide_text_in_list(start, list);
        }
    }

    fn hide_text_in_list(&mut self, start: usize, list: &mut List) {
        // The characters follow the tag, the true length if the text was cut, and the kept length.
        let kept_from = match self.buffer[start] {
            tag::STR => start + 5,
            tag::STR_CUT => start + 13,
            _ => usize::MAX,
        };
        let text = self.buffer.get(kept_from..).and_then(|text| std::str::from_utf8(text).ok());
        let hidden = match text {
            Some(text) => list.next(text),
            None => list.skip(),
        };
        match hidden {
            Hidden::Nothing => {}
            Hidden::All => {
                self.buffer.truncate(start);
                self.redact();
            }
            Hidden::From(length) => {
                let shown = text.and_then(|text| text.get(..length)).unwrap_or_default();
                let shown = format!("{shown}{}", redact::REDACTED);
                self.buffer.truncate(start);
                self.note_secret();
                self.text(&shown, shown.len() as u64, false);
            }
        }
    }

    /// Writes a list. The closure adds the items.
    pub fn seq(&mut self, items: impl FnOnce(&mut Items<'_, 'b>)) {
        self.container(tag::SEQ, items);
    }

    /// Writes a map. The closure adds the fields.
    pub fn map(&mut self, fields: impl FnOnce(&mut Items<'_, 'b>)) {
        self.container(tag::MAP, fields);
    }

    fn container(&mut self, tag: u8, fill: impl FnOnce(&mut Items<'_, 'b>)) {
        if self.depth >= self.limits.depth {
            return self.too_deep();
        }
        self.tag(tag);
        self.depth += 1;
        let mut items = Items { encoder: self, count: 0, list: List::new(None) };
        fill(&mut items);
        let count = items.count;
        self.depth -= 1;
        self.close(count, count);
    }

    /// Whether a container that already has `count` items keeps one more.
    pub(super) fn admits(&mut self, count: u64) -> bool {
        count < u64::from(self.limits.items) && self.has_room()
    }

    /// Ends a container of `true_length` items. `seen` items were offered, of which the first ones
    /// up to the limit were kept.
    pub(super) fn close(&mut self, seen: u64, true_length: u64) {
        // A `Serialize` may announce more items than it writes.
        let are_missing = true_length > seen && !self.copies_all;
        if self.cut_in(seen) || are_missing {
            self.cut = true;
            self.tag(tag::END_CUT);
            self.put(&true_length.max(seen).to_le_bytes());
        } else {
            self.tag(tag::END);
        }
    }

    fn cut_in(&mut self, seen: u64) -> bool {
        seen > u64::from(self.limits.items) || !self.has_room()
    }

    /// Writes a field's name and sets the secrecy for its value. Returns the previous secrecy,
    /// which the caller must restore.
    pub(super) fn name(&mut self, name: &str) -> Secrecy<'b> {
        let kept = floor_char_boundary(name, self.room());
        self.tag(tag::STR);
        self.put(&(kept as u32).to_le_bytes());
        self.put(&name.as_bytes()[..kept]);
        let class = self.class().max(redact::class(name));
        std::mem::replace(&mut self.secrecy, Secrecy::Known(class))
    }
}

/// The content of a list or map that is being written.
#[derive(Debug)]
pub struct Items<'e, 'b> {
    encoder: &'e mut Encoder<'b>,
    count: u64,
    /// State for finding secrets among the items of a list.
    list: List,
}

impl<'b> Items<'_, 'b> {
    /// Adds an item to a list.
    pub fn item<T: CaptureValue + ?Sized>(&mut self, value: &T) {
        if self.encoder.admits(self.count) {
            let start = self.encoder.buffer.len();
            value.capture(self.encoder);
            self.encoder.hide_in_list(start, &mut self.list);
        }
        self.count += 1;
    }

    /// Adds a field to a map.
    pub fn field<T: CaptureValue + ?Sized>(&mut self, name: &str, value: &T) {
        self.field_with(name, |encoder| value.capture(encoder));
    }

    /// Adds a field to a map. The closure writes the value.
    pub fn field_with(&mut self, name: &str, write: impl FnOnce(&mut Encoder<'b>)) {
        if self.encoder.admits(self.count) {
            let outer = self.encoder.name(name);
            write(self.encoder);
            self.encoder.secrecy = outer;
        }
        self.count += 1;
    }
}

/// How much of a byte string is searched for secrets if all of it is copied: more than a record
/// keeps by default.
const MOST_SEARCHED: usize = 8 << 10;

/// Whether the bytes are text with a secret in it. Checks the first `kept` bytes and up to 1024
/// more.
fn holds_secret(bytes: &[u8], kept: usize) -> bool {
    let window = &bytes[..bytes.len().min(kept + 1024)];
    let text = match std::str::from_utf8(window) {
        Ok(text) => text,
        // The window may end inside a character.
        Err(error) if error.valid_up_to() + 4 > window.len() => {
            std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    redact::has_secret(text)
}

/// Returns the largest length of at most `limit` bytes that does not split a character of `text`.
fn floor_char_boundary(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
