//! The workflows that are running in this process, and which of them a task without a context belongs to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Context;
use crate::record::Id;

/// The number of a workflow in this process; 0 is none.
pub type Number = u32;

/// A running workflow, as far as contexts need it.
#[derive(Debug, Clone)]
pub struct Active {
    pub number: Number,
    pub id: String,
    pub name: String,
    pub campaign: String,
    /// The parent of its outermost tasks: the task around its start, in this process or another.
    pub root: Option<Id>,
    /// Where a child process finds its stores.
    pub stores: Vec<String>,
}

/// Nobody looked yet whether this process should record.
const UNKNOWN: u32 = 0;
/// Nothing is recorded.
const OFF: u32 = 1;
/// From here on workflows are running; the number changes whenever one starts or ends.
const FIRST_EPOCH: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static ACTIVE: Mutex<Vec<Active>> = Mutex::new(Vec::new());

thread_local! {
    /// What `resolve` found last: the state then, what was asked, and the answer, which names no workflow where there is
    /// none. (An `Option` would be looked at twice, here and where the thread-local is reached.)
    static RESOLVED: Cell<(u32, Context, Context)> =
        const { Cell::new((OFF, Context::NONE, Context::NONE)) };
}

/// Whether tasks may be recorded at all. The only thing that an annotated function does when they are not.
#[inline(always)]
pub fn enabled() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// The context of a task that begins outside any other: in the workflow asked for if that still runs, else in the
/// process's own, which is the one that has been running longest.
#[inline]
pub(super) fn resolve(wanted: Context) -> Option<Context> {
    let state = STATE.load(Ordering::Relaxed);
    let (then, asked, answer) = RESOLVED.get();
    if then == state && asked == wanted && state >= FIRST_EPOCH {
        return (answer.workflow() != 0).then_some(answer);
    }
    resolve_anew(wanted)
}

#[cold]
fn resolve_anew(wanted: Context) -> Option<Context> {
    let active = lock();
    let state = STATE.load(Ordering::Relaxed);
    let named = active.iter().find(|run| run.number == wanted.workflow());
    let found = if wanted.is_loose() { named.or(active.first()) } else { named };
    let answer = found.map(|run| Context::new(run.root, run.number));
    RESOLVED.set((state, wanted, answer.unwrap_or(Context::NONE)));
    answer
}

/// Whether nobody has looked yet if this process should record by itself.
pub fn is_undecided() -> bool {
    STATE.load(Ordering::Relaxed) == UNKNOWN
}

/// Somebody has looked; where no workflow runs now, nothing is recorded.
pub fn decided() {
    _ = STATE.compare_exchange(UNKNOWN, OFF, Ordering::Relaxed, Ordering::Relaxed);
}

/// The process ends: no task begins any more.
pub fn stop() {
    STATE.store(OFF, Ordering::Relaxed);
}

/// Adds a workflow.
pub fn activate(run: Active) {
    let mut active = lock();
    active.push(run);
    next_state(&active);
}

/// Takes a workflow out.
pub fn deactivate(number: Number) {
    let mut active = lock();
    active.retain(|run| run.number != number);
    next_state(&active);
}

/// The workflow of this number, if it still runs.
pub fn get(number: Number) -> Option<Active> {
    lock().iter().find(|run| run.number == number).cloned()
}

/// At the end of the process: whether a workflow runs, as far as can be seen without waiting for another thread.
pub fn is_any_running() -> bool {
    ACTIVE.try_lock().map_or(true, |active| !active.is_empty())
}

/// In a forked child: the workflows are the parent's, and so is the task around the fork.
#[cfg(unix)]
pub fn forget_runs() {
    std::mem::forget(std::mem::take(&mut *lock()));
    Context::NONE.replace();
    STATE.store(OFF, Ordering::Relaxed);
}

/// The list, locked while the process forks.
#[cfg(unix)]
pub(crate) type Held = MutexGuard<'static, Vec<Active>>;

#[cfg(unix)]
pub(crate) fn hold() -> Held {
    lock()
}

/// While the list is locked: a state that no thread has seen yet, or OFF.
fn next_state(active: &[Active]) {
    static EPOCH: AtomicU32 = AtomicU32::new(FIRST_EPOCH);
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed).max(FIRST_EPOCH);
    STATE.store(if active.is_empty() { OFF } else { epoch }, Ordering::Relaxed);
}

fn lock() -> MutexGuard<'static, Vec<Active>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
