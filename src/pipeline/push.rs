//! The caller's side: pushes events into the thread's ring, and handles a full ring.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::{Add, End, Kind, Start, bytes_of};
use super::overflow::Frame;
use super::ring::{END_ROOM, Ring};
use super::{recorder, rings, shrink, stats};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::fork::PerProcess;
use runlore_core::notice::notice;
use runlore_core::record::Id;
use runlore_core::settings::WhenFull;

/// The maximum time that a task waits for a writer that makes progress but frees no room for it.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The maximum size of ADDs that wait outside of files, in bytes.
const MOST_ADDED: usize = 1 << 20;

static BESIDE: PerProcess<Beside> = PerProcess::new();

/// What threads pass to the writer beside the rings and overflows.
#[derive(Default)]
struct Beside {
    /// The number of tasks that were not recorded, by workflow. The writer takes them.
    dropped: Mutex<Vec<(Number, u64)>>,
    any_dropped: AtomicBool,
    /// Events that fit neither into a ring nor into an overflow file: ENDs, of which there are
    /// never more than open tasks, and ADDs up to [`MOST_ADDED`] bytes.
    stranded: Mutex<Stranded>,
    any_stranded: AtomicBool,
    /// The number of ADDs so far, which is also the sequence number of the last one.
    adds: AtomicU64,
    /// The number of ADDs that found no room anywhere.
    lost_adds: AtomicU64,
}

/// Events that wait in memory and are lost with the process.
#[derive(Default)]
struct Stranded {
    events: Vec<(Kind, Vec<u8>)>,
    added: usize,
}

/// Returns the calling thread's queue for a workflow, and creates it if necessary. The queue is
/// empty if the thread cannot have a ring.
#[inline]
pub(crate) fn queue(workflow: Number) -> Queue {
    Queue(rings::own(workflow))
}

/// A thread's queue, fetched before a task's clock starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue(Option<&'static Ring>);

/// How pushing a task's event may affect its thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    /// The END comes from the same thread, so its ring reserves room for it.
    pub(crate) reserve: bool,
    /// The task may wait for room if the overflow is full, too. An asynchronous task may not,
    /// because it would block all other tasks of its worker thread.
    pub(crate) may_wait: bool,
}

/// The result of pushing a START.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// The task is not recorded, and is counted as dropped.
    Nowhere,
    /// The task is recorded.
    Recorded,
    /// The task is recorded, and its ring has reserved room for its END.
    Reserved,
}

/// Pushes a START.
#[inline]
pub(crate) fn push_start(queue: Queue, start: Start, items: &[u8], manners: Manners) -> Started {
    let Some(ring) = queue.0 else { return push_start_without_ring(start, items) };
    if items.len() > room_for_items(ring) || !try_start(ring, start, items, manners.reserve) {
        return push_start_late(ring, start, items, manners);
    }
    wake_if_filling(ring);
    if manners.reserve { Started::Reserved } else { Started::Recorded }
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

/// Pushes a START that did not fit into the ring at once.
#[cold]
#[inline(never)]
fn push_start_late(ring: &Ring, mut start: Start, items: &[u8], manners: Manners) -> Started {
    let fitting = fitting(ring, items);
    start.lost_items = fitting.is_none();
    let items = fitting.unwrap_or_default();
    let attempt = || try_start(ring, start, &items, manners.reserve);
    let started = if attempt() {
        if manners.reserve { Started::Reserved } else { Started::Recorded }
    } else if spill(ring, Kind::Start, &start.to_words(), &items) {
        Started::Recorded
    } else if wait_for_room(ring, items.len(), manners.may_wait, attempt) {
        if manners.reserve { Started::Reserved } else { Started::Recorded }
    } else {
        drop_task(start.workflow)
    };
    wake_if_filling(ring);
    started
}

/// Returns as many of an event's items as fit into a ring. `None` if none do.
fn fitting<'i>(ring: &Ring, items: &'i [u8]) -> Option<Cow<'i, [u8]>> {
    let room = room_for_items(ring);
    if items.len() <= room {
        return Some(Cow::Borrowed(items));
    }
    shrink::to_fit(items, room).map(Cow::Owned)
}

/// Appends an event to the overflow, if the settings allow it.
fn spill(ring: &Ring, kind: Kind, head: &[u64], items: &[u8]) -> bool {
    let spilled = settings().recorder.when_full == WhenFull::Spill
        && ring.push_to_overflow(kind, &bytes_of(head), items).is_ok();
    if spilled {
        stats::add(&stats::OVERFLOWED, 1);
        recorder::wake();
    }
    spilled
}

/// Appends an event of a thread without a ring to the overflow, if the settings allow it.
#[cold]
fn spill_without_ring(workflow: Number, kind: Kind, head: &[u64], items: &[u8]) -> bool {
    if settings().recorder.when_full != WhenFull::Spill || !recorder::is_running() {
        return false;
    }
    let Some(overflow) = rings::overflow_of(workflow) else { return false };
    let (thread, head) = (std::thread::current(), bytes_of(head));
    let spilled = overflow.append(Frame {
        kind,
        thread_id: runlore_core::thread::current_id(),
        thread_name: thread.name().unwrap_or_default().as_bytes(),
        event: [&head, items],
    });
    if spilled.is_ok() {
        stats::add(&stats::OVERFLOWED, 1);
        recorder::wake();
    }
    spilled.is_ok()
}

/// Pushes an END. If its START reserved room, it always fits, if necessary without its items.
#[inline]
pub(crate) fn push_end(workflow: Number, end: End, items: &[u8], manners: Manners) {
    let Some(ring) = rings::own(workflow) else {
        return push_end_without_ring(workflow, end, items);
    };
    if manners.reserve {
        ring.release_reservation();
    }
    if items.len() > room_for_items(ring) || !try_end(ring, end, items) {
        push_end_late(ring, end, items, manners);
    }
    wake_if_filling(ring);
    rings::close_if_late();
}

#[inline]
fn try_end(ring: &Ring, end: End, items: &[u8]) -> bool {
    ring.push(Kind::End, end.to_words(), items, ring.reserved()).is_ok()
}

/// Pushes an END that did not fit into the ring at once.
#[cold]
#[inline(never)]
fn push_end_late(ring: &Ring, end: End, items: &[u8], manners: Manners) {
    let attempt = |items: &[u8]| {
        try_end(ring, end, items)
            || spill(ring, Kind::End, &end.to_words(), items)
            || wait_for_room(ring, items.len(), manners.may_wait, || try_end(ring, end, items))
    };
    if fitting(ring, items).is_some_and(|items| attempt(&items)) {
        return;
    }
    let bare = End { lost_items: !items.is_empty(), ..end };
    let into_reserved_room = || ring.push_past_overflow(Kind::End, bare.to_words(), &[], 0).is_ok();
    if !(manners.reserve && into_reserved_room()) {
        strand(end, items);
    }
}

#[cold]
fn push_end_without_ring(workflow: Number, end: End, items: &[u8]) {
    if !spill_without_ring(workflow, Kind::End, &end.to_words(), items) {
        strand(end, items);
    }
}

/// Pushes an ADD: items for an open task of a workflow.
pub(crate) fn push_add(workflow: Number, task: Id, items: &[u8], may_wait: bool) {
    // Count the ADD before pushing it: when the writer sees the task's END, it then knows that
    // there is an ADD to read first.
    let sequence = BESIDE.adds.fetch_add(1, Ordering::Relaxed) + 1;
    let head = Add { id: task, sequence }.to_words();
    let pushed = match rings::own(workflow) {
        None => spill_without_ring(workflow, Kind::Add, &head, items),
        Some(ring) => {
            let keep = ring.reserved();
            let fits = items.len() <= room_for_items(ring);
            let attempt = || fits && ring.push(Kind::Add, head, items, keep).is_ok();
            let pushed = attempt()
                || spill(ring, Kind::Add, &head, items)
                || (fits && wait_for_room(ring, items.len(), may_wait, attempt));
            wake_if_filling(ring);
            pushed
        }
    };
    if !pushed && !strand_add(&bytes_of(&head), items) {
        BESIDE.lost_adds.fetch_add(1, Ordering::Release);
        notice("the queue is full: something that was added to a task is lost");
    }
}

/// For the writer: returns the number of ADDs to be read so far.
pub(super) fn adds() -> u64 {
    // Load the lost ADDs first. If one is lost in between, the writer waits for it for a moment. In
    // the other order, the writer could miss an ADD.
    let lost = BESIDE.lost_adds.load(Ordering::Acquire);
    BESIDE.adds.load(Ordering::Relaxed) - lost
}

/// Returns the maximum size of an event's items. A ring must hold several events, or one could wait
/// forever.
fn room_for_items(ring: &Ring) -> usize {
    ring.capacity() / 4 - 128
}

#[cold]
fn push_start_without_ring(start: Start, items: &[u8]) -> Started {
    if rings::is_silent() {
        return Started::Nowhere;
    }
    if spill_without_ring(start.workflow, Kind::Start, &start.to_words(), items) {
        return Started::Recorded;
    }
    drop_task(start.workflow)
}

/// Counts a task of a workflow that is not recorded.
#[cold]
pub(crate) fn count_dropped(workflow: Number) {
    count_for_recovery(workflow, 1);
    let mut dropped = BESIDE.dropped.lock().unwrap_or_else(PoisonError::into_inner);
    match dropped.iter_mut().find(|(number, _)| *number == workflow) {
        Some((_, count)) => *count += 1,
        None => dropped.push((workflow, 1)),
    }
    drop(dropped);
    BESIDE.any_dropped.store(true, Ordering::Release);
    stats::add(&stats::DROPPED, 1);
}

/// Handles a task that no queue accepts.
#[cold]
fn drop_task(workflow: Number) -> Started {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    count_dropped(workflow);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        notice(
            "tasks are being lost: the queue and its overflow are full or cannot be written \
             (`recorder.when_full`, `recorder.overflow_bytes`); the run's totals will say how many",
        );
    }
    Started::Nowhere
}

/// Counts lost tasks where recovery can read the number.
pub(super) fn count_for_recovery(workflow: Number, count: u64) {
    if let Some(overflow) = rings::overflow_of(workflow) {
        overflow.count_dropped(workflow, count);
    }
}

/// Returns the tasks dropped since the last call.
pub(super) fn take_dropped() -> Vec<(Number, u64)> {
    if !BESIDE.any_dropped.swap(false, Ordering::Acquire) {
        return Vec::new();
    }
    std::mem::take(&mut *BESIDE.dropped.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cold]
#[inline(never)]
fn strand(end: End, items: &[u8]) {
    let mut bytes = bytes_of(&end.to_words());
    bytes.extend_from_slice(items);
    lock_stranded().events.push((Kind::End, bytes));
    BESIDE.any_stranded.store(true, Ordering::Release);
}

/// Keeps an ADD in memory. Returns `false` if too many wait already.
#[cold]
fn strand_add(head: &[u8], items: &[u8]) -> bool {
    let mut stranded = lock_stranded();
    if stranded.added + items.len() > MOST_ADDED {
        return false;
    }
    stranded.added += items.len();
    stranded.events.push((Kind::Add, [head, items].concat()));
    BESIDE.any_stranded.store(true, Ordering::Release);
    true
}

/// Returns the events since the last call that neither a ring nor an overflow accepted.
pub(super) fn take_stranded() -> Vec<(Kind, Vec<u8>)> {
    if !BESIDE.any_stranded.swap(false, Ordering::Acquire) {
        return Vec::new();
    }
    let mut stranded = lock_stranded();
    stranded.added = 0;
    std::mem::take(&mut stranded.events)
}

fn lock_stranded() -> MutexGuard<'static, Stranded> {
    BESIDE.stranded.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn wake_if_filling(ring: &Ring) {
    if ring.is_past_half() {
        recorder::wake();
    }
}

/// Retries until there is room, as long as the writer makes progress.
#[cold]
fn wait_for_room(ring: &Ring, items: usize, may_wait: bool, attempt: impl FnMut() -> bool) -> bool {
    let stalled = ring.stalled();
    let recorder = &settings().recorder;
    // Items that do not fit into half of the ring beside the reservations of many nested tasks
    // would wait forever.
    let never_fits = ring.reserved() + items > ring.capacity() / 2;
    let waits = match recorder.when_full {
        WhenFull::Spill => may_wait,
        WhenFull::Block => true,
        WhenFull::Drop => false,
    };
    if !waits || never_fits {
        return false;
    }
    if stalled.get() {
        // The last wait was in vain, and there is still no room. The program must not wait again
        // and again.
        return false;
    }
    stats::add(&stats::WAITS, 1);
    ring.want_room(true);
    let has_room = has_room_in_time(recorder.max_wait_ms, attempt);
    ring.want_room(false);
    stalled.set(!has_room);
    has_room
}

/// Retries until there is room, or there was no progress for `max_wait`.
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
