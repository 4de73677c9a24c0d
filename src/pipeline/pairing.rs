//! Pairs events into tasks. A START waits for its END and for the ADDs in between, from any ring.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use super::cursor::Events;
use super::event::{Add, End, Kind, Start, id_at};
use super::push;
use super::recorder::Command;
use super::resources::ProcessUse;
use super::run::{Run, RunEnd};
use super::site::Site;
use super::stats::{self, Totals};
use super::task::Task;
use super::thread::Thread;
use runlore_core::Result;
use runlore_core::contain::contain;
use runlore_core::context::Number;
use runlore_core::notice::notice;
use runlore_core::record::{Id, WorkflowObject};

/// The maximum number of finished tasks whose memory is reused, and the maximum size of each.
const MOST_SPARE: (usize, usize) = (512, 16 << 10);

/// Ids are already random, so no hashing is needed.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, id: u128) {
        self.0 = id as u64;
    }
}

pub(super) type ById<T> = HashMap<Id, T, BuildHasherDefault<IdHasher>>;

pub(super) struct OpenTask {
    pub(super) task: Box<Task>,
    pub(super) shown: bool,
    /// Whether the session file has a copy of its START, so that the ring need not keep it.
    pub(super) kept: bool,
    /// Whether its END was read and is held back.
    pub(super) ending: bool,
}

/// An END that cannot be applied yet. Its START, or an earlier ADD, is in a ring that this pass had
/// already read when the event arrived.
struct EarlyEnd {
    /// The number of the pass that found it.
    look: u64,
    bytes: Vec<u8>,
}

/// ADDs for a task whose START has not been seen. The START is in a ring that this pass had already
/// read when it arrived, or the task has ended.
struct EarlyAdds {
    /// The number of the pass that found the first of them.
    look: u64,
    /// Their sequence numbers and items.
    adds: Vec<(u64, Vec<u8>)>,
}

/// The open tasks, and the runs that they are written to when they end.
pub(super) struct Pairing {
    commands: Receiver<Command>,
    /// Commands to be answered after the next pass over the rings.
    asked: Vec<Command>,
    /// By number. There are only a few.
    pub(super) runs: BTreeMap<Number, Run>,
    pub(super) open: ById<OpenTask>,
    early_ends: Vec<EarlyEnd>,
    early_adds: ById<EarlyAdds>,
    /// The number of ADDs that were read, and a function that returns how many were pushed.
    adds: u64,
    adds_made: fn() -> u64,
    /// The number of passes over the rings.
    looks: u64,
    /// The last site that was looked up. Consecutive tasks are mostly from the same site.
    site: (u32, Option<&'static Site>),
    /// Finished tasks, whose memory is reused.
    #[allow(clippy::vec_box, reason = "they come and go in their boxes")]
    spare: Vec<Box<Task>>,
}

impl Events for Pairing {
    fn take(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        match kind {
            Kind::Start => self.start(bytes, thread),
            Kind::Add => self.add(bytes),
            // An ADD from another thread may not have been read yet.
            Kind::End if self.has_read_all_adds() && self.end(bytes) => None,
            Kind::End => {
                let id = self.await_end(bytes);
                self.hold_back(bytes.to_vec());
                id
            }
            Kind::Pad => None,
        }
    }

    fn take_overflowed(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        if kind == Kind::End {
            self.mark_overflowed(bytes);
        }
        let needed = self.take(kind, bytes, thread);
        if kind == Kind::Start {
            self.mark_overflowed(bytes);
        }
        needed
    }

    fn give_up(&mut self, kind: Kind, bytes: &[u8]) {
        notice("an event could not be understood: its task, or what was added to one, is lost");
        let known = id_at(bytes, 0).filter(|_| kind != Kind::Add);
        let known = known.and_then(|id| self.open.remove(&id)).map(|open| open.task.start.workflow);
        let begun = || Start::from_bytes(bytes).map(|(start, _)| start.workflow);
        match (kind, known) {
            (_, Some(workflow)) => push::count_dropped(workflow),
            (Kind::Start, None) => begun().into_iter().for_each(push::count_dropped),
            _ => {}
        }
    }
}

impl Pairing {
    pub(super) fn new(commands: Receiver<Command>, adds_made: fn() -> u64) -> Self {
        Self {
            commands,
            asked: Vec::new(),
            runs: BTreeMap::new(),
            open: ById::default(),
            early_ends: Vec::new(),
            early_adds: ById::default(),
            adds: 0,
            adds_made,
            looks: 0,
            site: (0, None),
            spare: Vec::new(),
        }
    }

    /// Receives commands. Runs that start are known from here on.
    pub(super) fn receive(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Open(spec) => _ = self.runs.insert(spec.number, Run::new(spec)),
                other => self.asked.push(other),
            }
        }
    }

    /// Returns the commands received so far.
    pub(super) fn take_asked(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.asked)
    }

    /// Called when a pass over all rings begins.
    pub(super) fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// Called when a pass over all rings has ended. It has read everything that was there when the
    /// previous pass ended. Events that are still waiting since then belong to no run, or to a task
    /// that has ended.
    pub(super) fn end_look(&mut self) {
        let look = self.looks;
        for early in self.early_ends.extract_if(.., |early| early.look != look).collect::<Vec<_>>()
        {
            self.try_to_end(&early, |pairing| pairing.end(&early.bytes));
        }
        if self.early_adds.extract_if(|_, early| early.look != look).count() > 0 {
            notice("values were added to a task after it had ended: they are not recorded");
        }
    }

    /// Takes events that found no room in the rings, and retries events that came too early.
    /// Returns whether anything is new.
    pub(super) fn settle(&mut self, overflow: Vec<(Kind, Vec<u8>)>) -> bool {
        let is_new = !overflow.is_empty();
        for (kind, bytes) in overflow {
            if kind == Kind::Add {
                self.add(&bytes);
            } else {
                self.hold_back(bytes);
            }
        }
        for early in std::mem::take(&mut self.early_ends) {
            let ended = self.try_to_end(&early, |pairing| {
                pairing.has_read_all_adds() && pairing.end(&early.bytes)
            });
            if !ended {
                self.early_ends.push(early);
            }
        }
        self.count_dropped();
        is_new
    }

    /// Adds the tasks that callers could not push into their rings to the counts of their runs.
    fn count_dropped(&mut self) {
        let dropped = push::take_dropped();
        if !dropped.is_empty() {
            // The run may have been opened since this pass began.
            self.receive();
        }
        for (number, count) in dropped {
            if let Some(run) = self.runs.get_mut(&number) {
                run.count_dropped(count);
            }
        }
    }

    /// Returns whether all ADDs that were pushed have been read.
    fn has_read_all_adds(&self) -> bool {
        self.adds == (self.adds_made)()
    }

    /// Returns whether an event waits for another one that may arrive at any moment.
    pub(super) fn holds_any(&self) -> bool {
        !self.early_ends.is_empty() || !self.early_adds.is_empty()
    }

    /// Returns whether an END of an unknown task is held back. No ring keeps such an END.
    pub(super) fn holds_strangers(&self) -> bool {
        self.early_ends.iter().any(|early| {
            id_at(&early.bytes, 0)
                .is_none_or(|id| !self.open.get(&id).is_some_and(|open| open.ending))
        })
    }

    /// Returns whether the events of a task must stay in their rings, because there is no complete
    /// copy.
    pub(super) fn needs_events_of(&self, id: Id) -> bool {
        match self.open.get(&id) {
            Some(open) => !open.kept || open.ending,
            None => self.early_adds.contains_key(&id),
        }
    }

    /// Writes the batches that are due, or all of them if `due` is `None`.
    pub(super) fn write(&mut self, due: Option<Instant>) {
        for run in self.runs.values_mut() {
            match due {
                Some(now) => run.tick(now),
                None => run.write_batch(),
            }
        }
    }

    /// Stores an additional record of a run, such as that of a model.
    pub(super) fn note(&mut self, number: Number, record: &WorkflowObject) {
        if let Some(run) = self.runs.get_mut(&number) {
            run.note(record);
        }
    }

    /// Ends a run, together with its open tasks. If the run has already ended, the answer channel
    /// is dropped.
    pub(super) fn end_run(
        &mut self,
        number: Number,
        end: RunEnd,
        answer: Option<SyncSender<Result<Totals>>>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let open = self.open.values().map(|open| &*open.task);
        let open: Vec<&Task> = open.filter(|task| task.start.workflow == number).collect();
        run.end(&open, end, answer);
    }

    fn hold_back(&mut self, bytes: Vec<u8>) {
        self.early_ends.push(EarlyEnd { look: self.looks, bytes });
    }

    /// Retries an END that was held back. If that panics, the END is given up.
    fn try_to_end(&mut self, early: &EarlyEnd, work: impl FnOnce(&mut Self) -> bool) -> bool {
        contain(|| work(self)).unwrap_or_else(|| {
            self.give_up(Kind::End, &early.bytes);
            true
        })
    }

    fn start(&mut self, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        let (start, items) = Start::from_bytes(bytes)?;
        if !self.runs.contains_key(&start.workflow) {
            // The run may have been opened since this pass began.
            self.receive();
        }
        if !self.runs.contains_key(&start.workflow) {
            stats::add(&stats::DROPPED, 1);
            return None;
        }
        if self.site.0 != start.site {
            self.site = (start.site, Site::of(start.site));
        }
        let site = self.site.1;
        let mut task = match self.spare.pop() {
            Some(mut task) => {
                task.begin_again(start, items, thread, site);
                task
            }
            None => Box::new(Task::begun(start, items.to_vec(), Rc::clone(thread), site)),
        };
        task.by_children = Some(ProcessUse::default());
        for (sequence, items) in
            self.early_adds.remove(&start.id).into_iter().flat_map(|early| early.adds)
        {
            task.add(sequence, &items);
        }
        self.open.insert(start.id, OpenTask { task, shown: false, kept: false, ending: false });
        Some(start.id)
    }

    /// Adds to an open task, or holds the ADD back until the task's START arrives. The ADD stays in
    /// its ring while the task needs it.
    fn add(&mut self, bytes: &[u8]) -> Option<Id> {
        self.adds += 1;
        let (Add { id, sequence }, items) = Add::from_bytes(bytes)?;
        match self.open.get_mut(&id) {
            Some(open) => {
                open.task.add(sequence, items);
                // The copies that were shown or kept are no longer complete.
                open.shown = false;
                open.kept = false;
            }
            None => {
                let early = EarlyAdds { look: self.looks, adds: Vec::new() };
                let early = self.early_adds.entry(id).or_insert(early);
                early.adds.push((sequence, items.to_vec()));
            }
        }
        Some(id)
    }

    /// Marks the task of a START or END as having gone through the overflow.
    fn mark_overflowed(&mut self, bytes: &[u8]) {
        if let Some(open) = id_at(bytes, 0).and_then(|id| self.open.get_mut(&id)) {
            open.task.overflowed = true;
        }
    }

    /// Marks a task whose END is held back. As long as the task is known, the END's ring keeps it.
    fn await_end(&mut self, bytes: &[u8]) -> Option<Id> {
        let id = id_at(bytes, 0)?;
        self.open.get_mut(&id)?.ending = true;
        Some(id)
    }

    /// Ends a task. Returns `false` if its START has not been seen.
    fn end(&mut self, bytes: &[u8]) -> bool {
        let Some((end, items)) = End::from_bytes(bytes) else { return true };
        let Some(OpenTask { mut task, .. }) = self.open.remove(&end.id) else { return false };
        task.end(end, items);
        self.tell_parent(&task);
        if let Some(run) = self.runs.get_mut(&task.start.workflow) {
            run.add(&task);
            if run.ended {
                run.write_batch();
            }
        }
        if self.spare.len() < MOST_SPARE.0 && task.held() <= MOST_SPARE.1 {
            self.spare.push(task);
        }
        true
    }

    /// Adds a task's process-wide usage to its parent's `by_children`, so that it is excluded from
    /// the parent's own usage.
    fn tell_parent(&mut self, task: &Task) {
        let Some(parent) = task.start.parent.and_then(|parent| self.open.get_mut(&parent)) else {
            return;
        };
        let used = match task.measured() {
            Some(measured) if measured.shared_age_ns.is_none() => task.process_use(),
            // The usage of a task without own captures counts as its parent's own, except for
            // measured tasks inside it.
            _ => task.by_children,
        };
        match (&mut parent.task.by_children, used) {
            (Some(sum), Some(used)) => sum.add(used),
            // The task's usage cannot be separated from its parent's.
            (by_children, None) => *by_children = None,
            (None, Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::cursor::Cursor;
    use crate::pipeline::event::{Ending, ItemKind, Key, bytes_of, push_item};
    use crate::pipeline::memory::Memory;
    use crate::pipeline::overflow::Overflow;
    use crate::pipeline::overhead::Reading;
    use crate::pipeline::ring::Ring;
    use crate::pipeline::run::RunSpec;
    use runlore_core::record::{Encoder, Limits, Secrecy};
    use runlore_core::store::MemoryStore;

    const WORKFLOW: Number = 1 << 30;
    const SIZE: usize = 1 << 16;

    thread_local! {
        /// The number of ADDs that the test has pushed.
        static ADDS: Cell<u64> = const { Cell::new(0) };
    }

    /// A writer's pairing with rings that the test fills.
    struct Bench {
        pairing: Pairing,
        cursors: Vec<Cursor>,
        store: MemoryStore,
    }

    impl Bench {
        fn new(rings: usize) -> Self {
            ADDS.set(0);
            let store = MemoryStore::new();
            let mut pairing = Pairing::new(channel().1, || ADDS.get());
            let spec = RunSpec {
                number: WORKFLOW,
                stores: vec![Box::new(store.clone())],
                name: "test".to_owned(),
                workflow_id: "workflow".to_owned(),
                campaign_id: "campaign".to_owned(),
                hostname: "host".to_owned(),
                workflow: None,
                known_later: None,
                cost_before: Reading::now(),
                monotonic_ns: 0,
                wall_ns: 0,
            };
            pairing.runs.insert(WORKFLOW, Run::new(spec));
            let ring = |number: usize| {
                let memory = Memory::new(Ring::memory_for(SIZE)).unwrap();
                let ring = Ring::new(
                    memory,
                    SIZE,
                    Arc::new(Overflow::without_folder(0)),
                    number as u64 + 1,
                );
                Cursor::new(Box::leak(Box::new(ring)))
            };
            Self { pairing, cursors: (0..rings).map(ring).collect(), store }
        }

        /// Reads the current content of these rings, in this order, as one pass of the writer.
        fn look(&mut self, rings: &[usize]) {
            for ring in rings {
                self.cursors[*ring].look();
            }
            self.pairing.begin_look();
            for ring in rings {
                while self.cursors[*ring].read_some(&mut self.pairing) {}
            }
            self.pairing.settle(Vec::new());
            self.pairing.end_look();
        }

        fn push(&self, ring: usize, kind: Kind, bytes: &[u8]) {
            let (head, items) = bytes.split_first_chunk::<8>().unwrap();
            self.cursors[ring].ring.push(kind, head, items, 0).unwrap();
        }

        fn start(&self, ring: usize, id: Id) {
            let start = Start {
                id,
                parent: None,
                site: 0,
                workflow: WORKFLOW,
                monotonic_ns: 1,
                wall_ns: 1,
                lost_items: false,
                is_brief: false,
            };
            self.push(ring, Kind::Start, &bytes_of(&start.to_words()));
        }

        fn add(&self, ring: usize, id: Id, sequence: u64, value: u64) {
            let mut bytes = bytes_of(&Add { id, sequence }.to_words());
            push_item(&mut bytes, ItemKind::Generated, Key::Name("x"), |items| {
                Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).serialize(&value);
                Default::default()
            });
            ADDS.set(ADDS.get() + 1);
            self.push(ring, Kind::Add, &bytes);
        }

        fn end(&self, ring: usize, id: Id) {
            let end = End { id, monotonic_ns: 2, ending: Ending::Finished, lost_items: false };
            self.push(ring, Kind::End, &bytes_of(&end.to_words()));
        }

        /// Returns the output of the only task.
        fn given(&mut self) -> Option<u64> {
            self.pairing.write(None);
            let tasks = self.store.tasks();
            assert_eq!(tasks.len(), 1, "{tasks:?}");
            tasks[0].generated.as_ref()?.get("x")?.as_u64()
        }
    }

    #[test]
    fn an_addition_from_a_ring_that_is_read_first_is_not_lost() {
        let mut bench = Bench::new(2);
        let id = Id::new();
        bench.start(1, id);
        bench.add(0, id, 1, 7);
        bench.end(1, id);
        bench.look(&[0, 1]);
        bench.look(&[0, 1]);
        assert_eq!(bench.given(), Some(7));
    }

    #[test]
    fn an_addition_that_is_held_back_stays_in_its_ring() {
        let mut bench = Bench::new(2);
        let id = Id::new();
        bench.add(0, id, 1, 7);
        bench.look(&[0]);
        assert_eq!(bench.cursors[0].beginnings.len(), 1);
        assert!(bench.pairing.needs_events_of(id));
        bench.start(1, id);
        bench.look(&[0, 1]);
        assert!(bench.pairing.needs_events_of(id));
        bench.end(1, id);
        bench.look(&[0, 1]);
        bench.look(&[0, 1]);
        assert!(!bench.pairing.needs_events_of(id));
        assert_eq!(bench.given(), Some(7));
    }

    #[test]
    fn an_addition_after_the_end_changes_nothing() {
        let mut bench = Bench::new(2);
        let id = Id::new();
        bench.start(0, id);
        bench.end(0, id);
        bench.look(&[0, 1]);
        bench.look(&[0, 1]);
        bench.add(1, id, 1, 7);
        bench.look(&[0, 1]);
        bench.look(&[0, 1]);
        assert!(!bench.pairing.needs_events_of(id) && !bench.pairing.holds_any());
        assert_eq!(bench.given(), None);
    }

    proptest! {
        /// In whatever order three rings are read, the last value wins.
        #[test]
        fn the_latest_addition_wins_in_every_order_of_rings(
            order in Just(vec![0_usize, 1, 2]).prop_shuffle(),
            starts in 0_usize..3,
            ends in 0_usize..3,
            adders in proptest::collection::vec(0_usize..3, 1..6),
            looks in proptest::collection::vec(any::<bool>(), 8),
        ) {
            let mut bench = Bench::new(3);
            let mut looks = looks.into_iter();
            let id = Id::new();
            let mut look = |bench: &mut Bench| {
                if looks.next() == Some(true) {
                    bench.look(&order);
                }
            };
            bench.start(starts, id);
            look(&mut bench);
            for (at, ring) in adders.iter().enumerate() {
                bench.add(*ring, id, at as u64 + 1, at as u64);
                look(&mut bench);
            }
            bench.end(ends, id);
            bench.look(&order);
            bench.look(&order);
            prop_assert_eq!(bench.given(), Some(adders.len() as u64 - 1));
        }
    }
}
