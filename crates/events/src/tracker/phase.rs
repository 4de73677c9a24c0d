//! Named phases of a program, so that events show what the program was doing.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::ThreadId;

use serde_json::{Map, Value, json};

use super::core::{Core, Said, object};
use super::shared::Shared;

/// A phase in progress, which ends when this guard is dropped. Created by
/// [`Tracker::phase`](super::Tracker::phase).
#[derive(Debug)]
#[must_use = "the phase ends when the guard is dropped"]
pub struct Phase {
    shared: Arc<Shared>,
    sequence: u64,
    /// A phase belongs to the thread that began it.
    _not_send: PhantomData<*const ()>,
}

/// The open phases of each thread, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Phases {
    open: HashMap<ThreadId, Vec<Scope>>,
    last: u64,
}

#[derive(Debug, Clone)]
struct Scope {
    name: String,
    sequence: u64,
    attributes: Map<String, Value>,
}

impl Phase {
    pub(super) fn begin(shared: &Arc<Shared>, name: &str, attributes: Map<String, Value>) -> Self {
        let mut sequence = 0;
        if shared.is_of_this_process() {
            let mut core = shared.lock();
            core.phases.last += 1;
            sequence = core.phases.last;
            let scope = Scope { name: name.to_owned(), sequence, attributes };
            core.phases.open.entry(std::thread::current().id()).or_default().push(scope);
            core.add_phase("enter", sequence);
            shared.unlock(core);
        }
        Self { shared: Arc::clone(shared), sequence, _not_send: PhantomData }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if !self.shared.is_of_this_process() {
            // Do not lock: if another thread held the lock during the fork, the child would wait
            // forever.
            return;
        }
        let mut core = self.shared.lock();
        core.add_phase("exit", self.sequence);
        let thread = std::thread::current().id();
        if let Some(open) = core.phases.open.get_mut(&thread) {
            open.retain(|scope| scope.sequence != self.sequence);
            if open.is_empty() {
                core.phases.open.remove(&thread);
            }
        }
        self.shared.unlock(core);
    }
}

impl Core {
    fn add_phase(&mut self, action: &str, sequence: u64) {
        let thread = std::thread::current();
        let open = self.phases.open.get(&thread.id()).map(Vec::as_slice).unwrap_or_default();
        let Some(depth) = open.iter().position(|scope| scope.sequence == sequence) else { return };
        let scope = &open[depth];
        let id = |sequence: u64| format!("{}:{sequence}", self.session.id);
        let parent = depth.checked_sub(1).map(|around| id(open[around].sequence));
        let path: Vec<&str> = open[..=depth].iter().map(|scope| &*scope.name).collect();
        let mut told = object(json!({
            "action": action,
            "name": scope.name,
            "path": path,
            "depth": depth + 1,
            "scope_id": id(sequence),
            "parent_scope_id": parent,
            "thread_id": runlore_core::thread::current_id(),
            "thread_name": thread.name().unwrap_or("unnamed"),
            "sequence": sequence,
        }));
        if !scope.attributes.is_empty() {
            told.insert("attributes".to_owned(), scope.attributes.clone().into());
        }
        let verb = if action == "enter" { "entered" } else { "exited" };
        let text = format!("Phase {verb}: {}", path.join(" / "));
        let mut metadata = Map::new();
        metadata.insert("phase_scope".to_owned(), told.into());
        if let Some(task) = runlore_core::context::current_task_id() {
            metadata.insert("task_id".to_owned(), task.to_string().into());
        }
        self.add(0, Said { metadata, ..Said::plain(format!("phase_{action}"), Some(0), text) });
    }
}
