//! A task as the writer has it: a START, perhaps what was added to it, perhaps an END.

use std::cell::OnceCell;
use std::io::Read;
use std::rc::Rc;

use super::event::{End, Ending, Item, ItemKind, Items, Measured, Start, bytes_of, u64_at};
use super::resources::ProcessUse;
use super::shed;
use super::site::Site;
use super::thread::Thread;
use runlore_core::record::Status;
use runlore_telemetry::{Energy, EnergyUsed, Snapshot};

/// Bytes that a task may hold while it is open. When it has more, the oldest of what it gave goes.
const MOST_ITEMS: usize = 256 << 10;

/// A task, open while `end` is missing.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) start: Start,
    pub(super) end: Option<End>,
    /// The items of START, of what was added, and of END, one after the other.
    items: Vec<u8>,
    /// Where in `items` each ADD begins, by its sequence number in ascending order.
    added: Vec<(u64, usize)>,
    /// Of which kinds they are: a task has few, and is asked for all.
    kinds: Kinds,
    pub(super) thread: Rc<Thread>,
    /// None for a task without the macro.
    pub(super) site: Option<&'static Site>,
    /// Whether its ring had no room for its START or END.
    pub(super) overflowed: bool,
    /// What changed in the process while it ran, once that was asked for.
    process: OnceCell<Option<ProcessUse>>,
    /// What its children changed in the process; none where not all of them are known.
    pub(super) by_children: Option<ProcessUse>,
}

impl Task {
    /// A task that has begun with these items, and of whose children nothing is known.
    pub(super) fn begun(
        start: Start,
        items: Vec<u8>,
        thread: Rc<Thread>,
        site: Option<&'static Site>,
    ) -> Self {
        Self {
            start,
            end: None,
            kinds: Kinds::of(&items),
            items,
            added: Vec::new(),
            thread,
            site,
            overflowed: false,
            process: OnceCell::new(),
            by_children: None,
        }
    }

    /// Inserts the items of an ADD before those of later ADDs: of two values under one name the last one counts. An ADD
    /// that the task has already changes nothing. Where the task then holds too much, its oldest values go.
    pub(super) fn add(&mut self, sequence: u64, items: &[u8]) {
        let at = self.added.partition_point(|(other, _)| *other < sequence);
        let offset = match self.added.get(at) {
            Some((other, _)) if *other == sequence => return,
            Some((_, offset)) => *offset,
            None => self.items.len(),
        };
        self.items.splice(offset..offset, items.iter().copied());
        self.added[at..].iter_mut().for_each(|(_, later)| *later += items.len());
        self.added.insert(at, (sequence, offset));
        self.kinds.add(Kinds::of(items));
        if self.items.len() > MOST_ITEMS {
            shed::forget_old(&mut self.items, MOST_ITEMS / 2);
            self.kinds = Kinds::of(&self.items);
            // Where each of them lies now is not known, only that all are there: an earlier one goes before them.
            let last = self.added.last().map(|(sequence, _)| (*sequence, 0));
            self.added = last.into_iter().collect();
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, end: End, items: &[u8]) {
        self.end = Some(end);
        self.items.extend_from_slice(items);
        self.kinds.add(Kinds::of(items));
    }

    /// How many bytes of room its items have.
    pub(super) fn held(&self) -> usize {
        self.items.capacity()
    }

    /// Makes it another one that has begun, in the same room.
    pub(super) fn begin_again(
        &mut self,
        start: Start,
        items: &[u8],
        thread: &Rc<Thread>,
        site: Option<&'static Site>,
    ) {
        self.start = start;
        self.end = None;
        self.items.clear();
        self.items.extend_from_slice(items);
        self.added.clear();
        self.kinds = Kinds::of(items);
        self.thread.clone_from(thread);
        self.site = site;
        self.overflowed = false;
        self.process = OnceCell::new();
        self.by_children = None;
    }

    /// Appends all that another process needs of a task that is open.
    pub(super) fn spill(&self, to: &mut Vec<u8>) {
        let name = self.thread.name.as_deref().unwrap_or_default().as_bytes();
        let added = 4 + 16 * self.added.len();
        let length = 8 + 8 + 1 + name.len() + added + Start::BYTES + self.items.len();
        to.extend_from_slice(&(length as u64).to_le_bytes());
        to.extend_from_slice(&self.thread.id.to_le_bytes());
        to.push(name.len() as u8);
        to.extend_from_slice(name);
        to.extend_from_slice(&(self.added.len() as u32).to_le_bytes());
        for (sequence, offset) in &self.added {
            to.extend_from_slice(&sequence.to_le_bytes());
            to.extend_from_slice(&(*offset as u64).to_le_bytes());
        }
        to.extend_from_slice(&bytes_of(&self.start.to_words()));
        to.extend_from_slice(&self.items);
    }

    /// Reads the next task that `spill` wrote, of at most `left` bytes; none where there is no whole one. `site` finds a
    /// call site by its number.
    pub(super) fn unspill(
        from: &mut impl Read,
        left: &mut u64,
        site: impl FnOnce(u32) -> Option<&'static Site>,
    ) -> Option<Self> {
        let mut length = [0; 8];
        from.read_exact(&mut length).ok()?;
        let length = u64::from_le_bytes(length);
        // Only what the file really has is made room for.
        *left = left.checked_sub(length)?;
        let mut own = vec![0; usize::try_from(length.checked_sub(8)?).ok()?];
        from.read_exact(&mut own).ok()?;
        let name_length = usize::from(*own.get(8)?);
        let (name, rest) = own.get(9..)?.split_at_checked(name_length)?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let added_length = (u32::from_le_bytes(*count) as usize).checked_mul(16)?;
        let (added, event) = rest.split_at_checked(added_length)?;
        let (start, items) = Start::from_bytes(event)?;
        let thread = Rc::new(Thread::new(u64_at(&own, 0), name));
        let mut task = Self::begun(start, items.to_vec(), thread, site(start.site));
        task.added =
            added.chunks_exact(16).map(|at| (u64_at(at, 0), u64_at(at, 8) as usize)).collect();
        let is_sound =
            task.added.is_sorted() && task.added.iter().all(|(_, at)| *at <= items.len());
        is_sound.then_some(task)
    }

    pub(super) fn items(&self) -> Items<'_> {
        Items(&self.items)
    }

    #[inline]
    pub(super) fn has(&self, kind: ItemKind) -> bool {
        self.kinds.have(kind)
    }

    #[inline]
    pub(super) fn all(&self, kind: ItemKind) -> impl Iterator<Item = Item<'_>> {
        let items = if self.has(kind) { self.items() } else { Items(&[]) };
        items.filter(move |item| item.kind == kind)
    }

    #[inline]
    pub(super) fn text(&self, kind: ItemKind) -> Option<&str> {
        self.all(kind).next().map(|item| item.text())
    }

    /// What it used; none for a task that was not measured, or is still open.
    pub(super) fn measured(&self) -> Option<Measured> {
        self.all(ItemKind::Measured).next().and_then(|item| Measured::read(item.payload))
    }

    /// What changed in the process and the machine while it ran.
    pub(super) fn process_use(&self) -> Option<ProcessUse> {
        *self.process.get_or_init(|| self.process_use_now())
    }

    /// Whether its captures are not its own. They do not tell what changed while it ran.
    pub(super) fn has_shared_captures(&self) -> bool {
        self.measured().is_some_and(|measured| measured.shared_age_ns.is_some())
    }

    /// Whether its captures hold counters of the process.
    pub(super) fn counts_process(&self) -> bool {
        let first = self.all(ItemKind::TelemetryAtStart).next();
        first.is_some_and(|item| Snapshot(item.payload).process_usage().is_some())
    }

    fn process_use_now(&self) -> Option<ProcessUse> {
        if self.has_shared_captures() {
            return None;
        }
        let counters = |kind| {
            let item = self.all(kind).next()?;
            Some(Snapshot(item.payload).process_usage().unwrap_or_default())
        };
        let before = counters(ItemKind::TelemetryAtStart)?;
        let after = counters(ItemKind::TelemetryAtEnd)?;
        let mut used = ProcessUse::between(&before, &after);
        if let Some(Ok(energy)) = self.energy_use() {
            used.microjoules = i64::try_from(energy.microjoules()).ok();
        }
        Some(used)
    }

    /// What the meters said when it began or ended.
    pub(super) fn energy_at(&self, kind: ItemKind) -> Option<Energy> {
        Snapshot(self.all(kind).next()?.payload).energy()
    }

    /// The energy that was used while it ran; why that is not known, and none where nobody asked.
    pub(super) fn energy_use(&self) -> Option<Result<EnergyUsed, String>> {
        let before = self.energy_at(ItemKind::TelemetryAtStart);
        let after = self.energy_at(ItemKind::TelemetryAtEnd);
        if (before.is_none() && after.is_none()) || self.has_shared_captures() {
            return None;
        }
        Some(after.unwrap_or_default().since(&before.unwrap_or_default()))
    }

    pub(super) fn status(&self) -> Status {
        match self.end {
            None => Status::Running,
            Some(End { ending: Ending::Finished | Ending::Dropped, .. })
                if !self.has(ItemKind::ErrorMessage) =>
            {
                Status::Finished
            }
            Some(_) => Status::Error,
        }
    }
}

/// Kinds of items, a bit each.
#[derive(Debug, Clone, Copy)]
struct Kinds(u32);

const _: () = assert!(ItemKind::COUNT <= u32::BITS as usize, "a bit each");

impl Kinds {
    fn of(items: &[u8]) -> Self {
        Self(Items(items).fold(0, |kinds, item| kinds | Self::bit(item.kind)))
    }

    const fn bit(kind: ItemKind) -> u32 {
        1 << kind as u32
    }

    fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    #[inline]
    fn have(self, kind: ItemKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }
}
