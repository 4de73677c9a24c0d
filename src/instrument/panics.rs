//! Panics that nobody in the task can see the end of: a guard that is dropped by one, and a program that aborts.

use std::cell::{Cell, RefCell};
use std::panic::{PanicHookInfo, set_hook, take_hook};

use super::backtrace;
use super::error::{panic_message, push_panic_text};
use crate::pipeline::event::{End, Ending};
use crate::pipeline::{Manners, end_by_panic, push_end};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context;
use runlore_core::once::Once;

thread_local! {
    /// What the last panic on this thread said, for the guards that it drops.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
    /// How many panics there were on this thread.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// A moment, to tell a panic after it from one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    panics: u32,
    panicking: bool,
}

impl Since {
    pub(super) fn now() -> Self {
        Self { panics: COUNT.get(), panicking: std::thread::panicking() }
    }

    /// Whether a panic that began since then unwinds the calling thread.
    pub(super) fn is_panicking(self) -> bool {
        !self.panicking && std::thread::panicking()
    }

    /// What that panic said; nothing where it was resumed, or the program has a hook that keeps us from hearing it.
    pub(super) fn message(self) -> Option<String> {
        (COUNT.get() != self.panics)
            .then(|| MESSAGE.try_with(|message| message.borrow().clone()).ok())
            .flatten()
    }
}

/// Listens to panics, after whoever listens already.
pub(super) fn watch() {
    static WATCHED: Once<()> = Once::new();
    // A thread that is panicking must not change the hook.
    if std::thread::panicking() {
        return;
    }
    WATCHED.get_or_init(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            before(info);
            listen(info);
        }));
    });
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
