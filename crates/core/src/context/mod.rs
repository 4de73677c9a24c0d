//! The current task, and how it stays current when work moves to other threads, futures or
//! processes.
//!
//! On one thread and across `.await` nothing needs to be done. When work moves to another thread or
//! process, pass [`current()`] along:
//!
//! ```
//! # use runlore::{carry, current, store::MemoryStore};
//! # let run = runlore::workflow("doc").store(MemoryStore::new()).start()?;
//! // a thread, a scope or a pool: wrap the closure
//! std::thread::spawn(carry(|| { /* tasks here belong to the task around `spawn` */ }));
//!
//! // or enter the context by hand, as often as needed
//! let here = current();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| here.run(|| { /* … */ }));
//! });
//!
//! // a child process
//! current().to_env(&mut std::process::Command::new("worker"));
//! # run.finish()?;
//! # Ok::<(), runlore::Error>(())
//! ```

#[doc(hidden)]
mod active;
mod ended;
#[doc(hidden)]
mod env;
mod future;
#[doc(hidden)]
pub mod remote_usage;
#[doc(hidden)]
mod watch;

use std::cell::Cell;
use std::marker::PhantomData;
use std::process::Command;

pub use active::get as active;
pub use active::{
    Active, Number, activate, deactivate, decided, enabled, is_any_running, is_undecided, stop,
};
pub use env::{Inherited, STORE};
pub use future::{FutureExt, InContext};
pub use watch::Watch;

use crate::record::Id;

/// A position in the tree of tasks. Tasks that start in a context get its task as their parent.
///
/// It is small and `Copy`: pass it to as many threads as needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    #[doc(hidden)]
    pub task: Option<Id>,
    /// The workflow's number in the low 32 bits, and flags above it. Both share one word because a
    /// context is often read right after it is written: with separate fields the processor would
    /// stall on that read at every task.
    bound: u64,
}

/// Flag: if the workflow has ended, the process's own workflow takes over.
const LOOSE: u64 = 1 << 32;
/// Flag: the context is inside a measured task.
const MEASURED: u64 = 1 << 33;
/// Flag: like `MEASURED`, after the context was passed to another thread or process.
const HANDED: u64 = 1 << 34;
/// Flag: the context is inside an asynchronous task.
const ASYNC: u64 = 1 << 35;

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(Context::NONE) };
}

/// Returns the context of the calling code.
pub fn current() -> Context {
    let context = CURRENT.get();
    if context.task.is_some() {
        return context.handed_over();
    }
    // Bind to the workflow that runs now: when the context is entered, it may be another one.
    let workflow = active::resolve(context).map_or(context.workflow(), Context::workflow);
    Context::new(None, workflow)
}

/// Returns the current task and the running workflow that the calling code is bound to.
///
/// `None` if that workflow has ended, or if the code is in a workflow only because the process has
/// one.
pub fn around() -> Option<(Option<Id>, Active)> {
    let context = CURRENT.get();
    Some((context.task, active::get(context.workflow())?))
}

/// Returns the id of the current task.
///
/// ```
/// assert_eq!(runlore::current_task_id(), None);
/// ```
pub fn current_task_id() -> Option<Id> {
    CURRENT.get().task
}

/// Returns the id of the current task, and its context.
pub fn current_task() -> Option<(Id, Context)> {
    let context = CURRENT.get();
    Some((context.task?, context))
}

/// Wraps a closure so that it runs in the context of the code that called `carry`.
///
/// ```
/// # use runlore::{carry, store::MemoryStore, task};
/// # let store = MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start()?;
/// let around = task("around").start();
/// std::thread::spawn(carry(|| drop(task("inside").start()))).join().unwrap();
/// drop(around);
/// # run.finish()?;
/// # let tasks = store.tasks();
/// # let id = |name| tasks.iter().find(|t| t.activity_id.as_deref() == Some(name)).unwrap();
/// # assert_eq!(id("inside").parent_task_id.as_ref(), Some(&id("around").task_id));
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn carry<R>(work: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let context = current();
    move || context.run(work)
}

impl Context {
    /// The context without a task, in the process's own workflow.
    pub const NONE: Self = Self { task: None, bound: LOOSE };

    /// Creates a context in a workflow, by the workflow's number. 0 means no workflow.
    #[inline]
    pub const fn new(task: Option<Id>, workflow: Number) -> Self {
        Self { task, bound: workflow as u64 }
    }

    /// Returns the same context, but with the process's own workflow as a fallback once this one
    /// has ended. The thread that started a workflow has such a context, because it goes on to
    /// other work.
    pub const fn loosely(self) -> Self {
        Self { bound: self.bound | LOOSE, ..self }
    }

    /// Returns the same context, marked as inside a measured task.
    pub const fn measured(self) -> Self {
        Self { bound: self.bound | MEASURED, ..self }
    }

    /// Returns the same context, marked as inside an asynchronous task: its thread must not be
    /// blocked.
    pub const fn asynchronous(self) -> Self {
        Self { bound: self.bound | ASYNC, ..self }
    }

    /// Returns whether the context is inside an asynchronous task.
    #[inline]
    pub const fn is_async(self) -> bool {
        self.bound & ASYNC != 0
    }

    /// Returns the same context, for another thread or process.
    pub fn handed_over(self) -> Self {
        // Another thread may be allowed to block.
        let bound = self.bound & !ASYNC;
        match self.task {
            Some(task) if bound & MEASURED != 0 => {
                // The receiver may pass the context on after the task has ended, and must not
                // create the entry again.
                remote_usage::expect(task);
                Self { bound: bound & !MEASURED | HANDED, ..self }
            }
            _ => Self { bound, ..self },
        }
    }

    /// Returns the task of this context. `None` if it is not measured.
    pub fn measured_task(self) -> Option<Id> {
        self.task.filter(|_| self.bound & (MEASURED | HANDED) != 0)
    }

    /// Returns the number of the workflow. 0 if the context is not bound to one.
    #[inline]
    pub const fn workflow(self) -> Number {
        self.bound as Number
    }

    pub(crate) const fn is_loose(self) -> bool {
        self.bound & LOOSE != 0
    }

    /// Runs a closure in this context.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        work()
    }

    /// Makes this the calling thread's context until the guard is dropped.
    ///
    /// Do not hold the guard across an `.await`: use [`FutureExt::in_context`] there.
    #[must_use = "the context is left when the guard is dropped"]
    pub fn enter(self) -> Entered {
        Entered { before: self.replace(), _not_send: PhantomData }
    }

    /// Returns the id of the task in this context.
    pub fn task_id(self) -> Option<Id> {
        self.task
    }

    /// Passes the context to a process that is about to be started. The tasks of that process get
    /// this context's task as their parent and go to the same store.
    pub fn to_env(self, command: &mut Command) {
        for (name, value) in self.env() {
            command.env(name, value);
        }
    }

    /// Returns the environment variables that pass this context on, for callers who start processes
    /// in some other way.
    pub fn env(self) -> Vec<(&'static str, String)> {
        env::variables(self)
    }

    /// Makes this the calling thread's context. Returns the previous one, to be restored later.
    #[inline]
    pub fn replace(self) -> Self {
        watch::show(self);
        CURRENT.replace(self)
    }

    /// Makes this the calling thread's context again.
    #[inline]
    pub fn restore(self) {
        let restored = ended::skip(self);
        watch::show(restored);
        CURRENT.set(restored);
    }

    /// Leaves a task, which need not be the current one. If it is not, the tasks inside it
    /// continue, and this context is restored after them.
    pub fn restore_after(self, task: Id) {
        if current_task_id() == Some(task) {
            self.restore();
        } else {
            ended::remember(task, self);
        }
    }

    /// Returns the calling thread's context for a new task: its parent, and the workflow it belongs
    /// to.
    #[inline]
    pub fn of_new_task() -> Option<Self> {
        let context = CURRENT.get();
        if context.task.is_some() { Some(context) } else { active::resolve(context) }
    }

    /// Returns the workflow that the calling thread is bound to, for callers who found that it has
    /// ended. `None` if the thread is not bound to one.
    pub fn ended_workflow() -> Option<Number> {
        let context = CURRENT.get();
        (context.workflow() != 0 && !context.is_loose()).then_some(context.workflow())
    }
}

/// In a forked child, forgets the current task and the workflows: they are the parent's.
#[cfg(unix)]
pub(crate) fn forget_parent() {
    CURRENT.set(Context::NONE);
    active::forget_parent();
}

/// Restores the previous context when dropped. Made by [`Context::enter`].
#[derive(Debug)]
pub struct Entered {
    before: Context,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.before.restore();
    }
}
