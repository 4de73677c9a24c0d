//! Which task is current, and how it stays current where the work goes: threads, futures, processes.
//!
//! On one thread and across `.await` nothing needs to be done. Where work moves to another thread or
//! process, hand [`current()`] over:
//!
//! ```
//! # use runlore::{carry, current, store::MemoryStore};
//! # let run = runlore::workflow("doc").store(MemoryStore::new()).start()?;
//! // one word for a thread, a scope or a pool
//! std::thread::spawn(carry(|| { /* tasks here belong to the task around `spawn` */ }));
//!
//! // or by hand, as often as needed
//! let here = current();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| here.run(|| { /* … */ }));
//! });
//!
//! // into a child process
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
pub mod handed;
#[doc(hidden)]
mod watch;

use std::cell::Cell;
use std::marker::PhantomData;
use std::process::Command;

#[cfg(unix)]
pub use active::forget_runs;
pub use active::get as active;
pub use active::{
    Active, Number, activate, deactivate, decided, enabled, is_any_running, is_undecided, stop,
};
pub use env::{Inherited, STORE};
pub use future::{FutureExt, InContext};
pub use watch::Watch;

use crate::record::Id;

/// A place in the tree of tasks: whoever runs in it has the task that was current as its parent.
///
/// It is small and `Copy`: hand it to as many threads as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    #[doc(hidden)]
    pub task: Option<Id>,
    /// The number of the workflow, and above it whether the context is loose and its task measured. One word, so that a context that was just
    /// written is read back as it was written: in parts, the processor waits for it at every task.
    bound: u64,
}

/// Marks a context as loose.
const LOOSE: u64 = 1 << 32;
/// Marks the context inside a task that is measured.
const MEASURED: u64 = 1 << 33;
/// Marks such a context once it was handed over.
const HANDED: u64 = 1 << 34;
/// Marks the context inside an asynchronous task.
const ASYNC: u64 = 1 << 35;

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(Context::NONE) };
}

/// The context of the calling code.
pub fn current() -> Context {
    let context = CURRENT.get();
    if context.task.is_some() {
        return context.handed_over();
    }
    // Bind to the workflow of the moment: another may have started when the context is entered.
    let workflow = active::resolve(context).map_or(context.workflow(), Context::workflow);
    Context::new(None, workflow)
}

/// The task and the running workflow around the calling code, where it is inside one by itself and not only because
/// the process has one.
pub fn around() -> Option<(Option<Id>, Active)> {
    let context = CURRENT.get();
    Some((context.task, active::get(context.workflow())?))
}

/// The id of the task around the calling code.
///
/// ```
/// assert_eq!(runlore::current_task_id(), None);
/// ```
pub fn current_task_id() -> Option<Id> {
    CURRENT.get().task
}

/// The task around the calling code, and its context.
pub fn current_task() -> Option<(Id, Context)> {
    let context = CURRENT.get();
    Some((context.task?, context))
}

/// A closure that runs in the context of the code that called `carry`.
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
    /// No task, and whichever workflow is the process's own.
    pub const NONE: Self = Self { task: None, bound: LOOSE };

    /// A place in a workflow, by its number; 0 for whichever is the process's own.
    #[inline]
    pub const fn new(task: Option<Id>, workflow: Number) -> Self {
        Self { task, bound: workflow as u64 }
    }

    /// The same, but the process's own workflow takes over when this one has ended: so for the thread that started it,
    /// which goes on to other things.
    pub const fn loosely(self) -> Self {
        Self { bound: self.bound | LOOSE, ..self }
    }

    /// The same, inside a task that is measured.
    pub const fn measured(self) -> Self {
        Self { bound: self.bound | MEASURED, ..self }
    }

    /// The same, inside an asynchronous task: the thread must not be held up.
    pub const fn asynchronous(self) -> Self {
        Self { bound: self.bound | ASYNC, ..self }
    }

    /// Whether it is inside an asynchronous task.
    #[inline]
    pub const fn is_async(self) -> bool {
        self.bound & ASYNC != 0
    }

    /// The same, for another thread or process.
    pub fn handed_over(self) -> Self {
        // The other thread may be one that can wait.
        let bound = self.bound & !ASYNC;
        match self.task {
            Some(task) if bound & MEASURED != 0 => {
                // Whoever gets it may hand it on when the task has ended, and must not make the entry again.
                handed::expect(task);
                Self { bound: bound & !MEASURED | HANDED, ..self }
            }
            _ => Self { bound, ..self },
        }
    }

    /// The task of this context, if it is measured.
    pub fn measured_task(self) -> Option<Id> {
        self.task.filter(|_| self.bound & (MEASURED | HANDED) != 0)
    }

    /// The number of the workflow; 0 for whichever is the process's own.
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

    /// The id of the task in this context.
    pub fn task_id(self) -> Option<Id> {
        self.task
    }

    /// Hands the context over to a process that is about to be started: its tasks have this context's task as
    /// their parent, and go to the same store.
    pub fn to_env(self, command: &mut Command) {
        for (name, value) in self.env() {
            command.env(name, value);
        }
    }

    /// The environment variables that hand this context over; for whoever starts processes some other way.
    pub fn env(self) -> Vec<(&'static str, String)> {
        env::variables(self)
    }

    /// Makes this the calling thread's context, and returns what to restore.
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

    /// Leaves a task that may not be the current one: then the others inside it go on, and this context comes back after
    /// them.
    pub fn restore_after(self, task: Id) {
        if current_task_id() == Some(task) {
            self.restore();
        } else {
            ended::remember(task, self);
        }
    }

    /// The calling thread's context, for a task that begins: its parent, and the workflow it belongs to.
    #[inline]
    pub fn of_new_task() -> Option<Self> {
        let context = CURRENT.get();
        if context.task.is_some() { Some(context) } else { active::resolve(context) }
    }

    /// The calling thread's workflow, where it is bound to one that has ended.
    pub fn ended_workflow() -> Option<Number> {
        let context = CURRENT.get();
        (context.workflow() != 0 && !context.is_loose()).then_some(context.workflow())
    }
}

/// The locks of this module, held while the process forks.
#[cfg(unix)]
pub type Held = (active::Held, handed::Held);

#[cfg(unix)]
#[doc(hidden)]
pub fn hold() -> Held {
    (active::hold(), handed::hold())
}

/// Restores the context that was before; made by [`Context::enter`].
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
