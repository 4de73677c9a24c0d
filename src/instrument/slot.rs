//! Synchronous tasks. They begin before the body and end when it returns or panics.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::budget::Measuring;
use super::inputs::{Inputs, Outputs, Scratch};
use super::meter::Meter;
use super::{Begun, Metered, context_of_new_task, error};
use crate::pipeline::Site;
use crate::pipeline::event::Ending;
use crate::pipeline::overhead::CallerStep;
use runlore_core::clock;
use runlore_core::context::Context;

/// Room for a task on the stack of an annotated function.
///
/// Only the flag is written before the task begins: an annotated function that records nothing must
/// not pay for the room.
#[derive(Debug)]
pub struct TaskSlot {
    armed: bool,
    /// The task, the context to restore when it ends, and its site.
    begun: MaybeUninit<(Begun, Context, &'static Site)>,
    meter: MaybeUninit<Metered>,
}

impl TaskSlot {
    /// Creates an empty slot.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { armed: false, begun: MaybeUninit::uninit(), meter: MaybeUninit::uninit() }
    }

    /// Begins the task, unless there is no workflow to record it for.
    #[inline(never)]
    pub fn begin(&mut self, site: &'static Site, capture: impl FnOnce(&mut Inputs<'_>)) {
        let Some(context) = context_of_new_task() else { return };
        let _step = CallerStep::begin();
        let mut scratch = Scratch::empty();
        capture(&mut Inputs::new(&mut scratch, site));
        let number = site.number();
        let mut meter = Meter::begin(&Measuring::of(site), context, &mut scratch);
        if let Some(begun) = Begun::start(context, number, &scratch, &mut meter, true) {
            self.begun.write((begun, begun.inside().replace(), site));
            self.meter.write(ManuallyDrop::new(meter));
            self.armed = true;
        }
    }

    /// Returns whether the task has begun.
    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// Runs the body and ends the task. A panic of the body continues to unwind.
    #[inline(never)]
    pub fn run<R>(self, body: impl FnOnce() -> R, outcome: impl FnOnce(&R, &mut Outputs<'_>)) -> R {
        if !self.armed {
            return body();
        }
        let ((begun, before, site), mut meter) = self.begun();
        let result = catch_unwind(AssertUnwindSafe(body));
        let ended = clock::monotonic_ns();
        let _step = CallerStep::since(ended);
        before.restore();
        let mut scratch = Scratch::empty();
        begun.measure(&mut meter, &mut scratch);
        match result {
            Ok(value) => {
                let mut outputs = Outputs::new(&mut scratch, Some(site));
                let ending = outputs.contained(|outputs| outcome(&value, outputs));
                begun.end(ended, ending, &scratch);
                value
            }
            Err(panic) => {
                error::push_panic(&mut scratch, &*panic);
                begun.end(ended, Ending::Panicked, &scratch);
                resume_unwind(panic)
            }
        }
    }

    #[allow(unsafe_code)]
    fn begun(&self) -> ((Begun, Context, &'static Site), Metered) {
        debug_assert!(self.armed);
        // SAFETY: the slot is armed, so `begin` has written both.
        unsafe { (self.begun.assume_init_read(), self.meter.assume_init_read()) }
    }
}
