//! A task in the writer: a START, possibly ADDs, possibly an END.

use std::cell::OnceCell;
use std::io::Read;
use std::rc::Rc;

use super::event::{End, Ending, Item, ItemKind, Items, Measured, Start, bytes_of, u64_at};
use super::resources::ProcessUse;
use super::shrink;
use super::site::Site;
use super::thread::Thread;
use runlore_core::record::Status;
use runlore_telemetry::{Energy, EnergyUsed, Snapshot};

/// The maximum size of an open task's items, in bytes. Beyond that, its oldest outputs are dropped.
const MOST_ITEMS: usize = 256 << 10;

/// A task. It is open while `end` is `None`.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) start: Start,
    pub(super) end: Option<End>,
    /// The items of the START, of the ADDs, and of the END, in this order.
    items: Vec<u8>,
    /// The offset in `items` of each ADD, by ascending sequence number.
    added: Vec<(u64, usize)>,
    /// The kinds of its items. A task has few of the kinds, but is checked for all of them.
    kinds: Kinds,
    pub(super) thread: Rc<Thread>,
    /// `None` for a task without the macro.
    pub(super) site: Option<&'static Site>,
    /// Whether its START or END did not fit into its ring.
    pub(super) overflowed: bool,
    /// Changes of the process-wide figures while it ran, computed on first use.
    process: OnceCell<Option<ProcessUse>>,
    /// The children's process-wide usage. `None` if not all of it is known.
    pub(super) by_children: Option<ProcessUse>,
}

impl Task {
    /// Creates a task that has begun with these items. The usage of its children is unknown.
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

    /// Inserts the items of an ADD before those of later ADDs: of two values with one name, the
    /// last one counts. An ADD that the task already has changes nothing. If the task becomes too
    /// large, its oldest outputs are dropped.
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
            shrink::forget_old(&mut self.items, MOST_ITEMS / 2);
            self.kinds = Kinds::of(&self.items);
            // The offsets of the ADDs are no longer known, only that all are there. An earlier ADD
            // that arrives now goes before them.
            let last = self.added.last().map(|(sequence, _)| (*sequence, 0));
            self.added = last.into_iter().collect();
        }
    }

    /// Ends the task.
    pub(super) fn end(&mut self, end: End, items: &[u8]) {
        self.end = Some(end);
        self.items.extend_from_slice(items);
        self.kinds.add(Kinds::of(items));
    }

    /// Returns the capacity of its item buffer in bytes.
    pub(super) fn held(&self) -> usize {
        self.items.capacity()
    }

    /// Reuses this object for another task that has begun.
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

    /// Appends everything that another process needs to recover an open task.
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

    /// Reads the next task that `spill` wrote, of at most `left` bytes. `None` if there is no
    /// complete one. `site` returns a call site by its number.
    pub(super) fn unspill(
        from: &mut impl Read,
        left: &mut u64,
        site: impl FnOnce(u32) -> Option<&'static Site>,
    ) -> Option<Self> {
        let mut length = [0; 8];
        from.read_exact(&mut length).ok()?;
        let length = u64::from_le_bytes(length);
        // Never allocate more than the file contains.
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

    /// Returns its resource usage. `None` if it was not measured or is still open.
    pub(super) fn measured(&self) -> Option<Measured> {
        self.all(ItemKind::Measured).next().and_then(|item| Measured::read(item.payload))
    }

    /// Returns the changes of the process-wide and machine-wide figures while it ran.
    pub(super) fn process_use(&self) -> Option<ProcessUse> {
        *self.process.get_or_init(|| self.process_use_now())
    }

    /// Returns whether its captures are shared. Shared captures do not show what changed while it
    /// ran.
    pub(super) fn has_shared_captures(&self) -> bool {
        self.measured().is_some_and(|measured| measured.shared_age_ns.is_some())
    }

    /// Returns whether its captures contain process counters.
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

    /// Returns the reading of the energy meters at its start or end.
    pub(super) fn energy_at(&self, kind: ItemKind) -> Option<Energy> {
        Snapshot(self.all(kind).next()?.payload).energy()
    }

    /// Returns the energy used while it ran, or why it is unknown. `None` if energy is not
    /// measured.
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

/// A set of item kinds, one bit each.
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
