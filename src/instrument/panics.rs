//! Panics that the task's own code cannot catch: a guard dropped by unwinding, and a program that
//! aborts.

use std::cell::{Cell, RefCell};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};

use super::backtrace;
use super::error::{panic_message, push_panic_text};
use crate::pipeline::event::{End, Ending};
use crate::pipeline::{Manners, end_by_panic, push_end};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context;

thread_local! {
    /// The message of the last panic on this thread, for the guards that it drops.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
    /// The number of panics on this thread.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// A point in time, to distinguish later panics from earlier ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    panics: u32,
    panicking: bool,
}

impl Since {
    pub(super) fn now() -> Self {
        Self { panics: COUNT.get(), panicking: std::thread::panicking() }
    }

    /// Returns whether the calling thread is unwinding because of a panic that began since then.
    pub(super) fn is_panicking(self) -> bool {
        !self.panicking && std::thread::panicking()
    }

    /// Returns that panic's message. `None` if the panic was resumed, or if another hook of the
    /// program prevents ours from running.
    pub(super) fn message(self) -> Option<String> {
        (COUNT.get() != self.panics)
            .then(|| MESSAGE.try_with(|message| message.borrow().clone()).ok())
            .flatten()
    }
}

/// Installs a panic hook that runs after the existing one.
pub(super) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // A thread that is panicking must not change the hook.
    if std::thread::panicking() || IS_WATCHED.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = take_hook();
    set_hook(Box::new(move |info| {
        before(info);
        listen(info);
    }));
}

fn listen(info: &PanicHookInfo<'_>) {
    let message = panic_message(info.payload());
    COUNT.set(COUNT.get().wrapping_add(1));
    if !context::enabled() {
        return;
    }
    _ = MESSAGE.try_with(|place| message.clone_into(&mut place.borrow_mut()));
    if settings().instrumentation.backtrace && context::current_task_id().is_some() {
        backtrace::capture(message);
    }
    if !cfg!(panic = "abort") {
        return;
    }
    if let Some((task, context)) = context::current_task() {
        let mut items = Vec::new();
        push_panic_text(&mut items, message);
        let end = End {
            id: task,
            monotonic_ns: clock::monotonic_ns(),
            ending: Ending::Panicked,
            lost_items: false,
        };
        push_end(context.workflow(), end, &items, Manners { reserve: false, may_wait: true });
    }
    end_by_panic();
}
