//! Events become tasks: a START waits for its END, and what was added to it in between, from whichever ring that comes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use super::cursor::Events;
use super::event::{End, Kind, Start, id_at};
use super::notice::notice;
use super::push;
use super::recorder::Command;
use super::resources::ProcessUse;
use super::run::{Run, RunEnd};
use super::site::Site;
use super::stats::{self, Totals};
use super::task::Task;
use super::thread::Thread;
use crate::Result;
use crate::context::Number;
use crate::record::{Id, WorkflowObject};

/// How many tasks that are done with are kept for their room, and how much of it each has at most.
const MOST_SPARE: (usize, usize) = (512, 16 << 10);

/// Ids are random already.
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
    /// Whether the session keeps its beginning, so that its ring need not.
    pub(super) kept: bool,
    /// Whether its END was read and is held back.
    pub(super) ending: bool,
}

/// An END or ADD whose START has not been seen: it lies in a ring that was read before this event came. Or what was added to a task that has
/// ended.
struct Early {
    /// The number of the look that found it.
    look: u64,
    kind: Kind,
    bytes: Vec<u8>,
}

/// The tasks that are open, and the runs that they go to when they end.
pub(super) struct Pairing {
    commands: Receiver<Command>,
    /// Commands that are answered after the next look at the rings.
    asked: Vec<Command>,
    /// By number. They are few.
    pub(super) runs: BTreeMap<Number, Run>,
    pub(super) open: ById<OpenTask>,
    early: Vec<Early>,
    /// How many times something was added to a task, as far as it was read.
    adds: u64,
    /// How many looks at the rings there were.
    looks: u64,
    /// The site that was asked for last: most tasks come in rows of the same.
    site: (u32, Option<&'static Site>),
    /// Tasks that are done with, whose room is used again.
    #[allow(clippy::vec_box, reason = "they come and go in their boxes")]
    spare: Vec<Box<Task>>,
}

impl Events for Pairing {
    fn take(&mut self, kind: Kind, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        match kind {
            Kind::Start => self.start(bytes, thread),
            Kind::Add => {
                self.adds += 1;
                if self.add(bytes) {
                    return id_at(bytes, 0);
                }
                self.hold_back(kind, bytes.to_vec());
                None
            }
            // What another thread added to it may not have been read yet.
            Kind::End if self.adds == push::adds() && self.end(bytes) => None,
            Kind::End => {
                let id = self.await_end(bytes);
                self.hold_back(kind, bytes.to_vec());
                id
            }
            Kind::Pad => None,
        }
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
    pub(super) fn new(commands: Receiver<Command>) -> Self {
        Self {
            commands,
            asked: Vec::new(),
            runs: BTreeMap::new(),
            open: ById::default(),
            early: Vec::new(),
            adds: 0,
            looks: 0,
            site: (0, None),
            spare: Vec::new(),
        }
    }

    /// Takes commands in; runs that start are known from here on.
    pub(super) fn receive(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Open(spec) => _ = self.runs.insert(spec.number, Run::new(spec)),
                other => self.asked.push(other),
            }
        }
    }

    /// The commands that came so far.
    pub(super) fn take_asked(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.asked)
    }

    /// A look at all rings begins.
    pub(super) fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// A look at all rings has ended: it has read all that was there when the last one ended. What it did not find belongs
    /// to no run, or to a task that has ended.
    pub(super) fn end_look(&mut self) {
        let look = self.looks;
        for early in self.early.extract_if(.., |early| early.look != look).collect::<Vec<_>>() {
            self.contained(&early, |pairing| match early.kind {
                Kind::Add => pairing.add(&early.bytes),
                _ => pairing.end(&early.bytes),
            });
        }
    }

    /// Takes what found no room in the rings, and tries again what came too early; whether anything is new.
    pub(super) fn settle(&mut self, overflow: Vec<(Kind, Vec<u8>)>) -> bool {
        let is_new = !overflow.is_empty();
        for (kind, bytes) in overflow {
            self.adds += u64::from(kind == Kind::Add);
            self.hold_back(kind, bytes);
        }
        // What was added to a task before its end.
        let mut early = std::mem::take(&mut self.early);
        early.sort_by_key(|early| early.kind != Kind::Add);
        for early in early {
            let found = self.contained(&early, |pairing| match early.kind {
                Kind::Add => pairing.add(&early.bytes),
                _ => pairing.adds == push::adds() && pairing.end(&early.bytes),
            });
            if !found {
                self.early.push(early);
            }
        }
        self.count_dropped();
        is_new
    }

    /// Lets the runs know of tasks that callers could not get into their rings.
    fn count_dropped(&mut self) {
        let dropped = push::take_dropped();
        if !dropped.is_empty() {
            // Their run may have been opened since this look began.
            self.receive();
        }
        for (number, count) in dropped {
            if let Some(run) = self.runs.get_mut(&number) {
                run.count_dropped(count);
            }
        }
    }

    /// Whether an event waits for another that may come any moment.
    pub(super) fn holds_any(&self) -> bool {
        !self.early.is_empty()
    }

    /// Whether an END that is held back is in nobody's hands but ours: its task is not known.
    pub(super) fn holds_strangers(&self) -> bool {
        // Something may be added to a task that has ended, again and again: that must not keep the rings from being released.
        self.early.iter().filter(|early| early.kind == Kind::End).any(|early| {
            id_at(&early.bytes, 0)
                .is_none_or(|id| !self.open.get(&id).is_some_and(|open| open.ending))
        })
    }

    /// Writes the batches that are due, or all that there are.
    pub(super) fn write(&mut self, due: Option<Instant>) {
        for run in self.runs.values_mut() {
            match due {
                Some(now) => run.tick(now),
                None => run.write_batch(),
            }
        }
    }

    /// Stores a record that belongs to a run, such as that of a model.
    pub(super) fn note(&mut self, number: Number, record: &WorkflowObject) {
        if let Some(run) = self.runs.get_mut(&number) {
            run.note(record);
        }
    }

    /// Ends a run with what is open in it. One that is gone has ended before, and dropping the answer says so.
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

    fn hold_back(&mut self, kind: Kind, bytes: Vec<u8>) {
        self.early.push(Early { look: self.looks, kind, bytes });
    }

    /// Does something with an event that was held back; one that panics is done with.
    fn contained(&mut self, early: &Early, work: impl FnOnce(&mut Self) -> bool) -> bool {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            self.give_up(early.kind, &early.bytes);
            true
        })
    }

    fn start(&mut self, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        let (start, items) = Start::from_bytes(bytes)?;
        if !self.runs.contains_key(&start.workflow) {
            // Its run may have been opened since this look began.
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
        self.open.insert(start.id, OpenTask { task, shown: false, kept: false, ending: false });
        Some(start.id)
    }

    /// Adds to a task that is open; `false` when it is not, or not yet.
    fn add(&mut self, bytes: &[u8]) -> bool {
        let Some(id) = id_at(bytes, 0) else { return true };
        let Some(open) = self.open.get_mut(&id) else { return false };
        open.task.add(&bytes[16..]);
        // What was shown or kept of it is not all any more.
        open.shown = false;
        open.kept = false;
        true
    }

    /// An END is held back. While its task is known, the END's ring keeps it.
    fn await_end(&mut self, bytes: &[u8]) -> Option<Id> {
        let id = id_at(bytes, 0)?;
        self.open.get_mut(&id)?.ending = true;
        Some(id)
    }

    /// Ends a task; `false` when its START has not been seen.
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

    /// What a task changed in the process is no part of what its parent did itself.
    fn tell_parent(&mut self, task: &Task) {
        let Some(parent) = task.start.parent.and_then(|parent| self.open.get_mut(&parent)) else {
            return;
        };
        let used = match task.measured() {
            Some(_) => task.process_use(),
            // What a task does that is not measured is its parent's own, but for what was measured inside it.
            None => task.by_children,
        };
        match (&mut parent.task.by_children, used) {
            (Some(sum), Some(used)) => sum.add(used),
            // What it did cannot be told from what its parent did.
            (by_children, None) => *by_children = None,
            (None, Some(_)) => {}
        }
    }
}
