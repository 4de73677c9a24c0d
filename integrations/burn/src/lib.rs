//! Burn.
