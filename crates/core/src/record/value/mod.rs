//! Captured values: a compact copy made on the caller's side, within limits, and what becomes of it.
//!
//! A value is written once, as tagged bytes, by an [`Encoder`]; the writer thread turns those bytes into
//! whatever a store wants through serde, and into a hash. Nothing here allocates per value or
//! formats text on the caller's side, except `Debug` output of types that offer nothing better.

mod bounded;
mod capture;
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

pub use bounded::BoundedText;
pub use describes::describes;
pub(crate) use encode::holds_secret;
pub use encode::{CaptureValue, Encoder};
pub use encode::{Hashing, Secrecy, Slot};
pub use limits::Limits;
pub(crate) use lock::LOCKED;
pub use lock::{Lock, TryLock, try_lock};
pub(crate) use lossy::{is_os_text, os_text};
pub use slice::numeric_slice;
pub use tag::Absent;
pub use view::{Notes, ValueView, base64};
