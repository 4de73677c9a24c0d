//! The events that a task sends to the writer: a START and an END, each a fixed head and a list of
//! items.
//!
//! Events contain numbers and text, never pointers, so that another process can read them after
//! this one has died. They refer to a call site by its number in the table of sites, and to a
//! workflow by its number in this process.

use runlore_core::record::Id;
use runlore_core::record::hash::NoHash;
use runlore_core::usage::Usage;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Padding at the end of a ring.
    Pad = 0,
    Start = 1,
    End = 2,
    /// More items for an open task, see [`Add`].
    Add = 3,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Pad, Self::Start, Self::End, Self::Add].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ending {
    Finished = 0,
    Failed = 1,
    Panicked = 2,
    Cancelled = 3,
    /// A guard was dropped without `finish`.
    Dropped = 4,
}

impl Ending {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Failed,
            2 => Self::Panicked,
            3 => Self::Cancelled,
            4 => Self::Dropped,
            _ => Self::Finished,
        }
    }
}

/// The head of a START.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) id: Id,
    pub(crate) parent: Option<Id>,
    pub(crate) site: u32,
    pub(crate) workflow: u32,
    pub(crate) monotonic_ns: u64,
    pub(crate) wall_ns: u64,
    /// The queue had no room for the items.
    pub(crate) lost_items: bool,
    /// The record omits the source location.
    pub(crate) is_brief: bool,
}

impl Start {
    pub(crate) const BYTES: usize = 64;

    /// Returns the head as words, which a ring stores one by one. If the bytes were assembled in
    /// memory first, they would be read back in wider units than they were written, which stalls
    /// the processor.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; Self::BYTES / 8] {
        let (id, parent) = (self.id.to_bits(), self.parent.map_or(0, Id::to_bits));
        [
            id as u64,
            (id >> 64) as u64,
            parent as u64,
            (parent >> 64) as u64,
            u64::from(self.site),
            self.monotonic_ns,
            self.wall_ns,
            u64::from(self.workflow)
                | u64::from(self.lost_items) << 32
                | u64::from(self.is_brief) << 40,
        ]
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, items) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let start = Self {
            id: Id::from_bits(u128_at(head, 0))?,
            parent: Id::from_bits(u128_at(head, 16)),
            site: u32_at(head, 32),
            monotonic_ns: u64_at(head, 40),
            wall_ns: u64_at(head, 48),
            workflow: u32_at(head, 56),
            lost_items: head[60] != 0,
            is_brief: head[61] != 0,
        };
        Some((start, items))
    }
}

/// The head of an END.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) id: Id,
    pub(crate) monotonic_ns: u64,
    pub(crate) ending: Ending,
    /// The queue had no room for the items.
    pub(crate) lost_items: bool,
}

impl End {
    pub(crate) const BYTES: usize = 32;

    /// Returns the head as words, see [`Start::to_words`].
    #[inline]
    pub(crate) fn to_words(self) -> [u64; Self::BYTES / 8] {
        let id = self.id.to_bits();
        [
            id as u64,
            (id >> 64) as u64,
            self.monotonic_ns,
            u64::from(self.ending as u8) | u64::from(self.lost_items) << 32,
        ]
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, items) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let end = Self {
            id: Id::from_bits(u128_at(head, 0))?,
            monotonic_ns: u64_at(head, 16),
            ending: Ending::from_byte(head[24]),
            lost_items: head[28] != 0,
        };
        Some((end, items))
    }
}

/// The head of an ADD: more items for an open task, from any thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Add {
    pub(crate) id: Id,
    /// Increases with every ADD of the process. The ADDs of one task come from several rings; the
    /// one with the higher number is the later one.
    pub(crate) sequence: u64,
}

impl Add {
    pub(crate) const BYTES: usize = 24;

    #[inline]
    pub(crate) fn to_words(self) -> [u64; Self::BYTES / 8] {
        let id = self.id.to_bits();
        [id as u64, (id >> 64) as u64, self.sequence]
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, items) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        Some((Self { id: Id::from_bits(u128_at(head, 0))?, sequence: u64_at(head, 16) }, items))
    }
}

/// Returns the words of a head as the bytes that a ring contains.
pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ItemKind {
    Used = 1,
    Generated = 2,
    Metadata = 3,
    Tag = 4,
    Subtype = 5,
    Group = 6,
    /// The name of a task without a site.
    Activity = 7,
    /// The file, line and column of a task without a site.
    Code = 8,
    /// The type of an error.
    ErrorType = 9,
    /// An error's message, then those of its sources.
    ErrorMessage = 10,
    /// Why something is missing. The key is the missing field, the payload the reason.
    Unavailable = 11,
    /// A frame of a panic's backtrace. The innermost comes first.
    Backtrace = 12,
    /// The capture at the start, as a snapshot.
    TelemetryAtStart = 13,
    TelemetryAtEnd = 14,
    /// The task's resource usage, see [`Measured`].
    Measured = 15,
    /// The usage of a process that the task ran, as a value.
    ChildUsage = 16,
    /// How many outputs were dropped, see `shrink`.
    Forgotten = 17,
    /// A group that is an id, as most are.
    GroupId = 18,
    /// The budget left no captures for the task.
    NoCaptures = 19,
}

impl ItemKind {
    /// All kinds, in the order of their numbers, which begin with 1.
    const ALL: [Self; 19] = [
        Self::Used,
        Self::Generated,
        Self::Metadata,
        Self::Tag,
        Self::Subtype,
        Self::Group,
        Self::Activity,
        Self::Code,
        Self::ErrorType,
        Self::ErrorMessage,
        Self::Unavailable,
        Self::Backtrace,
        Self::TelemetryAtStart,
        Self::TelemetryAtEnd,
        Self::Measured,
        Self::ChildUsage,
        Self::Forgotten,
        Self::GroupId,
        Self::NoCaptures,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// Greater than any kind's number.
    pub(crate) const COUNT: usize = Self::ALL.len() + 1;
}

/// The resource usage of a measured task, and the cost of measuring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The task's own usage.
    pub(crate) own: Usage,
    /// The usage of the task and its children.
    pub(crate) inclusive: Usage,
    /// The most memory that it had allocated at once on its thread, in addition to earlier
    /// allocations.
    pub(crate) peak_bytes: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) nested_ns: u64,
    /// Whether the system reports the usage of a thread.
    pub(crate) is_counted: bool,
    /// Whether tasks other than its ancestors and descendants ran at the same time.
    pub(crate) is_shared: bool,
    /// Whether that is true for one of its children.
    pub(crate) children_are_shared: bool,
    /// Whether the budget omitted types from its captures.
    pub(crate) is_thinned: bool,
    /// The age of the older capture. `None` if both are its own.
    pub(crate) shared_age_ns: Option<u64>,
}

impl Measured {
    const NUMBERS: usize = 2 * Self::USED + 4;
    /// The number of fields in a usage.
    const USED: usize = 8;

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        for used in [self.own, self.inclusive] {
            let numbers = [
                used.cpu_ns,
                used.minor_faults,
                used.major_faults,
                used.voluntary_switches,
                used.involuntary_switches,
                used.allocated_bytes,
                used.freed_bytes,
                used.allocations,
            ];
            numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        }
        for number in [self.start_ns, self.end_ns, self.nested_ns, self.peak_bytes] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        let flags = [
            self.is_shared,
            self.children_are_shared,
            self.is_counted,
            self.is_thinned,
            self.shared_age_ns.is_some(),
        ];
        to.push(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        if let Some(age) = self.shared_age_ns {
            to.extend_from_slice(&age.to_le_bytes());
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (numbers, flags) = bytes.split_at_checked(Self::NUMBERS * 8)?;
        let usage = |at: usize| {
            let mut used = Usage::NONE;
            used.cpu_ns = u64_at(numbers, at);
            used.minor_faults = u64_at(numbers, at + 8);
            used.major_faults = u64_at(numbers, at + 16);
            used.voluntary_switches = u64_at(numbers, at + 24);
            used.involuntary_switches = u64_at(numbers, at + 32);
            used.allocated_bytes = u64_at(numbers, at + 40);
            used.freed_bytes = u64_at(numbers, at + 48);
            used.allocations = u64_at(numbers, at + 56);
            used
        };
        let others = 2 * Self::USED * 8;
        Some(Self {
            own: usage(0),
            inclusive: usage(Self::USED * 8),
            start_ns: u64_at(numbers, others),
            end_ns: u64_at(numbers, others + 8),
            nested_ns: u64_at(numbers, others + 16),
            peak_bytes: u64_at(numbers, others + 24),
            is_shared: flags.first()? & 1 != 0,
            children_are_shared: flags.first()? & 2 != 0,
            is_counted: flags.first()? & 4 != 0,
            is_thinned: flags.first()? & 8 != 0,
            shared_age_ns: (flags.first()? & 16 != 0).then(|| u64_at(flags, 1)),
        })
    }
}

/// The name of an item: an index into its site's list of names, or the name itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    Index(u16),
    Name(&'a str),
}

const NAMED: u16 = u16::MAX;

/// Properties of a copied value besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// A limit truncated the value.
    pub(crate) cut: bool,
    /// A secret was redacted.
    pub(crate) redacted: bool,
    /// Why the value has no hash, if known.
    pub(crate) no_hash: Option<NoHash>,
}

impl Marks {
    fn to_byte(self) -> u8 {
        let no_hash = self.no_hash.map_or(0, |why| why as u8);
        u8::from(self.cut) | u8::from(self.redacted) << 1 | no_hash << 2
    }

    fn from_byte(byte: u8) -> Self {
        let no_hash = NoHash::from_bits(byte >> 2 & 7);
        Self { cut: byte & 1 != 0, redacted: byte & 2 != 0, no_hash }
    }
}

/// Appends an item. `write` appends its payload.
pub(crate) fn push_item(
    items: &mut Vec<u8>,
    kind: ItemKind,
    key: Key<'_>,
    write: impl FnOnce(&mut Vec<u8>) -> Marks,
) {
    let head = items.len();
    let index = match key {
        Key::Index(index) => index,
        Key::Name(_) => NAMED,
    };
    items.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0]);
    items.extend_from_slice(&index.to_le_bytes());
    if let Key::Name(name) = key {
        let name = &name.as_bytes()[..name.len().min(usize::from(u16::MAX))];
        items.extend_from_slice(&(name.len() as u16).to_le_bytes());
        items.extend_from_slice(name);
    }
    let payload = items.len();
    let marks = write(items);
    let length = (items.len() - payload) as u32;
    items[head + 1] = marks.to_byte();
    items[head + 2..head + 6].copy_from_slice(&length.to_le_bytes());
}

/// Appends an item with text as its payload.
pub(crate) fn push_text(items: &mut Vec<u8>, kind: ItemKind, text: &str) {
    push_item(items, kind, Key::Index(0), |items| {
        items.extend_from_slice(text.as_bytes());
        Marks::default()
    });
}

/// Appends an item with an id as its payload.
pub(crate) fn push_id(items: &mut Vec<u8>, kind: ItemKind, id: Id) {
    push_item(items, kind, Key::Index(0), |items| {
        items.extend_from_slice(&id.to_bits().to_le_bytes());
        Marks::default()
    });
}

/// One item of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) kind: ItemKind,
    pub(crate) marks: Marks,
    pub(crate) payload: &'a [u8],
    index: u16,
    name: &'a [u8],
}

impl<'a> Item<'a> {
    /// Creates an item with a name.
    pub(crate) fn named(kind: ItemKind, name: &'a str, payload: &'a [u8]) -> Self {
        Self { kind, marks: Marks::default(), payload, index: NAMED, name: name.as_bytes() }
    }

    /// Returns the item's key. It is decoded on demand, because most iterations do not need it.
    pub(crate) fn key(&self) -> Key<'a> {
        match self.index {
            NAMED => Key::Name(std::str::from_utf8(self.name).unwrap_or_default()),
            index => Key::Index(index),
        }
    }

    /// Returns the payload as an id.
    pub(crate) fn id(&self) -> Option<Id> {
        id_at(self.payload, 0)
    }

    /// Returns the payload as text.
    pub(crate) fn text(&self) -> &'a str {
        match std::str::from_utf8(self.payload) {
            Ok(text) => text,
            Err(error) => {
                std::str::from_utf8(&self.payload[..error.valid_up_to()]).unwrap_or_default()
            }
        }
    }
}

/// Iterates over the items of an event. Ends silently at bytes that are not an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Items<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (head, mut rest) = self.0.split_at_checked(8)?;
        let kind = ItemKind::from_byte(head[0])?;
        let length = u32_at(head, 2) as usize;
        let index = u16::from_le_bytes([head[6], head[7]]);
        let mut name = &[][..];
        if index == NAMED {
            let (size, after) = rest.split_first_chunk::<2>()?;
            (name, rest) = after.split_at_checked(usize::from(u16::from_le_bytes(*size)))?;
        }
        let (payload, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Item { kind, marks: Marks::from_byte(head[1]), payload, index, name })
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(crate) fn id_at(bytes: &[u8], at: usize) -> Option<Id> {
    Id::from_bits(u128_at(bytes, at))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    bytes.get(at..at + 16).and_then(|b| b.try_into().ok()).map_or(0, u128::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_items_come_back_equal() {
        let start = Start {
            id: Id::new(),
            parent: Some(Id::new()),
            site: 7,
            workflow: 3,
            monotonic_ns: 11,
            wall_ns: 12,
            lost_items: true,
            is_brief: true,
        };
        let end =
            End { id: start.id, monotonic_ns: 13, ending: Ending::Cancelled, lost_items: false };
        let mut bytes = bytes_of(&start.to_words());
        push_text(&mut bytes, ItemKind::Subtype, "step");
        push_item(&mut bytes, ItemKind::Used, Key::Name("rows"), |items| {
            items.push(1);
            Marks { cut: true, redacted: false, no_hash: Some(NoHash::Cut) }
        });
        let (read, items) = Start::from_bytes(&bytes).unwrap();
        assert_eq!(read, start);
        let items: Vec<_> = Items(items).collect();
        assert_eq!((items[0].kind, items[0].text()), (ItemKind::Subtype, "step"));
        assert_eq!(
            (items[1].key(), items[1].marks.cut, items[1].payload),
            (Key::Name("rows"), true, &[1][..])
        );
        assert_eq!(End::from_bytes(&bytes_of(&end.to_words())).unwrap().0, end);
    }

    #[test]
    fn kinds_of_items_are_known_by_their_numbers() {
        for kind in ItemKind::ALL {
            assert_eq!(ItemKind::from_byte(kind as u8), Some(kind));
        }
        assert_eq!(ItemKind::from_byte(0), None);
        assert_eq!(ItemKind::from_byte(ItemKind::ALL.len() as u8 + 1), None);
    }

    #[test]
    fn torn_bytes_are_no_event() {
        let mut bytes = Vec::new();
        push_item(&mut bytes, ItemKind::Used, Key::Name("name"), |items| {
            items.extend_from_slice(b"payload");
            Marks::default()
        });
        for cut in 0..bytes.len() {
            assert_eq!(Items(&bytes[..cut]).count(), 0, "at {cut}");
        }
        assert!(Start::from_bytes(&[0; 20]).is_none());
        assert!(Start::from_bytes(&[0; Start::BYTES]).is_none(), "an id of zero is none");
    }
}
