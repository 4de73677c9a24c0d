//! Tracks memory while a program runs. Samples, peaks, alerts and phases go to a sink that survives
//! any end of the program.
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
//! The tracker samples on its own thread. A forked child does not have that thread: it records
//! nothing, and sees the state as of the fork.
//!
//! Events have Stormlog's [format](crate::events) and names. The events of one sample come in
//! Stormlog's order: a health change, a peak, an allocation or deallocation, alerts, the sample.
//! Each event carries the id of the open task, so that events can be joined with tasks. The guide
//! is `docs/tracker.md`.

pub use runlore_events::tracker::{
    About, Activity, Alert, AlertKind, Alerts, Collector, Device, FlightRecorder, HostMemory,
    Level, Phase, Prepared, ProcessTree, Reading, Stopped, Supported, Timeline, Tracker,
    TrackerBuilder, TrackerStatistics,
};
