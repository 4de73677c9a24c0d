//! The program as its users run it: one module a behaviour.

mod asking;
mod doctor;
mod emit;
mod events;
mod listing;
mod mongodb;
mod recording;
mod replaying;
mod settings;
mod showing;
mod support;
mod usage;
