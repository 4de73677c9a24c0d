//! One module a behaviour.

mod record_round_trip;
