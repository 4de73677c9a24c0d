//! What is measured around a task: the machine before and after it, and what the task itself used.
//!
//! Sensors are read before the task's clock starts and after it stopped. What a thread uses while a task runs on it is the
//! task's own, less what other measured tasks used in between; what a task and all its children used is summed up as they
//! end. A capture's own time is nobody's: it is taken off the tasks around it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::budget::{self, Captures, Measuring};
use super::inputs::Scratch;
use crate::pipeline::event::{ItemKind, Key, Marks, Measured, push_item};
use crate::pipeline::queue;
use crate::pipeline::{generation, overhead};
use runlore_core::alloc::PeakScope;
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Context;
use runlore_core::context::handed;
use runlore_core::context::handed::Sums;
use runlore_core::once::Once;
use runlore_core::record::Id;
use runlore_core::usage;
use runlore_core::usage::Usage;
use runlore_telemetry::{
    GpuInfo, TelemetryCapture, TelemetryChoice, TelemetryType, Types, part_of,
};

/// How many measured tasks are open in this process, and how many have begun: whether a task was alone.
static OPEN: AtomicU64 = AtomicU64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The measured tasks that run on this thread, each inside the one before.
    static RUNNING: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// A measured task while it runs on a thread.
#[derive(Debug, Clone, Copy)]
struct Frame {
    task: Id,
    /// What the thread had used when the task went on.
    since: Usage,
    /// What others used on this thread meanwhile.
    nested: Usage,
    children: Sums,
    /// How long captures took on this thread meanwhile.
    capture_ns: u64,
}

/// Looks at the tasks that run on this thread. While its destructors run there may be none any more.
fn running<R: Default>(look: impl FnOnce(&mut Vec<Frame>) -> R) -> R {
    RUNNING.try_with(|running| look(&mut running.borrow_mut())).unwrap_or_default()
}

/// Takes what a capture used off the task around it.
fn leave_out(used: Usage, capture_ns: u64) {
    running(|running| {
        if let Some(around) = running.last_mut() {
            around.nested += used;
            around.capture_ns += capture_ns;
        }
    });
}

/// What the thread has used so far, where a task around this one needs to know.
fn used_within_another() -> Option<Usage> {
    if running(|running| running.is_empty()) { None } else { thread_usage() }
}

/// In a forked child: the tasks that were running are the parent's.
fn forget_after_fork() {
    static GENERATION: AtomicU32 = AtomicU32::new(0);
    let now = generation();
    if GENERATION.swap(now, Ordering::Relaxed) != now {
        OPEN.store(0, Ordering::Relaxed);
        running(Vec::clear);
    }
}

/// The measurement of one task.
#[derive(Debug)]
pub(crate) struct Meter {
    captures: Captures,
    /// The types that were asked for.
    types: Types,
    /// How old the older of the captures is; none where they are the task's own.
    shared_age_ns: Option<u64>,
    task: Option<Id>,
    parent: Option<Id>,
    /// What the thread had used before the first capture, where a task around this one needs to know.
    before: Option<Usage>,
    /// What the thread had used when the task went on.
    since: Usage,
    own: Usage,
    /// The most that it allocated at once while it ran, and what that is told from.
    peak_bytes: u64,
    peak: Option<PeakScope>,
    children: Sums,
    /// How long captures of other tasks took while it ran.
    capture_ns: u64,
    start_ns: u64,
    /// Whether the system counts what a thread uses.
    is_counted: bool,
    /// How many tasks had begun when this one had.
    begun: u64,
    /// Whether the tasks open when it began were those around it.
    is_alone: bool,
    is_running: bool,
}

/// The source of all captures.
fn source() -> &'static TelemetryCapture {
    static SOURCE: Once<TelemetryCapture> = Once::new();
    SOURCE.get_or_init(|| TelemetryCapture::from_settings(&settings().telemetry_capture))
}

/// Takes the first readings, which percentages are counted from, before the first task needs them.
pub(super) fn prepare() {
    if !Types::from_settings(&settings().telemetry_capture).is_empty() {
        budget::prepare(source());
    }
}

/// What the graphics processors are, where the settings ask for their metrics.
pub(super) fn gpu_info(patience: Duration) -> Option<Result<GpuInfo, String>> {
    let types = Types::from_settings(&settings().telemetry_capture);
    let is_on = types.contains(TelemetryType::Gpu);
    is_on.then(|| source().gpu_info(patience))
}

impl Meter {
    /// Reads the sensors for a task that is about to begin, into its items; none for one that is not measured. What is done
    /// from here on is counted as the task's: its call site has its number by now.
    #[inline]
    pub(super) fn begin(
        measuring: &Measuring,
        context: Context,
        items: &mut Scratch,
    ) -> Option<Box<Self>> {
        match measuring.choice {
            TelemetryChoice::None => None,
            _ => Self::begin_chosen(measuring, context, items),
        }
    }

    fn begin_chosen(
        measuring: &Measuring,
        context: Context,
        items: &mut Scratch,
    ) -> Option<Box<Self>> {
        let types = source().types().chosen(measuring.choice);
        if types.is_empty() && measuring.choice != TelemetryChoice::Light {
            return None;
        }
        let captures = budget::captures(measuring, types);
        if captures == Captures::None {
            items.fetch();
            push_item(items, ItemKind::NoCaptures, Key::Index(0), |_| Marks::default());
            return None;
        }
        forget_after_fork();
        // A thread's first task makes its queue: work that is not the task's.
        _ = queue(context.workflow());
        items.fetch();
        let before = used_within_another();
        let mut shared_age_ns = None;
        let start_ns =
            capture(captures, types, ItemKind::TelemetryAtStart, items, &mut shared_age_ns);
        // A task in between that is not measured is passed over.
        let around = || running(|running| running.last().map(|around| around.task));
        let parent = context.measured_task().or_else(|| context.task.and_then(|_| around()));
        Some(Box::new(Self {
            captures,
            types,
            shared_age_ns,
            task: None,
            parent,
            before,
            since: Usage::NONE,
            is_counted: false,
            own: Usage::NONE,
            peak_bytes: 0,
            peak: None,
            children: Sums::default(),
            capture_ns: 0,
            start_ns,
            begun: 0,
            is_alone: false,
            is_running: false,
        }))
    }

    /// The task has begun, and its beginning is recorded: nothing that this used is the task's, or that of one around it.
    pub(super) fn enter(&mut self, task: Id) {
        self.task = Some(task);
        let open = OPEN.fetch_add(1, Ordering::Relaxed);
        self.begun = BEGUN.fetch_add(1, Ordering::Relaxed) + 1;
        self.is_alone = running(|running| {
            running.len() as u64 == open && running.last().map(|around| around.task) == self.parent
        });
        let used = thread_usage_at_begin();
        self.is_counted = used.is_some();
        self.since = used.unwrap_or_default();
        if let Some((before, used)) = self.before.zip(used) {
            leave_out(used.since(before), self.start_ns);
        }
        self.run();
    }

    /// The task goes on, on this thread.
    pub(super) fn resume(&mut self) {
        if !self.is_running {
            self.since = thread_usage_at_begin().unwrap_or_default();
            self.run();
        }
    }

    fn run(&mut self) {
        if let Some(task) = self.task {
            self.is_running = true;
            let frame = Frame {
                task,
                since: self.since,
                nested: Usage::NONE,
                children: Sums::default(),
                capture_ns: 0,
            };
            running(|running| running.push(frame));
            self.peak = Some(PeakScope::begin());
        }
    }

    /// The task does not run for a while, or has ended.
    pub(super) fn pause(&mut self) {
        if !std::mem::take(&mut self.is_running) {
            return;
        }
        self.peak_bytes = self.peak_bytes.max(self.peak.take().map_or(0, PeakScope::end));
        running(|running| {
            let place = running.iter().rposition(|frame| Some(frame.task) == self.task);
            let Some(place) = place else { return };
            let frame = running.remove(place);
            let now = match running.get(place) {
                // A guard that is dropped before others inside it: since the next one began all is that one's.
                Some(inner) => inner.since,
                None => thread_usage().unwrap_or_default(),
            };
            let used = now.since(frame.since);
            self.own += used.since(frame.nested);
            if let Some(around) = place.checked_sub(1).and_then(|place| running.get_mut(place)) {
                around.nested += used;
                around.capture_ns += frame.capture_ns;
            }
            self.children += frame.children;
            self.capture_ns += frame.capture_ns;
        });
    }

    /// The task has ended, and its clock is read: what it used and what the machine does now go into its items.
    pub(super) fn end(&mut self, items: &mut Scratch) {
        self.pause();
        items.fetch();
        OPEN.fetch_sub(1, Ordering::Relaxed);
        let before = used_within_another();
        let (kind, age) = (ItemKind::TelemetryAtEnd, &mut self.shared_age_ns);
        let end_ns = capture(self.captures, self.types, kind, items, age);
        if let Some((before, used)) = before.zip(used_within_another()) {
            leave_out(used.since(before), end_ns);
        }
        if let Some(task) = self.task {
            self.children += handed::take(task);
        }
        let inclusive = self.own + self.children.used;
        let begun_since = BEGUN.load(Ordering::Relaxed) - self.begun;
        let is_shared = !self.is_alone || begun_since != self.children.count;
        self.tell_parent(Sums { used: inclusive, count: 1 + self.children.count, is_shared });
        let measured = Measured {
            own: self.own,
            inclusive,
            peak_bytes: self.peak_bytes,
            start_ns: self.start_ns,
            end_ns,
            nested_ns: self.capture_ns,
            is_counted: self.is_counted,
            is_shared,
            children_are_shared: self.children.is_shared,
            is_thinned: matches!(self.captures, Captures::Own(types) if types != self.types),
            shared_age_ns: self.shared_age_ns,
        };
        push_item(items, ItemKind::Measured, Key::Index(0), |items| {
            measured.write(items);
            Marks::default()
        });
    }

    fn tell_parent(&self, sums: Sums) {
        let Some(parent) = self.parent else { return };
        let is_here = running(|running| {
            let around = running.last_mut().filter(|around| around.task == parent);
            around.map(|around| around.children += sums).is_some()
        });
        if !is_here {
            handed::add(parent, sums);
        }
    }
}

/// Reads the sensors into an item, or copies what they said a moment ago; how long that took. The types that were asked
/// for and are left out say so.
fn capture(
    captures: Captures,
    asked: Types,
    kind: ItemKind,
    items: &mut Vec<u8>,
    shared_age_ns: &mut Option<u64>,
) -> u64 {
    if asked.is_empty() {
        return 0;
    }
    let before = clock::monotonic_ns();
    if let Captures::Own(types) = captures {
        note_left_out(asked, types, kind, items);
    }
    push_item(items, kind, Key::Index(0), |items| {
        match captures {
            Captures::Own(types) => source().capture_into(types, items),
            _ => {
                let age = budget::shared_into(source(), items);
                *shared_age_ns = (*shared_age_ns).max(Some(age));
            }
        }
        Marks::default()
    });
    let cost = clock::monotonic_ns() - before;
    overhead::spend_on_capture(cost);
    cost
}

fn note_left_out(asked: Types, types: Types, kind: ItemKind, items: &mut Vec<u8>) {
    let field = match kind {
        ItemKind::TelemetryAtStart => "telemetry_at_start",
        _ => "telemetry_at_end",
    };
    for one in asked.iter().filter(|one| !types.contains(*one)) {
        let part = match one {
            TelemetryType::PerCpu => "cpu.times_per_cpu",
            other => part_of(other),
        };
        let path = format!("{field}.{part}");
        push_item(items, ItemKind::Unavailable, Key::Name(&path), |items| {
            items.extend_from_slice(budget::LEFT_OUT.as_bytes());
            Marks::default()
        });
    }
}

/// What the thread has used so far.
fn thread_usage() -> Option<Usage> {
    #[cfg(test)]
    if let Some(scripted) = scripted::next() {
        return Some(scripted);
    }
    usage::thread()
}

/// The same for what begins now.
fn thread_usage_at_begin() -> Option<Usage> {
    #[cfg(test)]
    if let Some(scripted) = scripted::next() {
        return Some(scripted);
    }
    usage::thread_at_begin()
}

/// Readings that a test sets, instead of the thread's own.
#[cfg(test)]
mod scripted {
    use std::cell::RefCell;

    use runlore_core::usage::Usage;

    thread_local! {
        static CPU_NS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// The next readings say that so much processor time was used, in this order.
    pub(super) fn set(cpu_ns: &[u64]) {
        CPU_NS.with_borrow_mut(|next| next.extend(cpu_ns.iter().rev()));
    }

    pub(super) fn next() -> Option<Usage> {
        let cpu_ns = CPU_NS.with_borrow_mut(Vec::pop)?;
        let mut usage = Usage::NONE;
        usage.cpu_ns = cpu_ns;
        Some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::overhead::CallSite;

    fn light() -> Measuring {
        static SITE: CallSite = CallSite::new();
        Measuring { choice: TelemetryChoice::Light, site: &SITE }
    }

    fn begin(items: &mut Scratch) -> Box<Meter> {
        Meter::begin(&light(), Context::NONE, items).unwrap()
    }

    #[test]
    fn what_captures_use_is_nobodys() {
        let mut items = Scratch::take();
        let mut outer = begin(&mut items);
        scripted::set(&[1_000]);
        outer.enter(Id::new());
        // The inner one's first capture begins at 1,100, and its body at 1,150.
        scripted::set(&[1_100, 1_150]);
        let mut inner = begin(&mut items);
        inner.enter(Id::new());
        // Its body ends at 1,170; its second capture lasts from 1,175 to 1,220.
        scripted::set(&[1_170, 1_175, 1_220]);
        inner.end(&mut items);
        scripted::set(&[1_300]);
        outer.pause();
        assert_eq!(inner.own.cpu_ns, 20);
        // Up to the first capture, from the end of the body to the second capture, and from there on.
        assert_eq!(outer.own.cpu_ns, 100 + 5 + 80);
    }
}
