//! Records as lines of JSON.
mod write;
pub use write::JsonlStore;
