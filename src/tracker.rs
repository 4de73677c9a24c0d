//! Watching memory while a program runs: samples, peaks, alerts, phases, in a sink that survives whatever ends the program.
//!
//! ```
//! use std::time::Duration;
//! use runlore::tracker::{Alerts, Tracker};
//!
//! # let folder = std::env::temp_dir().join(format!("runlore-doc-tracker-{}", std::process::id()));
//! let tracker = Tracker::builder()
//!     .interval(Duration::from_millis(10))
//!     .sink(&folder)
//!     .alerts(Alerts::default().memory(80.0, 95.0))
//!     .on_alert(|alert| eprintln!("{alert}"))
//!     .job("train-7")
//!     .start()?;
//!
//! {
//!     let _epoch = tracker.phase("epoch 1");
//!     let data = vec![1_u8; 32 << 20];
//!     tracker.sample_now();
//!     # drop(data);
//! }
//!
//! let ended = tracker.stop();
//! println!("{} MiB at the peak", ended.statistics.peak_memory >> 20);
//! let events = runlore::events::load(&folder)?; // or `runlore events stats FOLDER`
//! # assert_eq!(events.sessions[0].summary.status.as_str(), "completed");
//! # assert!(events.sessions[0].events.iter().any(|event| event.event_type == "phase_exit"));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The thread that samples is the tracker's own; a forked child does not have it, adds nothing, and sees what there was.
//! Events have the [format](crate::events) of Stormlog's, and its names; those of a sample are in its order: a change of
//! health, a peak, an allocation or deallocation, alerts, the sample. Each carries the open task, so that events and tasks
//! join. The guide is `docs/tracker.md`.

pub use runlore_events::tracker::{
    About, Activity, Alert, AlertKind, Alerts, Collector, Device, FlightRecorder, HostMemory,
    Level, Phase, Prepared, ProcessTree, Reading, Stopped, Supported, Timeline, Tracker,
    TrackerBuilder, TrackerStatistics,
};
