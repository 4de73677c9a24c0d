//! A task that is left before it is known how it ended: an iteration of a loop, of which only the next one tells that it was
//! not the last.

use super::budget::Measuring;
use super::inputs::Scratch;
use super::meter::Meter;
use super::panics::Since;
use super::{Begun, error};
use crate::pipeline::event::Ending;
use crate::pipeline::overhead::CallerStep;
use crate::pipeline::{Origin, queue};
use runlore_core::clock;
use runlore_core::context::Context;
use runlore_core::record::{Id, Slot};
use runlore_telemetry::TelemetryChoice;

/// A task that runs.
#[derive(Debug)]
pub(crate) struct OpenTask {
    begun: Begun,
    /// The context to restore; none for a task that is not the thread's own.
    before: Option<Context>,
    meter: Option<Box<Meter>>,
    since: Since,
}

/// How long somebody waited before the task could begin, which its items tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    /// Where they tell it.
    pub(crate) at: Slot,
    pub(crate) since_ns: u64,
}

impl Waited {
    fn tell(self, items: &mut [u8], now_ns: u64) {
        self.at.fill(items, now_ns.saturating_sub(self.since_ns));
    }
}

/// A task that was left: its clock has stopped, its sensors are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftTask {
    begun: Begun,
    ended_ns: u64,
    has_panicked: bool,
}

impl OpenTask {
    /// Begins a task. One that is attached is its thread's current one, and must be left and ended there.
    pub(crate) fn begin(
        context: Context,
        origin: Origin,
        measuring: &Measuring,
        items: &mut Scratch,
        waited: Option<Waited>,
        is_attached: bool,
    ) -> Option<Self> {
        let _step = CallerStep::begin();
        // Sensors come between the wait and the task. Without them, one reading of the clock tells the end of the one and
        // the beginning of the other.
        let shares_clock = matches!(measuring.choice, TelemetryChoice::None);
        if let Some(waited) = waited.filter(|_| !shares_clock) {
            waited.tell(items, clock::monotonic_ns());
        }
        let queue = queue(context.workflow());
        let mut meter = Meter::begin(measuring, context, items);
        let now = clock::monotonic_ns();
        if let Some(waited) = waited.filter(|_| shares_clock) {
            waited.tell(items, now);
        }
        let begun = Begun::start_at(now, queue, context, origin, items, &mut meter, is_attached)?;
        let before = is_attached.then(|| begun.inside().replace());
        if !is_attached && let Some(meter) = &mut meter {
            meter.pause();
        }
        Some(Self { begun, before, meter, since: Since::now() })
    }

    pub(crate) fn id(&self) -> Id {
        self.begun.id
    }

    /// The context inside the task.
    pub(crate) fn inside(&self) -> Context {
        self.begun.inside()
    }

    /// A task that is not attached goes on, on this thread.
    pub(crate) fn resume(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.resume();
        }
    }

    /// It does not run for a while.
    pub(crate) fn pause(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.pause();
        }
    }

    /// Leaves the task, once; `items` is what was added to it, and gets what there is to add.
    pub(crate) fn leave(&mut self, items: &mut Scratch) -> LeftTask {
        let ended_ns = clock::monotonic_ns();
        let _step = CallerStep::since(ended_ns);
        if let Some(before) = self.before {
            before.restore_after(self.begun.id);
        }
        let has_panicked = self.since.is_panicking();
        if has_panicked && let Some(message) = self.since.message() {
            error::push_panic_text(items, &message);
        }
        self.begun.measure(&mut self.meter, items);
        LeftTask { begun: self.begun, ended_ns, has_panicked }
    }
}

impl LeftTask {
    /// Whether a panic left it.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Ends the task with what was added to it.
    pub(crate) fn end(self, ending: Ending, items: &[u8]) {
        let ending = if self.has_panicked { Ending::Panicked } else { ending };
        self.begun.end(self.ended_ns, ending, items);
    }
}
