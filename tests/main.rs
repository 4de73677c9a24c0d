//! One module a behaviour.
