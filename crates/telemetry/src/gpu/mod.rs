//! Graphics processors, read through the libraries of their vendors.
//!
//! The libraries are looked for when the program runs, and only if their metrics are asked for. They are called on a thread
//! of their own: a driver that is slow or hangs costs a task no more than a moment, and its values say why they are missing.

#[cfg(all(feature = "amd", target_os = "linux"))]
mod amd;
mod ending;
mod info;
#[cfg(feature = "nvidia")]
mod nvidia;
mod open;
mod reader;
#[cfg_attr(
    not(any(feature = "nvidia", feature = "amd")),
    allow(dead_code, reason = "nobody reads anything then")
)]
mod reading;
#[cfg_attr(
    not(all(feature = "nvidia", feature = "amd", target_os = "linux")),
    allow(dead_code, reason = "each vendor has rules of its own")
)]
mod visible;

pub(super) use ending::forget_after_fork;
pub use info::{GpuDevice, GpuInfo};
pub(super) use open::Asked;
#[cfg(target_os = "linux")]
pub(super) use reader::Absent;
pub(super) use reader::{Answer, Gpus};
pub(super) use reading::Wanted;
