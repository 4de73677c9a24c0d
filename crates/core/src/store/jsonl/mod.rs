//! Stores records as lines of JSON, in one file per workflow and process.

#[doc(hidden)]
pub mod files;
mod in_use;
#[doc(hidden)]
pub mod joined;
mod known;
#[doc(hidden)]
pub mod lines;
#[doc(hidden)]
pub mod load;
#[doc(hidden)]
pub mod read;
#[doc(hidden)]
pub mod repair;
mod retain;
#[doc(hidden)]
pub mod summary;
mod write;

pub use joined::{Joined, joined};
pub use lines::{LIMIT, Line, Lines};
pub use load::{Loaded, load, load_with};
pub use read::{Reader, read};
pub use repair::RepairedFile;
pub use summary::summaries;
pub use write::JsonlStore;
