//! One module a behaviour.

mod dead_process;
mod drop_order;
mod flowcept_reads_us;
mod golden_flowcept;
mod hostile_recovery;
mod jsonl_reading;
mod killed;
mod lifecycle;
mod macro_ui;
mod mutations;
mod panic_abort;
mod parent_links;
mod power_loss;
mod processes;
mod random_trees;
mod record_round_trip;
mod retention;
mod settings;
mod settings_in_force;
mod support;
mod task_endings;
mod task_tree;
mod unwritable;
mod values;
mod workflows;
