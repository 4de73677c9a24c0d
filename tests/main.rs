//! One module a behaviour.

pub mod accepted;
#[cfg(feature = "events")]
mod analyze_events;
#[cfg(feature = "events")]
mod analyze_stormlog;
mod analyze_tasks;
mod api_consistency;
#[cfg(feature = "report")]
mod browser;
#[cfg(feature = "events")]
mod bundles;
mod closed_descriptors;
#[cfg(feature = "events")]
mod cloudmesh_reads_us;
mod contained_panics;
mod container;
mod dead_process;
mod drop_order;
#[cfg(feature = "events")]
mod emit;
mod energy;
#[cfg(feature = "events")]
mod events_files;
#[cfg(feature = "events")]
mod events_records;
mod features;
mod file_modes;
mod flowcept_reads_us;
mod fork_early;
mod forward_passes;
mod golden_flowcept;
mod gpu;
mod gpu_info;
mod gpu_stub;
mod hashes;
mod hostile_recovery;
mod hostile_values;
mod jsonl_reading;
mod killed;
mod lifecycle;
mod machine_info;
mod method_names;
mod model_profiles;
#[cfg(all(unix, feature = "mongodb"))]
mod mongo_server;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_away;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_example;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_flowcept;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_killed;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_query;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_refusals;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_servers;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_settings;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_slow;
#[cfg(all(unix, feature = "mongodb"))]
mod mongodb_store;
mod mutations;
mod no_harm;
mod overflow;
mod overhead;
mod panic_abort;
mod parent_links;
mod power_loss;
mod processes;
mod provenance;
#[cfg(feature = "push")]
mod push;
mod python;
mod query_cases;
mod query_errors;
mod query_laws;
mod random_trees;
mod record_heads;
mod record_round_trip;
#[cfg(feature = "report")]
mod report_pages;
#[cfg(feature = "report")]
mod report_run;
#[cfg(feature = "report")]
mod report_timeline;
mod resources;
mod retention;
#[cfg(unix)]
mod run_endings;
mod secrets;
mod settings;
mod settings_in_force;
mod several_folders;
mod several_stores;
#[cfg(feature = "events")]
mod sink;
mod slow_store;
mod spool;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_lifecycle;
#[cfg(feature = "sqlite")]
mod sqlite_query;
#[cfg(all(unix, feature = "sqlite"))]
mod sqlite_spool;
#[cfg(feature = "sqlite")]
mod sqlite_unwritable;
#[cfg(feature = "events")]
mod stormlog_agrees;
mod support;
mod task_endings;
mod task_tree;
mod telemetry;
mod telemetry_portable;
mod telemetry_psutil;
mod too_much;
#[cfg(feature = "events")]
mod tracker;
mod training_example;
mod training_loops;
mod training_modes;
mod unreadable;
mod unwritable;
mod values;
mod workflows;
