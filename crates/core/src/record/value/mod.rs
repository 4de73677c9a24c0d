//! Captured values: compact copies, made on the caller's thread within limits.
//!
//! An [`Encoder`] writes a value once, as tagged bytes. The writer thread converts these bytes
//! through serde into the form that a store needs, and computes the hash. On the caller's thread,
//! nothing here allocates per value or formats text, except the `Debug` output of types that offer
//! nothing better.

mod bounded;
mod capture;
mod describes;
mod encode;
mod limits;
mod lock;
mod lossy;
mod serialize;

mod slice;
mod summary;
pub(crate) mod tag;
mod text;
mod view;

pub use bounded::BoundedText;
pub use describes::describes;
pub use encode::{CaptureValue, Encoder};
pub use encode::{Hashing, Secrecy, Slot};
pub use limits::Limits;
pub use lock::{Lock, TryLock, try_lock};
pub use slice::numeric_slice;
pub use tag::Absent;
pub(crate) use view::Cursor;
pub use view::{Notes, ValueView, base64};
