//! Measures tasks: captures of the machine before and after, and the resources that the task used.
//!
//! Sensors are read before the task's clock starts and after it stops. A task's own usage is the
//! thread's usage while the task runs, minus that of other measured tasks in between. Inclusive
//! usage, with all child tasks, is summed as the children end. The cost of a capture belongs to no
//! task: it is subtracted from the enclosing tasks.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::budget::{self, Captures, Measuring};
use super::inputs::Scratch;
use crate::pipeline::event::{ItemKind, Key, Marks, Measured, push_item};
use crate::pipeline::overhead;
use crate::pipeline::queue;
use runlore_core::alloc::PeakScope;
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Context;
use runlore_core::context::remote_usage;
use runlore_core::context::remote_usage::Sums;
use runlore_core::fork::{PerProcess, generation, get_or_make};
use runlore_core::record::Id;
use runlore_core::usage;
use runlore_core::usage::Usage;
use runlore_telemetry::{
    GpuInfo, TelemetryCapture, TelemetryChoice, TelemetryType, Types, part_of,
};

/// The number of measured tasks that are open in this process, and the number that have begun.
/// Together they show whether a task ran alone.
static OPEN: PerProcess<AtomicU64> = PerProcess::new();
static BEGUN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The measured tasks that run on this thread, outermost first, and the generation of their
    /// process.
    static RUNNING: RefCell<(u32, Vec<Frame>)> = const { RefCell::new((0, Vec::new())) };
}

/// A measured task while it runs on a thread.
#[derive(Debug, Clone, Copy)]
struct Frame {
    task: Id,
    /// The thread's usage when the task started or resumed.
    since: Usage,
    /// The usage of nested tasks and captures on this thread since then.
    nested: Usage,
    children: Sums,
    /// The time that captures took on this thread since then.
    capture_ns: u64,
}

/// Accesses the tasks that run on this thread. Returns the default while the thread's destructors
/// run.
fn running<R: Default>(look: impl FnOnce(&mut Vec<Frame>) -> R) -> R {
    let look = |running: &RefCell<(u32, Vec<Frame>)>| {
        let (of, frames) = &mut *running.borrow_mut();
        let generation = generation();
        if *of != generation {
            // The tasks of a forked child's parent.
            frames.clear();
            *of = generation;
        }
        look(frames)
    };
    RUNNING.try_with(look).unwrap_or_default()
}

/// Subtracts a capture's usage from the enclosing task.
fn leave_out(used: Usage, capture_ns: u64) {
    running(|running| {
        if let Some(around) = running.last_mut() {
            around.nested += used;
            around.capture_ns += capture_ns;
        }
    });
}

/// Returns the thread's usage so far. `None` if no enclosing task needs it.
fn used_within_another() -> Option<Usage> {
    if running(|running| running.is_empty()) { None } else { thread_usage() }
}

/// The measurement of one task.
#[derive(Debug)]
pub(crate) struct Meter {
    captures: Captures,
    /// The selected types.
    types: Types,
    /// The age of the older capture. `None` if the captures are the task's own.
    shared_age_ns: Option<u64>,
    task: Option<Id>,
    parent: Option<Id>,
    /// The thread's usage before the first capture. `None` if no enclosing task needs it.
    before: Option<Usage>,
    /// The thread's usage when the task started or resumed.
    since: Usage,
    own: Usage,
    /// The most memory that it had allocated at once while it ran; `peak` measures the current
    /// stretch.
    peak_bytes: u64,
    peak: Option<PeakScope>,
    children: Sums,
    /// The time that captures of other tasks took while it ran.
    capture_ns: u64,
    start_ns: u64,
    /// Whether the system reports the usage of a thread.
    is_counted: bool,
    /// The number of tasks that had begun, this one included.
    begun: u64,
    /// Whether only the enclosing tasks were open when it began.
    is_alone: bool,
    is_running: bool,
}

/// Returns the source of all captures.
fn source() -> &'static TelemetryCapture {
    static SOURCE: OnceLock<TelemetryCapture> = OnceLock::new();
    get_or_make(&SOURCE, TelemetryCapture::from_settings)
}

/// Takes the first readings before the first task needs them. Percentages are relative to them.
pub(super) fn prepare() {
    if !Types::from_settings(&settings().telemetry_capture).is_empty() {
        budget::prepare(source());
    }
}

/// Describes the GPUs. `None` if the settings do not select GPU metrics.
pub(super) fn gpu_info(patience: Duration) -> Option<Result<GpuInfo, String>> {
    let types = Types::from_settings(&settings().telemetry_capture);
    let is_on = types.contains(TelemetryType::Gpu);
    is_on.then(|| source().gpu_info(patience))
}

impl Meter {
    /// Reads the sensors into the items of a task that is about to begin. `None` if the task is not
    /// measured. Work from here on counts as the task's, so its call site must have its number by
    /// now.
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
        let measuring = measuring.in_workflow(context.workflow());
        let types = source().types().chosen(measuring.choice);
        if types.is_empty() && measuring.choice != TelemetryChoice::Light {
            return None;
        }
        let captures = budget::captures(&measuring, types);
        if captures == Captures::None {
            items.fetch();
            push_item(items, ItemKind::NoCaptures, Key::Index(0), |_| Marks::default());
            return None;
        }
        // A thread's first task creates its queue, which must not count as the task's work.
        _ = queue(context.workflow());
        items.fetch();
        let before = used_within_another();
        let mut shared_age_ns = None;
        let start_ns =
            capture(captures, types, ItemKind::TelemetryAtStart, items, &mut shared_age_ns);
        // Skip tasks in between that are not measured.
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

    /// Starts measuring, after the START is recorded. Usage up to this point counts for neither
    /// this task nor the enclosing ones.
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

    /// Continues measuring on this thread.
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

    /// Stops measuring while the task does not run, or after it has ended.
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
                // A guard was dropped before the guards inside it. Usage since the next inner task
                // began belongs to that task.
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

    /// Appends the task's usage and a last capture to its items. Call this after the task's clock
    /// was read.
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
            self.children += remote_usage::take(task);
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
            remote_usage::add(parent, sums);
        }
    }
}

/// Reads the sensors into an item, or copies a recent capture. Returns how long that took. Selected
/// types that the capture omits are noted as unavailable.
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

/// Returns the thread's usage so far.
fn thread_usage() -> Option<Usage> {
    #[cfg(test)]
    if let Some(scripted) = scripted::next() {
        return Some(scripted);
    }
    usage::thread()
}

/// Returns the thread's usage so far, at the start of a measurement.
fn thread_usage_at_begin() -> Option<Usage> {
    #[cfg(test)]
    if let Some(scripted) = scripted::next() {
        return Some(scripted);
    }
    usage::thread_at_begin()
}

/// Scripted readings for tests, used instead of the thread's own.
#[cfg(test)]
mod scripted {
    use std::cell::RefCell;

    use runlore_core::usage::Usage;

    thread_local! {
        static CPU_NS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// Sets the CPU times that the next readings return, in this order.
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
        // The first capture of the inner task begins at 1,100, and its body at 1,150.
        scripted::set(&[1_100, 1_150]);
        let mut inner = begin(&mut items);
        inner.enter(Id::new());
        // Its body ends at 1,170; its second capture lasts from 1,175 to 1,220.
        scripted::set(&[1_170, 1_175, 1_220]);
        inner.end(&mut items);
        scripted::set(&[1_300]);
        outer.pause();
        assert_eq!(inner.own.cpu_ns, 20);
        // The outer task used the CPU up to the first capture, from the end of the body to the
        // second capture, and after that.
        assert_eq!(outer.own.cpu_ns, 100 + 5 + 80);
    }
}
