//! What a capture can be told as.

use serde::Serialize;

/// A form that captures are told in: JSON text, or what a store makes of it.
pub(crate) trait Form {
    /// Whether the entries of objects are to come in the order of their keys.
    const IS_SORTED: bool;

    /// An object or a list that was begun.
    type Open;

    fn open(&mut self) -> Self::Open;
    /// Begins an entry of an object. The key needs no escapes, and ends with `":` as it does in JSON, where most of them go.
    fn key(&mut self, key: &'static str);
    fn close(&mut self, open: Self::Open);

    /// Begins an object of which the entries come in any order; one that comes twice counts as it comes last.
    fn open_names(&mut self) -> Self::Open;
    /// Begins an entry of it, the key of which may be any bytes; what is no text is replaced.
    fn name(&mut self, name: &[u8]);
    fn close_names(&mut self, open: Self::Open);

    fn open_list(&mut self) -> Self::Open;
    fn item(&mut self, index: usize);
    fn close_list(&mut self, open: Self::Open);

    fn integer(&mut self, value: u64);
    /// A number of which so many digits stand after the point.
    fn decimal<const DIGITS: u32>(&mut self, value: u64);
    /// A number; where it is none that JSON has, null.
    fn float(&mut self, value: f64);
    /// A text; what is no text is replaced.
    fn text(&mut self, bytes: &[u8]);
    fn boolean(&mut self, value: bool);
    fn null(&mut self);
    /// Anything else; none where there is no form for it.
    fn any<T: Serialize>(&mut self, value: &T) -> Option<()>;
}
