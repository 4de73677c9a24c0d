//! The writer's position in one ring.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::event::Kind;
use super::overflow::Overflow;
use super::ring::Ring;
use super::thread::Thread;
use runlore_core::contain::contain;
use runlore_core::notice::notice;
use runlore_core::record::Id;

/// The number of bytes to read from a ring at a time.
const PART: u64 = 32 << 10;

/// Above this size, an overflow keeps the disk busy for tasks that may be open for hours.
const LARGE_OVERFLOW: u64 = 16 << 20;

/// The consumer of a ring's events.
pub(super) trait Events {
    /// Takes an event. Returns the task for whose sake the event must stay in its ring, if any.
    fn take(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id>;

    /// Takes an event that was in the overflow file.
    fn take_overflowed(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id>;

    /// Called with an event that was not taken because `take` panicked.
    fn give_up(&mut self, kind: Kind, bytes: &[u8]);
}

/// The writer's position in a ring, and the ring's current thread.
pub(super) struct Cursor {
    pub(super) ring: &'static Ring,
    pub(super) read: u64,
    /// Where this pass over the ring ends.
    until: u64,
    /// The ring's pages are prepared for writing up to here.
    ready: u64,
    thread: Rc<Thread>,
    owners: u32,
    /// The positions of STARTs and ADDs of tasks that may still be open. These events must stay in
    /// the ring until they are kept elsewhere.
    pub(super) beginnings: VecDeque<(u64, Id)>,
}

impl Cursor {
    pub(super) fn new(ring: &'static Ring) -> Self {
        Self {
            ring,
            read: 0,
            until: 0,
            ready: 0,
            thread: Rc::default(),
            owners: 0,
            beginnings: VecDeque::new(),
        }
    }

    /// Returns whether the ring is so full that room must be made. The threshold is not lower,
    /// because larger batches are cheaper for a store.
    pub(super) fn is_filling(&self) -> bool {
        self.ring.is_wanted() || self.ring.waiting() > self.ring.capacity() as u64 / 2
    }

    /// Begins a pass over the current content. Returns how full the ring is, as a fraction.
    pub(super) fn look(&mut self) -> f64 {
        self.until = self.ring.committed();
        self.prepare();
        (self.until - self.read) as f64 / self.ring.capacity() as f64
    }

    /// Prepares pages ahead of the thread that writes to the ring: twice as much as it wrote since
    /// the last pass, until it has wrapped around once.
    fn prepare(&mut self) {
        let capacity = self.ring.capacity() as u64;
        let ahead = (2 * (self.until - self.read)).min(capacity / 4);
        let wanted = self.until.saturating_add(ahead).min(capacity);
        if wanted > self.ready {
            self.ring.prepare(self.ready as usize..wanted as usize);
            self.ready = wanted;
        }
    }

    /// Passes a part of this pass's events on. Returns whether there were any. A panic over one
    /// event never loses the events after it.
    pub(super) fn read_some(&mut self, events: &mut impl Events) -> bool {
        if self.owners != self.ring.owners() {
            self.owners = self.ring.owners();
            self.thread = Rc::new(self.ring.owner());
        }
        let Self { ring, until, thread, beginnings, .. } = self;
        let before = self.read;
        let enough = before.saturating_add(PART).min(*until);
        while self.read < enough {
            let mut last = self.read;
            let reading = || {
                ring.read(self.read, *until, enough - self.read, |at, kind, bytes| {
                    last = at;
                    beginnings.extend(events.take(kind, bytes, thread).map(|id| (at, id)));
                })
            };
            self.read = match contain(reading) {
                Some(read) => read,
                None => ring.read(last, *until, 1, |_, kind, bytes| events.give_up(kind, bytes)),
            };
        }
        self.read != before
    }
}

/// The writer's position in an overflow file.
pub(super) struct OverflowCursor {
    pub(super) overflow: Arc<Overflow>,
    pub(super) read: u64,
    /// Where this pass over it ends.
    until: u64,
    /// The thread of the last event. Consecutive events are mostly from the same thread.
    thread: Rc<Thread>,
    /// As in [`Cursor`].
    pub(super) beginnings: VecDeque<(u64, Id)>,
}

impl OverflowCursor {
    pub(super) fn new(overflow: Arc<Overflow>) -> Self {
        let read = overflow.read();
        Self { overflow, read, until: read, thread: Rc::default(), beginnings: VecDeque::new() }
    }

    /// Returns whether the STARTs of open tasks should be kept elsewhere, so that disk space can be
    /// freed.
    pub(super) fn is_filling(&self) -> bool {
        self.overflow.waiting() > LARGE_OVERFLOW
    }

    /// Begins a pass over the current content. Call this before the pass over the rings: events
    /// that a thread pushed into its ring before it overflowed are then part of the same pass, and
    /// are read first.
    pub(super) fn look(&mut self) {
        self.until = self.overflow.written();
    }

    /// Passes a part of this pass's events on. Returns whether there were any.
    pub(super) fn read_some(&mut self, events: &mut impl Events) -> bool {
        if self.read >= self.until {
            return false;
        }
        let Self { overflow, thread, beginnings, .. } = self;
        let read = overflow.read_some(self.read, self.until, PART, |at, frame| {
            if thread.id != frame.thread_id {
                *thread = Rc::new(Thread::new(frame.thread_id, frame.thread_name));
            }
            let [event, _] = frame.event;
            match contain(|| events.take_overflowed(frame.kind, event, thread)) {
                Some(needed) => beginnings.extend(needed.map(|id| (at, id))),
                None => events.give_up(frame.kind, event),
            }
        });
        self.read = read.unwrap_or_else(|error| {
            notice(&format!(
                "the overflow of the queues cannot be read: {error}; its tasks are lost"
            ));
            overflow.skip_to(self.until);
            self.until
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::memory::Memory;

    /// Panics on every third event and takes the others.
    #[derive(Default)]
    struct Clumsy {
        taken: Vec<u8>,
        given_up: Vec<u8>,
    }

    impl Events for Clumsy {
        fn take(&mut self, _: Kind, bytes: &[u8], _: &Rc<Thread>) -> Option<Id> {
            assert!(!bytes[0].is_multiple_of(3), "every third");
            self.taken.push(bytes[0]);
            None
        }

        fn take_overflowed(&mut self, kind: Kind, bytes: &[u8], of: &Rc<Thread>) -> Option<Id> {
            self.take(kind, bytes, of)
        }

        fn give_up(&mut self, _: Kind, bytes: &[u8]) {
            self.given_up.push(bytes[0]);
        }
    }

    #[test]
    fn a_panic_costs_one_event_and_never_the_ring() {
        let memory = Memory::new(Ring::memory_for(4096)).unwrap();
        let ring =
            Box::leak(Box::new(Ring::new(memory, 4096, Arc::new(Overflow::without_folder(0)), 1)));
        let mut cursor = Cursor::new(ring);
        let mut events = Clumsy::default();
        for number in 0..9_u8 {
            ring.push(Kind::End, &[number], &[], 0).unwrap();
        }
        cursor.look();
        assert!(cursor.read_some(&mut events));
        assert_eq!(events.taken, [1, 2, 4, 5, 7, 8]);
        assert_eq!(events.given_up, [0, 3, 6]);
        assert_eq!(cursor.read, ring.committed());
        assert!(!cursor.read_some(&mut events));
    }
}
