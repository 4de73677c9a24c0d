//! How loops are recorded: the settings, and the epochs to skip.

use std::cell::Cell;

use runlore_core::config::settings;
use runlore_core::settings::{LoopMode, ParentMode};
use runlore_telemetry::TelemetryChoice;

/// The kind of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Epochs,
    Batches,
    Other,
}

impl Kind {
    /// Returns what is measured around an iteration. `None` if the loop is not recorded.
    pub(super) fn telemetry(self) -> Option<TelemetryChoice> {
        let instrumentation = &settings().instrumentation;
        let mode = match self {
            _ if !instrumentation.enabled => None,
            Self::Epochs => instrumentation.ml.epoch_loop,
            Self::Batches => instrumentation.ml.batch_loop,
            Self::Other => Some(LoopMode::Default),
        };
        let is_parent = self == Self::Epochs && parents_are_measured();
        mode.map(|mode| if is_parent { TelemetryChoice::Default } else { telemetry_of(mode) })
    }

    /// Returns the suffix of its tasks' names.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Batches => "_batch_iteration",
            Self::Epochs | Self::Other => "_iteration",
        }
    }

    /// Returns `n` if every `n`th iteration is recorded.
    pub(super) fn every(self) -> u64 {
        match self {
            Self::Epochs => u64::from(settings().instrumentation.ml.capture_epochs_at_every.max(1)),
            _ => 1,
        }
    }
}

/// Returns whether epochs and passes of whole models are measured regardless of the other settings.
pub(super) fn parents_are_measured() -> bool {
    settings().instrumentation.ml.parent_mode == ParentMode::Telemetry
}

pub(super) fn telemetry_of(mode: LoopMode) -> TelemetryChoice {
    match mode {
        LoopMode::Lightweight => TelemetryChoice::None,
        LoopMode::Default => TelemetryChoice::Default,
    }
}

thread_local! {
    /// The number of skipped epochs that enclose the calling code.
    static LEFT_OUT: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the calling code is in a skipped epoch, so that its loops and models are skipped
/// too.
#[inline]
pub(super) fn is_left_out() -> bool {
    LEFT_OUT.get() > 0
}

/// A guard that marks this thread as working in a skipped epoch.
#[derive(Debug)]
pub(super) struct LeftOut(());

impl LeftOut {
    pub(super) fn enter() -> Self {
        LEFT_OUT.set(LEFT_OUT.get() + 1);
        Self(())
    }
}

impl Drop for LeftOut {
    fn drop(&mut self) {
        LEFT_OUT.set(LEFT_OUT.get() - 1);
    }
}
