//! One module a behaviour.

mod jsonl_reading;
mod record_round_trip;
