//! The program as its users run it: one module a behaviour.

mod analyzing;
mod asking;
mod doctor;
mod emit;
mod endings;
mod events;
#[cfg(unix)]
mod hostile;
mod listing;
mod lost;
mod mongodb;
#[cfg(all(unix, feature = "mongodb"))]
#[allow(dead_code, reason = "only a server is needed of it here")]
#[path = "../../tests/python.rs"]
mod python;
#[cfg(unix)]
mod recipes;
mod recording;
mod refusing;
mod replaying;
#[cfg(feature = "report")]
mod reporting;
mod settings;
mod showing;
mod support;
mod usage;
