//! The running workflows of this process, and which of them a task without a context belongs to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Context;
use crate::fork::PerProcess;
use crate::record::Id;

/// The number of a workflow in this process. 0 means none.
pub type Number = u32;

/// The data of a running workflow that contexts need.
#[derive(Debug, Clone)]
pub struct Active {
    pub number: Number,
    pub id: String,
    pub name: String,
    pub campaign: String,
    /// The parent of its outermost tasks: the task that was current when it started, in this
    /// process or in another.
    pub root: Option<Id>,
    /// The URIs under which a child process opens its stores.
    pub stores: Vec<String>,
}

/// It is not yet decided whether this process records by itself.
const UNKNOWN: u32 = 0;
/// Nothing is recorded.
const OFF: u32 = 1;
/// From this value on workflows are running. The value changes whenever one starts or ends.
const FIRST_EPOCH: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static ACTIVE: PerProcess<Mutex<Vec<Active>>> = PerProcess::new();

thread_local! {
    /// The last call of `resolve`: the state at that time, the argument, and the result. A result
    /// without a workflow has the number 0. An `Option` would need a second check beside the one
    /// for the thread-local itself.
    static RESOLVED: Cell<(u32, Context, Context)> =
        const { Cell::new((OFF, Context::NONE, Context::NONE)) };
}

/// Returns whether tasks may be recorded at all. If not, this call is all that an annotated
/// function does.
#[inline(always)]
pub fn enabled() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Returns the context of a task that begins outside any other task. It is in the wanted workflow
/// if that still runs. For a loose context the fallback is the process's own workflow: the one that
/// has been running longest.
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

/// Returns whether it is still undecided if this process records by itself.
pub fn is_undecided() -> bool {
    STATE.load(Ordering::Relaxed) == UNKNOWN
}

/// Ends the undecided state. If no workflow is running, nothing is recorded.
pub fn decided() {
    _ = STATE.compare_exchange(UNKNOWN, OFF, Ordering::Relaxed, Ordering::Relaxed);
}

/// Stops recording because the process ends: no new task begins.
pub fn stop() {
    STATE.store(OFF, Ordering::Relaxed);
}

/// Adds a workflow.
pub fn activate(run: Active) {
    let mut active = lock();
    active.push(run);
    next_state(&active);
}

/// Removes a workflow.
pub fn deactivate(number: Number) {
    let mut active = lock();
    active.retain(|run| run.number != number);
    next_state(&active);
}

/// Returns the workflow of this number, if it still runs.
pub fn get(number: Number) -> Option<Active> {
    lock().iter().find(|run| run.number == number).cloned()
}

/// Returns whether a workflow is running. Called at the end of the process, so it does not wait for
/// another thread: it returns true if the list is locked.
pub fn is_any_running() -> bool {
    ACTIVE.try_lock().map_or(true, |active| !active.is_empty())
}

/// In a forked child, stops recording: the workflows that are running are the parent's.
#[cfg(unix)]
pub(super) fn forget_parent() {
    if !is_undecided() {
        STATE.store(OFF, Ordering::Relaxed);
    }
}

/// Sets a state that no thread has seen yet, or `OFF`. The caller must hold the list's lock.
fn next_state(active: &[Active]) {
    static EPOCH: AtomicU32 = AtomicU32::new(FIRST_EPOCH);
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed).max(FIRST_EPOCH);
    STATE.store(if active.is_empty() { OFF } else { epoch }, Ordering::Relaxed);
}

fn lock() -> MutexGuard<'static, Vec<Active>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
