//! How a loop is recorded: what the settings say, and whether this epoch's turn has come.

use std::cell::Cell;

use runlore_core::config::settings;
use runlore_core::settings::{LoopMode, ParentMode};
use runlore_telemetry::TelemetryChoice;

/// What kind of loop it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Epochs,
    Batches,
    Other,
}

impl Kind {
    /// What is measured around an iteration; none where the loop is not recorded.
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

    /// What the names of its tasks end with.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Batches => "_batch_iteration",
            Self::Epochs | Self::Other => "_iteration",
        }
    }

    /// Every how many of its iterations are recorded.
    pub(super) fn every(self) -> u64 {
        match self {
            Self::Epochs => u64::from(settings().instrumentation.ml.capture_epochs_at_every.max(1)),
            _ => 1,
        }
    }
}

/// Whether epochs and passes of whole models are measured, whatever else the settings say.
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
    /// How many epochs around the calling code are left out.
    static LEFT_OUT: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling code is in an epoch that is left out, so that its loops and models are too.
#[inline]
pub(super) fn is_left_out() -> bool {
    LEFT_OUT.get() > 0
}

/// An epoch that is left out, while this thread works for it.
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
