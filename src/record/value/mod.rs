//! Captured values: a compact copy made on the caller's side, within limits, and what becomes of it.
//!
//! A value is written once, as tagged bytes, by an [`Encoder`]; the writer thread turns those bytes into
//! whatever a store wants through serde, and into a hash. Nothing here allocates per value or
//! formats text on the caller's side, except `Debug` output of types that offer nothing better.

mod describes;
mod encode;
mod limits;
mod serialize;
mod simd;
mod slice;
mod tag;
mod text;
mod view;

pub(crate) use describes::describes;
pub use encode::{CaptureValue, Encoder};
pub(crate) use encode::{Hashing, Secrecy, Slot};
pub use limits::Limits;
pub(crate) use slice::numeric_slice;
pub(crate) use tag::Absent;
pub(crate) use view::{Notes, ValueView, base64};
