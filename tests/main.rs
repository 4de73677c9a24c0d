//! One module a behaviour.

mod flowcept_reads_us;
mod golden_flowcept;
mod jsonl_reading;
mod macro_ui;
mod record_round_trip;
mod settings;
mod task_tree;
