//! One module a behaviour.

mod container;
mod dead_process;
mod drop_order;
mod energy;
mod flowcept_reads_us;
mod golden_flowcept;
mod gpu;
mod gpu_info;
mod gpu_stub;
mod hostile_recovery;
mod jsonl_reading;
mod killed;
mod lifecycle;
mod machine_info;
mod macro_ui;
mod method_names;
#[cfg(all(unix, feature = "mongodb"))]
mod mongo_server;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_flowcept;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_query;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_servers;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_store;
mod mutations;
mod panic_abort;
mod parent_links;
mod power_loss;
mod processes;
mod provenance;
mod python;
mod query_cases;
mod query_errors;
mod query_laws;
mod random_trees;
mod record_round_trip;
mod resources;
mod retention;
mod settings;
mod settings_in_force;
mod several_folders;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_lifecycle;
#[cfg(feature = "sqlite")]
mod sqlite_query;
#[cfg(feature = "sqlite")]
mod sqlite_unwritable;
mod support;
mod task_endings;
mod task_tree;
mod telemetry;
mod telemetry_portable;
mod telemetry_psutil;
mod too_much;
mod unwritable;
mod values;
mod workflows;
