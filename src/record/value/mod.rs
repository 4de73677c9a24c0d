//! Captured values: a compact copy made on the caller's side, within limits, and what becomes of it.
//!
//! A value is written once, as tagged bytes, by an [`Encoder`]; the writer thread turns those bytes into
//! whatever a store wants through serde, and into a hash. Nothing here allocates per value or
//! formats text on the caller's side, except `Debug` output of types that offer nothing better.

mod bounded;
mod describes;
mod encode;
mod limits;
mod lock;
mod lossy;
mod serialize;
mod simd;
mod slice;
mod tag;
mod text;
mod view;

pub(crate) use bounded::BoundedText;
pub(crate) use describes::describes;
pub use encode::{CaptureValue, Encoder};
pub(crate) use encode::{Hashing, Secrecy, Slot, holds_secret};
pub use limits::Limits;
pub(crate) use lock::LOCKED;
pub use lock::{Lock, TryLock, try_lock};
pub(crate) use lossy::{is_os_text, os_text};
pub(crate) use slice::numeric_slice;
pub(crate) use tag::Absent;
pub(crate) use view::{Notes, ValueView, base64};
