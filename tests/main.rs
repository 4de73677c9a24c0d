//! One module a behaviour.

mod flowcept_reads_us;
mod golden_flowcept;
mod jsonl_reading;
mod macro_ui;
mod parent_links;
mod random_trees;
mod record_round_trip;
mod support;
mod task_endings;
mod task_tree;
mod values;
mod workflows;
