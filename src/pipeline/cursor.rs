//! How far the writer has come in one ring.

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

/// Bytes of a ring that are read in one go.
const PART: u64 = 32 << 10;

/// From so many bytes on an overflow keeps the disk busy for tasks that may be open for hours.
const LARGE_OVERFLOW: u64 = 16 << 20;

/// Where a ring's events go.
pub(super) trait Events {
    /// Takes an event; the task that the event must stay in its ring for, if any.
    fn take(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id>;

    /// Takes an event that went through the overflow.
    fn take_overflowed(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id>;

    /// Hears of an event that could not be taken: doing so panicked.
    fn give_up(&mut self, kind: Kind, bytes: &[u8]);
}

/// How far the writer has read a ring, and whose it is.
pub(super) struct Cursor {
    pub(super) ring: &'static Ring,
    pub(super) read: u64,
    /// Where this look at the ring ends.
    until: u64,
    /// Up to here the ring was made ready to be written to.
    ready: u64,
    thread: Rc<Thread>,
    owners: u32,
    /// Where tasks began, or were added to, that may still be open: their events must stay until another place has
    /// them.
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

    /// Whether so much of the ring is taken that room must be made. Not much earlier: what is written at once costs a store less.
    pub(super) fn is_filling(&self) -> bool {
        self.ring.is_wanted() || self.ring.waiting() > self.ring.capacity() as u64 / 2
    }

    /// Begins a look at what is there now; what part of the ring that is.
    pub(super) fn look(&mut self) -> f64 {
        self.until = self.ring.committed();
        self.prepare();
        (self.until - self.read) as f64 / self.ring.capacity() as f64
    }

    /// Keeps ahead of the thread that writes to the ring, by twice as much as came since the last look, until it has been round it once.
    fn prepare(&mut self) {
        let capacity = self.ring.capacity() as u64;
        let ahead = (2 * (self.until - self.read)).min(capacity / 4);
        let wanted = self.until.saturating_add(ahead).min(capacity);
        if wanted > self.ready {
            self.ring.prepare(self.ready as usize..wanted as usize);
            self.ready = wanted;
        }
    }

    /// Hands out a part of what this look is at; whether there was anything. What comes of an event is that event's own
    /// affair: a panic never costs those after it.
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

/// How far the writer has read an overflow.
pub(super) struct OverflowCursor {
    pub(super) overflow: Arc<Overflow>,
    pub(super) read: u64,
    /// Where this look at it ends.
    until: u64,
    /// The thread of the last event: most come in rows of the same.
    thread: Rc<Thread>,
    /// As those of a [`Cursor`].
    pub(super) beginnings: VecDeque<(u64, Id)>,
}

impl OverflowCursor {
    pub(super) fn new(overflow: Arc<Overflow>) -> Self {
        let read = overflow.read();
        Self { overflow, read, until: read, thread: Rc::default(), beginnings: VecDeque::new() }
    }

    /// Whether the beginnings of open tasks should be kept elsewhere, so that its space can be given back.
    pub(super) fn is_filling(&self) -> bool {
        self.overflow.waiting() > LARGE_OVERFLOW
    }

    /// Begins a look at what is there now. Before the look at the rings: what a thread pushed into its ring before it
    /// overflowed is then part of the same look, and is read first.
    pub(super) fn look(&mut self) {
        self.until = self.overflow.written();
    }

    /// Hands out a part of what this look is at; whether there was anything.
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

    /// Takes all but every third event.
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
