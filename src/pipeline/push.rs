//! The caller's side: events go into the thread's ring, and what to do when it is full.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::config::settings;
use super::event::{Add, End, Kind, Start, bytes_of};
use super::notice::notice;
use super::ring::{END_ROOM, Ring};
use super::{recorder, rings, shed, stats};
use crate::clock;
use crate::context::Number;
use crate::record::Id;
use crate::settings::WhenFull;

/// How long a task waits for a writer that makes progress, but none for it.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Tasks that were not recorded, by workflow; the writer takes them.
static DROPPED: Mutex<Vec<(Number, u64)>> = Mutex::new(Vec::new());
static ANY_DROPPED: AtomicBool = AtomicBool::new(false);

/// Events that found no room: ENDs of tasks that began on another thread, of which there are never more than open
/// tasks, and as much of what was added to tasks as [`MOST_ADDED`] allows.
static OVERFLOW: Mutex<Overflow> = Mutex::new(Overflow { events: Vec::new(), added: 0 });
static ANY_OVERFLOW: AtomicBool = AtomicBool::new(false);

/// Bytes that are added to tasks and wait outside the rings.
const MOST_ADDED: usize = 1 << 20;

/// What waits outside the rings.
pub(super) struct Overflow {
    events: Vec<(Kind, Vec<u8>)>,
    added: usize,
}

/// The calling thread's queue for a workflow, made if need be; none where it can have none.
#[inline]
pub(crate) fn queue(workflow: Number) -> Queue {
    Queue(rings::own(workflow))
}

/// A thread's queue, taken before the clock of a task starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue(Option<&'static Ring>);

/// Pushes a START; `false` when the task will not be recorded. With `reserve` room is kept for its END, which
/// must then come from this thread.
#[inline]
pub(crate) fn push_start(queue: Queue, start: Start, items: &[u8], reserve: bool) -> bool {
    let Some(ring) = queue.0 else { return no_ring(start.workflow) };
    if items.len() > room_for_items(ring) || !try_start(ring, start, items, reserve) {
        return push_start_late(ring, start, items, reserve);
    }
    wake_if_filling(ring);
    true
}

#[inline]
fn try_start(ring: &Ring, start: Start, items: &[u8], reserve: bool) -> bool {
    let keep = ring.reserved() + if reserve { 2 * END_ROOM } else { 0 };
    let pushed = ring.push(Kind::Start, start.to_words(), items, keep).is_ok();
    if pushed && reserve {
        ring.reserve();
    }
    pushed
}

/// A START that did not go into the ring at once.
#[cold]
#[inline(never)]
fn push_start_late(ring: &Ring, mut start: Start, items: &[u8], reserve: bool) -> bool {
    let fitting = fitting(ring, items);
    start.lost_items = fitting.is_none();
    let items = fitting.unwrap_or_default();
    let attempt = || try_start(ring, start, &items, reserve);
    let pushed = attempt() || wait_for_room(ring, items.len(), attempt);
    if !pushed {
        count_dropped(start.workflow);
    }
    wake_if_filling(ring);
    pushed
}

/// As much of an event's items as a ring takes; none where it takes nothing of them.
fn fitting<'i>(ring: &Ring, items: &'i [u8]) -> Option<Cow<'i, [u8]>> {
    let room = room_for_items(ring);
    if items.len() <= room {
        return Some(Cow::Borrowed(items));
    }
    shed::to_fit(items, room).map(Cow::Owned)
}

/// Pushes an END. One whose START reserved room always fits, if need be without its items.
#[inline]
pub(crate) fn push_end(workflow: Number, end: End, items: &[u8], reserved: bool) {
    let Some(ring) = rings::own(workflow) else { return overflow(end, items) };
    if reserved {
        ring.release_reservation();
    }
    if items.len() > room_for_items(ring) || !try_end(ring, end, items) {
        push_end_late(ring, end, items, reserved);
    }
    wake_if_filling(ring);
    rings::close_if_late();
}

#[inline]
fn try_end(ring: &Ring, end: End, items: &[u8]) -> bool {
    ring.push(Kind::End, end.to_words(), items, ring.reserved()).is_ok()
}

/// An END that did not go into the ring at once.
#[cold]
#[inline(never)]
fn push_end_late(ring: &Ring, end: End, items: &[u8], reserved: bool) {
    if let Some(items) = &fitting(ring, items)
        && (try_end(ring, end, items)
            || wait_for_room(ring, items.len(), || try_end(ring, end, items)))
    {
        return;
    }
    let bare = End { lost_items: !items.is_empty(), ..end };
    if !(reserved && ring.push(Kind::End, bare.to_words(), &[], 0).is_ok()) {
        overflow(end, items);
    }
}

/// Adds items to a task of a workflow that is open.
pub(crate) fn push_add(workflow: Number, task: Id, items: &[u8]) {
    // Counted before it is there: the writer, when it sees the task's END, knows that there is something to read first.
    let sequence = ADDS.fetch_add(1, Ordering::Relaxed) + 1;
    let head = Add { id: task, sequence }.to_words();
    let ring = rings::own(workflow).filter(|ring| items.len() <= room_for_items(ring));
    let pushed = ring.is_some_and(|ring| {
        let keep = ring.reserved();
        let attempt = || ring.push(Kind::Add, head, items, keep).is_ok();
        let pushed = attempt() || wait_for_room(ring, items.len(), attempt);
        wake_if_filling(ring);
        pushed
    });
    if !pushed && !overflow_add(&bytes_of(&head), items) {
        LOST_ADDS.fetch_add(1, Ordering::Release);
        notice("the queue is full: something that was added to a task is lost");
    }
}

/// How many times something was added to a task: the sequence number of the last ADD.
static ADDS: AtomicU64 = AtomicU64::new(0);
/// How many of these found no room anywhere.
static LOST_ADDS: AtomicU64 = AtomicU64::new(0);

/// In a forked child: nothing was added yet.
#[cfg(unix)]
pub(super) fn forget_adds() {
    ADDS.store(0, Ordering::Relaxed);
    LOST_ADDS.store(0, Ordering::Relaxed);
}

/// By the writer: how many ADDs there are to be read so far.
pub(super) fn adds() -> u64 {
    // In this order: one that is lost in between is expected for a moment, instead of another one being forgotten.
    let lost = LOST_ADDS.load(Ordering::Acquire);
    ADDS.load(Ordering::Relaxed) - lost
}

/// Several events must fit a ring, or one could wait for ever.
fn room_for_items(ring: &Ring) -> usize {
    ring.capacity() / 4 - 128
}

#[cold]
fn no_ring(workflow: Number) -> bool {
    if !rings::is_silent() {
        count_dropped(workflow);
    }
    false
}

/// Counts a task of a workflow that is not recorded.
#[cold]
pub(crate) fn count_dropped(workflow: Number) {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    match dropped.iter_mut().find(|(number, _)| *number == workflow) {
        Some((_, count)) => *count += 1,
        None => dropped.push((workflow, 1)),
    }
    ANY_DROPPED.store(true, Ordering::Release);
    stats::add(&stats::DROPPED, 1);
}

/// The tasks dropped since the last call.
pub(super) fn take_dropped() -> Vec<(Number, u64)> {
    if !ANY_DROPPED.swap(false, Ordering::Acquire) {
        return Vec::new();
    }
    std::mem::take(&mut *DROPPED.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cold]
#[inline(never)]
fn overflow(end: End, items: &[u8]) {
    let mut bytes = bytes_of(&end.to_words());
    bytes.extend_from_slice(items);
    lock_overflow().events.push((Kind::End, bytes));
    ANY_OVERFLOW.store(true, Ordering::Release);
}

/// `false` where too much waits already.
#[cold]
fn overflow_add(head: &[u8], items: &[u8]) -> bool {
    let mut overflow = lock_overflow();
    if overflow.added + items.len() > MOST_ADDED {
        return false;
    }
    overflow.added += items.len();
    overflow.events.push((Kind::Add, [head, items].concat()));
    ANY_OVERFLOW.store(true, Ordering::Release);
    true
}

/// The events that found no room in a ring since the last call.
pub(super) fn take_overflow() -> Vec<(Kind, Vec<u8>)> {
    if !ANY_OVERFLOW.swap(false, Ordering::Acquire) {
        return Vec::new();
    }
    let mut overflow = lock_overflow();
    overflow.added = 0;
    std::mem::take(&mut overflow.events)
}

fn lock_overflow() -> MutexGuard<'static, Overflow> {
    OVERFLOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What callers leave for the writer outside the rings, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = (MutexGuard<'static, Vec<(Number, u64)>>, MutexGuard<'static, Overflow>);

#[cfg(unix)]
pub(super) fn hold() -> Held {
    (DROPPED.lock().unwrap_or_else(PoisonError::into_inner), lock_overflow())
}

#[inline]
fn wake_if_filling(ring: &Ring) {
    if ring.is_past_half() {
        recorder::wake();
    }
}

/// Tries until there is room, as long as the writer makes progress.
#[cold]
fn wait_for_room(ring: &Ring, items: usize, attempt: impl FnMut() -> bool) -> bool {
    let stalled = ring.stalled();
    let recorder = &settings().recorder;
    // What does not fit into half of the ring, because so many tasks are open in each other, would wait for ever.
    let never_fits = ring.reserved() + items > ring.capacity() / 2;
    if recorder.when_full == WhenFull::Drop || never_fits {
        return false;
    }
    if stalled.get() {
        // The last wait was in vain, and still there is no room: the program must not wait again and again.
        return false;
    }
    stats::add(&stats::WAITS, 1);
    ring.want_room(true);
    let has_room = has_room_in_time(recorder.max_wait_ms, attempt);
    ring.want_room(false);
    stalled.set(!has_room);
    has_room
}

/// Tries until there is room, or nothing has moved on for so long.
fn has_room_in_time(max_wait: Duration, mut attempt: impl FnMut() -> bool) -> bool {
    let began = clock::monotonic_ns();
    let (mut progress, mut since) = (recorder::progress(), began);
    for round in 0_u32.. {
        recorder::wake();
        if attempt() {
            return true;
        }
        let now = clock::monotonic_ns();
        if recorder::progress() != progress {
            (progress, since) = (recorder::progress(), now);
        } else if now - since > max_wait.as_nanos() as u64 && !recorder::is_storing(now) {
            break;
        }
        if now - began > LONGEST_WAIT.as_nanos() as u64 {
            break;
        }
        if round < 20 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    false
}
