//! The README and the guides: their code is compiled and run as documentation tests of this crate.
#![cfg(doctest)]

/// The README.
#[doc = include_str!("../README.md")]
struct Readme;

/// `docs/analyze.md`.
#[cfg(feature = "events")]
#[doc = include_str!("../docs/analyze.md")]
struct Analyze;

/// `docs/asking.md`.
#[cfg(feature = "query")]
#[doc = include_str!("../docs/asking.md")]
struct Asking;

/// `docs/context.md`.
#[doc = include_str!("../docs/context.md")]
struct Context;

/// `docs/emit.md`.
#[cfg(feature = "events")]
#[doc = include_str!("../docs/emit.md")]
struct Emit;

/// `docs/endings.md`.
#[doc = include_str!("../docs/endings.md")]
struct Endings;

/// `docs/events.md`.
#[cfg(feature = "events")]
#[doc = include_str!("../docs/events.md")]
struct Events;

/// `docs/gpu.md`.
#[doc = include_str!("../docs/gpu.md")]
struct Gpu;

/// `docs/mongodb.md`.
#[cfg(feature = "mongodb")]
#[doc = include_str!("../docs/mongodb.md")]
struct Mongodb;

/// `docs/query.md`.
#[cfg(feature = "query")]
#[doc = include_str!("../docs/query.md")]
struct Query;

/// `docs/records.md`.
#[doc = include_str!("../docs/records.md")]
struct Records;

/// `docs/report.md`.
#[cfg(feature = "report")]
#[doc = include_str!("../docs/report.md")]
struct Report;

/// `docs/settings.md`.
#[doc = include_str!("../docs/settings.md")]
struct Settings;

/// `docs/sqlite.md`.
#[cfg(feature = "sqlite")]
#[doc = include_str!("../docs/sqlite.md")]
struct Sqlite;

/// `docs/telemetry.md`.
#[doc = include_str!("../docs/telemetry.md")]
struct Telemetry;

/// `docs/tracker.md`.
#[cfg(feature = "events")]
#[doc = include_str!("../docs/tracker.md")]
struct Tracker;

/// `docs/training-tch.md`, with a stub of the crate `tch`.
#[doc = include_str!("../docs/training-tch.md")]
struct TrainingTch;

/// `docs/training.md`.
#[doc = include_str!("../docs/training.md")]
struct Training;
