//! GPUs, read through the libraries of their vendors.
//!
//! The libraries are loaded at run time, and only if their metrics are requested. They are called
//! on a separate thread, so a slow or hanging driver delays a task only briefly, and its missing
//! values have a reason.

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

pub use info::{GpuDevice, GpuInfo};
pub(super) use open::Asked;
#[cfg(target_os = "linux")]
pub(super) use reader::Absent;
pub(super) use reader::{Answer, Gpus};
pub(super) use reading::Wanted;
