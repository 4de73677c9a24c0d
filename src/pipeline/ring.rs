//! A thread's own queue: one producer, one consumer, events of any length, no locks.
//!
//! The ring is a block of memory with a header that contains its owner and the position of each
//! side. Positions only grow; a position modulo the capacity is an offset in the ring. An event
//! never wraps around: if it does not fit before the end, padding fills the rest.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::event::{Kind, u32_at, u64_at};
use super::memory::Memory;
use super::overflow::{Frame, Overflow, Refused};
use super::session::Home;
use super::thread::Thread;

/// The size of an event's header: its length, its kind, and the number of padding bytes at its end.
const HEAD: usize = 8;

/// Events begin at multiples of this.
const ALIGN: usize = 8;

/// The offset of the first event.
const DATA: usize = 4096;

/// The size of an END without items, which a START reserves.
pub(crate) const END_ROOM: usize = HEAD + super::event::End::BYTES;

const FREE: u32 = 0;
const OWNED: u32 = 1;
const CLOSED: u32 = 2;

/// The header of a ring: everything that another process needs to read it after this one died. Each
/// side's position has its own cache line.
#[repr(C)]
struct Shared {
    magic: AtomicU64,
    capacity: AtomicU64,
    state: AtomicU32,
    /// The number of threads that have owned the ring so far.
    owners: AtomicU32,
    /// The owner: its number, and its name in UTF-8, terminated by a zero.
    thread_id: AtomicU64,
    thread_name: [AtomicU64; 8],
    _line: [u8; 32],
    /// The consumer is done up to here. Written by the consumer.
    released: AtomicU64,
    _line2: [u8; 120],
    /// Events are complete up to here. Written by the producer.
    committed: AtomicU64,
    _line3: [u8; 120],
}

/// Identifies the bytes as a ring, and their format.
const MAGIC: u64 = u64::from_le_bytes(*b"RUNLORE1");

/// State that only the owning thread accesses.
struct Producer {
    committed: Cell<u64>,
    /// The consumer's last known position, so that most pushes do not read its cache line.
    released: Cell<u64>,
    /// The number of open tasks with room reserved for their END.
    reserved: Cell<usize>,
    /// Set if waiting for room was in vain, until there is room again. The thread does not wait a
    /// second time.
    stalled: Cell<bool>,
    /// The position in the overflow after this thread's last event there. 0 once the writer has
    /// read that event.
    overflowed: Cell<u64>,
    /// The next ring of the same thread.
    next_own: Cell<Option<&'static Ring>>,
}

/// The thread that owns a ring: its number, and its name terminated by a zero.
struct Introduction {
    id: u64,
    name: [u8; 64],
}

/// The error of a push if there is no room for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

pub(crate) struct Ring {
    memory: Memory,
    capacity: usize,
    producer: Producer,
    /// The ring's session, the overflow for its thread's events when the ring is full, and whether
    /// the session is gone.
    pub(super) home: Home,
    overflow: Arc<Overflow>,
    abandoned: AtomicBool,
    /// Whether its thread waits for room.
    wanted: AtomicBool,
    /// The ring's number, in the order of creation, from 1.
    pub(super) number: u64,
}

// SAFETY: only the thread that owns the ring accesses `producer` (`claim` hands it over with
// Acquire and Release). Only the consumer accesses the data between `released` and `committed`, and
// only the producer the rest.
unsafe impl Sync for Ring {}
// SAFETY: as above; the memory belongs to no thread.
unsafe impl Send for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Ring {
    /// Returns the size of the memory for a ring of `capacity` bytes.
    pub(crate) fn memory_for(capacity: usize) -> usize {
        DATA + capacity
    }

    /// Creates a ring of `capacity` bytes (a power of two), owned by the calling thread.
    pub(super) fn new(
        memory: Memory,
        capacity: usize,
        overflow: Arc<Overflow>,
        number: u64,
    ) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let ring = Self {
            memory,
            capacity,
            home: overflow.home,
            overflow,
            abandoned: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            number,
            producer: Producer {
                committed: Cell::new(0),
                released: Cell::new(0),
                reserved: Cell::new(0),
                stalled: Cell::new(false),
                overflowed: Cell::new(0),
                next_own: Cell::new(None),
            },
        };
        let shared = ring.shared();
        shared.capacity.store(capacity as u64, Ordering::Relaxed);
        shared.magic.store(MAGIC, Ordering::Relaxed);
        shared.state.store(OWNED, Ordering::Release);
        ring
    }

    /// Prepares the pages of a part of the ring for writing.
    pub(crate) fn prepare(&self, places: Range<usize>) {
        self.memory.prepare(DATA + places.start..DATA + places.end);
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the memory begins with at least DATA zeroed bytes at a page boundary, which is a valid
        // `Shared`; it is only ever seen through atomics.
        unsafe { &*self.memory.start().cast::<Shared>() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Claims a free ring for the calling thread. Returns `false` if it is not free.
    pub(crate) fn claim(&self) -> bool {
        let state = &self.shared().state;
        let claimed =
            state.compare_exchange(FREE, OWNED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if claimed {
            self.producer.reserved.set(0);
            self.producer.stalled.set(false);
            self.producer.overflowed.set(0);
        }
        claimed
    }

    /// Sets the ring's owner. The owning thread must call this before its first event.
    pub(crate) fn introduce(&self, thread_id: u64, name: Option<&str>) {
        let shared = self.shared();
        let mut text = [0; 64];
        let name = name.unwrap_or_default().as_bytes();
        let kept = name.len().min(text.len() - 1);
        text[..kept].copy_from_slice(&name[..kept]);
        for (word, bytes) in shared.thread_name.iter().zip(text.chunks_exact(8)) {
            word.store(u64_at(bytes, 0), Ordering::Relaxed);
        }
        shared.thread_id.store(thread_id, Ordering::Relaxed);
        // A consumer that sees the owner's first event also sees its name, because `committed` is
        // stored later.
        shared.owners.fetch_add(1, Ordering::Relaxed);
    }

    /// For the consumer: returns how many owners the ring has had. Only changes while the ring is
    /// empty.
    pub(crate) fn owners(&self) -> u32 {
        self.shared().owners.load(Ordering::Relaxed)
    }

    /// For the consumer: returns the thread that owns the ring.
    pub(crate) fn owner(&self) -> Thread {
        let Introduction { id, name } = self.introduction();
        Thread::new(id, &name)
    }

    fn introduction(&self) -> Introduction {
        let shared = self.shared();
        let mut name = [0; 64];
        for (word, bytes) in shared.thread_name.iter().zip(name.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Introduction { id: shared.thread_id.load(Ordering::Relaxed), name }
    }

    /// For the consumer: returns the producer's position.
    pub(crate) fn committed(&self) -> u64 {
        self.shared().committed.load(Ordering::Acquire)
    }

    /// Closes the ring when the owning thread ends. It is free once it is drained.
    pub(crate) fn close(&self) {
        self.shared().state.store(CLOSED, Ordering::Release);
    }

    /// For the consumer: returns whether the owning thread has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared().state.load(Ordering::Acquire) == CLOSED
    }

    /// For the consumer: frees a closed ring that it has drained.
    pub(crate) fn free_if_done(&self, read: u64) {
        let shared = self.shared();
        let done = shared.state.load(Ordering::Acquire) == CLOSED
            && shared.committed.load(Ordering::Acquire) == read
            && shared.released.load(Ordering::Relaxed) == read;
        if done {
            shared.state.store(FREE, Ordering::Release);
        }
    }

    /// Appends an event. Only for the owning thread. `keep` bytes stay free after it, including
    /// reservations.
    #[inline]
    pub(crate) fn push(
        &self,
        kind: Kind,
        head: impl Head,
        items: &[u8],
        keep: usize,
    ) -> Result<(), Full> {
        if self.producer.overflowed.get() != 0 && !self.has_caught_up() {
            return Err(Full);
        }
        self.push_past_overflow(kind, head, items, keep)
    }

    /// Like `push`, even if the writer has not read all of the thread's events in the overflow.
    #[inline]
    pub(crate) fn push_past_overflow(
        &self,
        kind: Kind,
        head: impl Head,
        items: &[u8],
        keep: usize,
    ) -> Result<(), Full> {
        let used = HEAD + head.length() + items.len();
        let length = used.next_multiple_of(ALIGN);
        let committed = self.producer.committed.get();
        let place = committed as usize & (self.capacity - 1);
        let pad = if self.capacity - place < length { self.capacity - place } else { 0 };
        let wanted = pad + length + keep;
        if !self.has_room(committed, wanted) {
            return Err(Full);
        }
        if pad > 0 {
            self.write_head(place, pad, Kind::Pad, 0);
        }
        let place = if pad > 0 { 0 } else { place };
        // SAFETY: [place, place + length) lies inside the data, and `has_room` saw that the consumer is done with
        // it. The lengths add up to at most `length`.
        unsafe {
            let start = self.data().add(place);
            self.write_head(place, length, kind, length - used);
            head.write(start.add(HEAD));
            if !items.is_empty() {
                copy(items, start.add(HEAD + head.length()));
            }
        }
        let after = committed + (pad + length) as u64;
        self.producer.stalled.set(false);
        self.producer.committed.set(after);
        self.shared().committed.store(after, Ordering::Release);
        Ok(())
    }

    /// Returns whether the writer has read this thread's events in the overflow.
    #[cold]
    fn has_caught_up(&self) -> bool {
        let has_caught_up = self.overflow.read() >= self.producer.overflowed.get();
        if has_caught_up {
            self.producer.overflowed.set(0);
        }
        has_caught_up
    }

    /// Appends an event to the session's overflow. Only for the owning thread.
    #[cold]
    pub(super) fn push_to_overflow(
        &self,
        kind: Kind,
        head: &[u8],
        items: &[u8],
    ) -> Result<(), Refused> {
        let owner = self.introduction();
        let name = owner.name.iter().position(|byte| *byte == 0).unwrap_or(owner.name.len());
        let frame = Frame {
            kind,
            thread_id: owner.id,
            thread_name: &owner.name[..name],
            event: [head, items],
        };
        self.producer.overflowed.set(self.overflow.append(frame)?);
        Ok(())
    }

    #[inline(always)]
    fn has_room(&self, committed: u64, wanted: usize) -> bool {
        let fits = |released: u64| (committed - released) as usize + wanted <= self.capacity;
        if fits(self.producer.released.get()) {
            return true;
        }
        let released = self.shared().released.load(Ordering::Acquire);
        self.producer.released.set(released);
        fits(released)
    }

    #[inline]
    fn write_head(&self, place: usize, length: usize, kind: Kind, unused: usize) {
        let head = u64::from(length as u32) | (kind as u64) << 32 | (unused as u64) << 40;
        // SAFETY: `place` is a multiple of ALIGN below the capacity, so HEAD bytes follow it, and the caller
        // checked that they are free.
        unsafe { [head].write(self.data().add(place)) };
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the memory is DATA + capacity bytes long.
        unsafe { self.memory.start().add(DATA) }
    }

    /// Reserves room for the END of a task that begins. Only for the owning thread.
    pub(crate) fn reserve(&self) {
        self.producer.reserved.set(self.producer.reserved.get() + 1);
    }

    pub(crate) fn release_reservation(&self) {
        self.producer.reserved.set(self.producer.reserved.get().saturating_sub(1));
    }

    /// Returns the bytes reserved for ENDs, and for the padding that one of them may need.
    pub(crate) fn reserved(&self) -> usize {
        match self.producer.reserved.get() {
            0 => 0,
            open => (open + 1) * END_ROOM,
        }
    }

    pub(crate) fn has_reservations(&self) -> bool {
        self.producer.reserved.get() > 0
    }

    /// For the owning thread: returns its next ring.
    pub(crate) fn next_own(&self) -> Option<&'static Self> {
        self.producer.next_own.get()
    }

    pub(crate) fn set_next_own(&self, next: Option<&'static Self>) {
        self.producer.next_own.set(next);
    }

    /// Marks the session as gone: the owning thread returns the ring, and no thread claims it
    /// again.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Sets whether the owning thread waits for room.
    pub(crate) fn want_room(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn stalled(&self) -> &Cell<bool> {
        &self.producer.stalled
    }

    /// Returns whether more than half of the ring waits for the consumer. Only for the owning
    /// thread.
    #[inline]
    pub(crate) fn is_past_half(&self) -> bool {
        let half = self.capacity as u64 / 2;
        let committed = self.producer.committed.get();
        if committed - self.producer.released.get() <= half {
            return false;
        }
        let released = self.shared().released.load(Ordering::Acquire);
        self.producer.released.set(released);
        committed - released > half
    }

    /// For the consumer: passes the events between `read` and `until` (a position returned by
    /// `committed`) to `each`, with their positions. Stops soon after `some` bytes. Returns the
    /// position after the last event.
    pub(crate) fn read(
        &self,
        read: u64,
        until: u64,
        some: u64,
        each: impl FnMut(u64, Kind, &[u8]),
    ) -> u64 {
        // SAFETY: the producer committed the bytes up to `committed` and does not touch them until
        // they are released.
        let bytes =
            |place, length| unsafe { std::slice::from_raw_parts(self.data().add(place), length) };
        walk(bytes, self.capacity, read, until, some, each, |_| ())
    }

    /// For the consumer: returns how many bytes are in use.
    pub(crate) fn waiting(&self) -> u64 {
        self.committed() - self.shared().released.load(Ordering::Relaxed)
    }

    /// For the consumer: frees the room of the events before `read`.
    pub(crate) fn release(&self, read: u64) {
        self.shared().released.store(read, Ordering::Release);
    }
}

/// Iterates over the events from `read` to `until`, or past `some` bytes. `bytes` returns a part of
/// the data. `damaged` is called with the number of bytes that cannot be parsed.
fn walk<'a>(
    bytes: impl Fn(usize, usize) -> &'a [u8],
    capacity: usize,
    mut read: u64,
    until: u64,
    some: u64,
    mut each: impl FnMut(u64, Kind, &[u8]),
    damaged: impl FnOnce(u64),
) -> u64 {
    let enough = read.saturating_add(some).min(until);
    while read < enough {
        let place = read as usize & (capacity - 1);
        let head = bytes(place, HEAD);
        let length = u32_at(head, 0) as usize;
        let unused = usize::from(head[5]);
        let is_event = length >= HEAD + unused
            && length <= capacity - place
            && length as u64 <= until - read
            && length.is_multiple_of(ALIGN);
        if !is_event {
            // Only a damaged ring contains such an event. No event after it can be found.
            damaged(until - read);
            return until;
        }
        match Kind::from_byte(head[4]) {
            Some(Kind::Pad) | None => {}
            Some(kind) => each(read, kind, bytes(place + HEAD, length - unused - HEAD)),
        }
        read += length as u64;
    }
    read
}

/// The ring of a dead process, read from its file. Its content is not trusted.
#[derive(Debug)]
pub(crate) struct DeadRing {
    bytes: Vec<u8>,
}

impl DeadRing {
    /// The maximum size of a ring's file. The settings allow no more.
    pub(crate) const MAX_FILE: u64 = DATA as u64 + (64 << 20);

    /// Wraps the bytes of a file. `None` if they are not a ring.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        let capacity = u64_at(&bytes, std::mem::offset_of!(Shared, capacity)) as usize;
        let is_ring = u64_at(&bytes, std::mem::offset_of!(Shared, magic)) == MAGIC
            && capacity.is_power_of_two()
            && capacity >= HEAD
            && bytes.len().checked_sub(DATA) == Some(capacity);
        is_ring.then_some(Self { bytes })
    }

    pub(crate) fn owner(&self) -> Thread {
        let name = std::mem::offset_of!(Shared, thread_name);
        let id = u64_at(&self.bytes, std::mem::offset_of!(Shared, thread_id));
        Thread::new(id, &self.bytes[name..name + 64])
    }

    /// Passes on the events that the process's own writer had not finished with. Returns the number
    /// of damaged bytes.
    pub(crate) fn read(&self, each: impl FnMut(u64, Kind, &[u8])) -> u64 {
        let data = &self.bytes[DATA..];
        let released = u64_at(&self.bytes, std::mem::offset_of!(Shared, released));
        let committed = u64_at(&self.bytes, std::mem::offset_of!(Shared, committed));
        let is_possible = released <= committed
            && committed - released <= data.len() as u64
            && released.is_multiple_of(ALIGN as u64);
        if !is_possible {
            return data.len() as u64;
        }
        let part = |place: usize, length: usize| &data[place..place + length];
        let mut lost = 0;
        walk(part, data.len(), released, committed, u64::MAX, each, |bytes| lost = bytes);
        lost
    }
}

/// The fixed part of an event.
pub(crate) trait Head: Copy {
    fn length(&self) -> usize;
    /// # Safety
    /// `to` must be valid for writes of `length` bytes, and a multiple of ALIGN.
    unsafe fn write(self, to: *mut u8);
}

impl<const N: usize> Head for [u64; N] {
    #[inline(always)]
    fn length(&self) -> usize {
        size_of::<Self>()
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        for (at, word) in self.into_iter().enumerate() {
            // SAFETY: the caller vouches for `to`, which is aligned for words.
            unsafe { to.cast::<u64>().add(at).write(word.to_le()) };
        }
    }
}

#[cfg(test)]
impl<const N: usize> Head for &[u8; N] {
    fn length(&self) -> usize {
        N
    }

    unsafe fn write(self, to: *mut u8) {
        // SAFETY: the caller vouches for `to`.
        unsafe { copy(self, to) };
    }
}

/// # Safety
/// `to` must be valid for writes of `from.len()` bytes.
#[inline]
unsafe fn copy(from: &[u8], to: *mut u8) {
    // SAFETY: the caller vouches for `to`; the ring's memory never overlaps a live slice.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overflow() -> Arc<Overflow> {
        Arc::new(Overflow::without_folder(0))
    }

    fn ring() -> Ring {
        Ring::new(Memory::new(Ring::memory_for(4096)).unwrap(), 4096, overflow(), 1)
    }

    fn drain(ring: &Ring, read: &mut u64) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        *read =
            ring.read(*read, ring.committed(), u64::MAX, |_, _, bytes| events.push(bytes.to_vec()));
        ring.release(*read);
        events
    }

    #[test]
    fn events_of_any_length_come_out_in_order_across_many_turns() {
        let ring = ring();
        let mut read = 0;
        for turn in 0..5_000_usize {
            let items = vec![turn as u8; turn * 37 % 1000];
            ring.push(Kind::Start, &[1, 2, 3], &items, 0).unwrap();
            let events = drain(&ring, &mut read);
            assert_eq!(events.len(), 1);
            assert_eq!(&events[0][..3], &[1, 2, 3]);
            assert_eq!(&events[0][3..], &items[..]);
        }
    }

    #[test]
    fn a_full_ring_refuses_and_keeps_what_it_has() {
        let ring = ring();
        let mut pushed = 0;
        while ring.push(Kind::Start, &[0; 56], &[7; 100], 0).is_ok() {
            pushed += 1;
        }
        assert!(ring.is_past_half());
        let mut read = 0;
        assert_eq!(drain(&ring, &mut read).len(), pushed);
        assert!(!ring.is_past_half());
        assert!(ring.push(Kind::Start, &[0; 56], &[7; 100], 0).is_ok());
    }

    #[test]
    fn every_start_that_fits_leaves_room_for_its_end() {
        let ring = ring();
        let mut open = 0;
        while ring.push(Kind::Start, &[0; 56], &[], ring.reserved() + 2 * END_ROOM).is_ok() {
            ring.reserve();
            open += 1;
        }
        assert!(open > 10);
        for _ in 0..open {
            assert_eq!(ring.push(Kind::End, &[0; super::super::event::End::BYTES], &[], 0), Ok(()));
            ring.release_reservation();
        }
    }

    #[test]
    fn a_dead_ring_tells_what_was_not_released() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join("ring"))
            .unwrap();
        let ring =
            Ring::new(Memory::of_file(&file, Ring::memory_for(4096)).unwrap(), 4096, overflow(), 1);
        ring.introduce(7, Some("worker"));
        for number in 0..200_u64 {
            ring.push(Kind::Start, &number.to_le_bytes(), &[], 0).unwrap();
            if number < 190 {
                ring.release(ring.committed());
            }
        }
        let dead = DeadRing::new(std::fs::read(folder.path().join("ring")).unwrap()).unwrap();
        assert_eq!((dead.owner().id, dead.owner().name.as_deref()), (7, Some("worker")));
        let mut numbers = Vec::new();
        dead.read(|_, _, bytes| numbers.push(u64_at(bytes, 0)));
        assert_eq!(numbers, (190..200).collect::<Vec<_>>());
        assert!(DeadRing::new(vec![0; 8192]).is_none());
    }

    #[test]
    fn a_thread_returns_to_its_ring_when_its_overflow_is_read() {
        let ring = ring();
        ring.push(Kind::Start, &[1; 8], &[], 0).unwrap();
        ring.push_to_overflow(Kind::End, &[2; 8], &[]).unwrap();
        assert_eq!(
            ring.push(Kind::Start, &[3; 8], &[], 0),
            Err(Full),
            "it would be read too early"
        );
        let until = ring.overflow.written();
        let mut read = Vec::new();
        let each = |_, frame: &Frame<'_>| read.push(frame.event.concat());
        ring.overflow.read_some(0, until, u64::MAX, each).unwrap();
        assert_eq!(read, [vec![2; 8]]);
        assert_eq!(ring.push(Kind::Start, &[3; 8], &[], 0), Ok(()));
    }

    #[test]
    fn two_threads_agree() {
        let ring = ring();
        let total = 50_000_u64;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..total {
                    while ring.push(Kind::Start, &number.to_le_bytes(), &[5; 17], 0).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut read, mut expected) = (0, 0);
            while expected < total {
                read = ring.read(read, ring.committed(), u64::MAX, |_, _, bytes| {
                    assert_eq!(super::super::event::u64_at(bytes, 0), expected);
                    assert_eq!(&bytes[8..], &[5; 17]);
                    expected += 1;
                });
                ring.release(read);
            }
        });
    }
}
