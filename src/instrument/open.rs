//! Tasks whose ending is known only later. An example is a loop iteration: only the request for the
//! next item shows that the loop was not left.

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

/// A running task.
#[derive(Debug)]
pub(crate) struct OpenTask {
    begun: Begun,
    /// The context to restore. `None` if the task is not its thread's current task.
    before: Option<Context>,
    meter: Option<Box<Meter>>,
    since: Since,
}

/// A wait before the task could begin. Its duration goes into the task's items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    /// Where to write the duration.
    pub(crate) at: Slot,
    pub(crate) since_ns: u64,
}

impl Waited {
    fn tell(self, items: &mut [u8], now_ns: u64) {
        self.at.fill(items, now_ns.saturating_sub(self.since_ns));
    }
}

/// A task that was left: its clock has stopped and its sensors were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftTask {
    begun: Begun,
    ended_ns: u64,
    has_panicked: bool,
}

impl OpenTask {
    /// Begins a task. An attached task is its thread's current task, and must be left and ended
    /// there.
    pub(crate) fn begin(
        context: Context,
        origin: Origin,
        measuring: &Measuring,
        items: &mut Scratch,
        waited: Option<Waited>,
        is_attached: bool,
    ) -> Option<Self> {
        let _step = CallerStep::begin();
        // Sensors are read between the wait and the task. Without sensors, one clock reading is
        // both the end of the wait and the start of the task.
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

    /// Returns the context inside the task.
    pub(crate) fn inside(&self) -> Context {
        self.begun.inside()
    }

    /// Continues a task that is not attached, on this thread.
    pub(crate) fn resume(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.resume();
        }
    }

    /// Pauses the task's measurement.
    pub(crate) fn pause(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.pause();
        }
    }

    /// Leaves the task; call this once. Appends the panic, if any, and the measurement to `items`.
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
    /// Returns whether a panic left the task.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Ends the task with the items that were added to it.
    pub(crate) fn end(self, ending: Ending, items: &[u8]) {
        let ending = if self.has_panicked { Ending::Panicked } else { ending };
        self.begun.end(self.ended_ns, ending, items);
    }
}
