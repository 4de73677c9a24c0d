//! The call tree of tasks, and the workflows in it.

mod render;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};

pub use render::{Part, Render, Style};

use crate::record::{Shown, Status, TaskObject, WorkflowObject};
use crate::runs::failed_children;

/// Tasks and workflows, each below what started it.
///
/// * A task is below its parent. Without a parent it is below its workflow. Without a record of
///   that it is at the top.
/// * A workflow is below the task that started it, or else below the workflow that did.
/// * A task is placed as if it had no parent if its parent has no record, or none yet because the
///   run is still going on, or if the chain of parents is circular. [`Node::detached`] then gives
///   the reason.
/// * Siblings are ordered by start time. Those without a start time come last, in the order in
///   which they were read.
///
/// [`Display`](fmt::Display) renders the tree as text. [`Tree::render`] has options.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

/// One task or workflow in a [`Tree`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Node {
    /// The task or workflow.
    pub item: Item,
    /// Why the node is not below its parent. `None` if it is.
    pub detached: Option<Detached>,
    /// Whether this is a task that was still open when its workflow ended.
    pub cut_off: bool,
    /// Whether this is such a task, and its workflow's process was killed or ended by a signal.
    pub interrupted: bool,
    /// For a workflow: how many of the workflows that it started failed, directly or through
    /// others.
    pub failed_children: u64,
    children: Vec<usize>,
}

/// The content of a [`Node`].
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Item {
    /// A task.
    Task(Box<TaskObject>),
    /// A workflow.
    Workflow(Box<WorkflowObject>),
}

/// Why a task or workflow is not below the parent that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Detached {
    /// There is no record of the parent.
    #[serde(rename = "parent missing")]
    ParentMissing,
    /// There is no record of the parent yet: the run is still going on, and a task is stored when
    /// it ends.
    #[serde(rename = "parent open")]
    ParentOpen,
    /// The chain of parents leads back to the node itself.
    #[serde(rename = "circle")]
    Circle,
}

impl Tree {
    /// Builds the tree.
    pub fn new(
        workflows: impl IntoIterator<Item = WorkflowObject>,
        tasks: impl IntoIterator<Item = TaskObject>,
    ) -> Tree {
        Self::below(None, workflows, tasks)
    }

    /// Builds the tree of the workflow `top` and of those that it started. The parent of `top` is
    /// left out without marking `top` as detached.
    pub fn below(
        top: Option<&str>,
        workflows: impl IntoIterator<Item = WorkflowObject>,
        tasks: impl IntoIterator<Item = TaskObject>,
    ) -> Tree {
        let workflows = workflows.into_iter().map(|workflow| Item::Workflow(Box::new(workflow)));
        let tasks = tasks.into_iter().map(|task| Item::Task(Box::new(task)));
        let mut items: Vec<Item> = workflows.chain(tasks).collect();
        // Sort first, so that children and roots are added in order.
        items.sort_by(Item::by_start);

        let links = Links::of(&items);
        let mut detached = vec![None; items.len()];
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let is_top = matches!(item, Item::Workflow(_)) && top == Some(item.id());
            let (parent, why) = if is_top { (None, None) } else { links.parent(item, at, &items) };
            detached[at] = why;
            parents.push(parent);
        }
        for at in circles(&parents) {
            parents[at] = links.workflow_above(&items[at]);
            detached[at] = Some(Detached::Circle);
        }
        // Moving a task below its workflow can close a circle only if workflows and tasks form one
        // together. Such a task goes to the top.
        for at in circles(&parents) {
            parents[at] = None;
            detached[at] = Some(Detached::Circle);
        }

        let over: Vec<Option<bool>> = items.iter().map(|item| links.over(item, &items)).collect();
        let workflows = items.iter().filter_map(Item::as_workflow);
        let mut failed = failed_children(workflows).into_iter();
        let mut nodes: Vec<Node> = items
            .into_iter()
            .zip(detached)
            .zip(over)
            .map(|((item, detached), over)| Node {
                detached,
                cut_off: over.is_some(),
                interrupted: over == Some(true),
                failed_children: item.as_workflow().and_then(|_| failed.next()).unwrap_or(0),
                item,
                children: Vec::new(),
            })
            .collect();
        let mut roots = Vec::new();
        for (at, parent) in parents.into_iter().enumerate() {
            match parent {
                Some(parent) => nodes[parent].children.push(at),
                None => roots.push(at),
            }
        }
        Tree { nodes, roots }
    }

    /// Returns the tree as text, with options.
    pub fn render(&self) -> Render<'_> {
        Render::new(self)
    }

    /// Iterates over all nodes with their depth, in the order of the text: a parent before its
    /// children.
    ///
    /// ```
    /// use runlore::query::Tree;
    /// use runlore::record::TaskObject;
    ///
    /// let task = TaskObject { task_id: "t".into(), ..TaskObject::default() };
    /// let tree = Tree::new([], [task]);
    /// assert_eq!(tree.walk().map(|(depth, node)| (depth, node.item.id())).next(), Some((0, "t")));
    /// ```
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.steps().map(|step| (step.depth, step.node))
    }

    /// Returns the number of tasks and workflows.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Like [`Tree::walk`], with what drawing needs. Keeps its own stack, because a tree may be
    /// deeper than the thread's stack allows.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let mut open = vec![(&self.roots[..], 0)];
        std::iter::from_fn(move || {
            loop {
                let depth = open.len() - 1;
                let (siblings, next) = open.last_mut()?;
                if let Some(&at) = siblings.get(*next) {
                    *next += 1;
                    let is_last = *next == siblings.len();
                    let node = &self.nodes[at];
                    open.push((&node.children, 0));
                    return Some(Step { depth, is_last, node });
                }
                open.pop();
                if open.is_empty() {
                    return None;
                }
            }
        })
    }
}

/// One step of a walk over a tree.
pub(super) struct Step<'a> {
    pub(super) depth: usize,
    pub(super) is_last: bool,
    pub(super) node: &'a Node,
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render().fmt(f)
    }
}

impl Node {
    /// Returns the id of the parent that the node names, even if that has no record.
    pub fn parent_id(&self) -> Option<&str> {
        self.item.parent_task_id().or(match &self.item {
            Item::Workflow(workflow) => workflow.parent_workflow_id.as_deref(),
            Item::Task(_) => None,
        })
    }

    /// Returns the status as it is shown. `None` if the node has no status.
    ///
    /// ```
    /// use runlore::query::Tree;
    /// use runlore::record::{TaskObject, WorkflowObject};
    /// use serde_json::json;
    ///
    /// let run: WorkflowObject = serde_json::from_value(json!({"workflow_id": "w", "status": "UNKNOWN"}))?;
    /// let task: TaskObject =
    ///     serde_json::from_value(json!({"task_id": "t", "workflow_id": "w", "status": "RUNNING"}))?;
    /// let tree = Tree::new([run], [task]);
    /// let shown: Vec<String> = tree.walk().map(|(_, node)| node.shown().unwrap().to_string()).collect();
    /// assert_eq!(shown, ["INTERRUPTED", "INTERRUPTED"]);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn shown(&self) -> Option<Shown> {
        match &self.item {
            Item::Task(_) if self.interrupted => Some(Shown::interrupted()),
            Item::Task(task) => task.status.map(Shown::from),
            Item::Workflow(workflow) => {
                let shown = workflow.shown().with_failed_children(self.failed_children);
                shown.tone().map(|_| shown)
            }
        }
    }
}

/// A node of a tree as JSON.
#[derive(Serialize)]
struct TreeLine<'a> {
    depth: usize,
    record: &'a Item,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detached: Option<Detached>,
}

impl Node {
    /// Returns the node as JSON: its depth, its record, its status as it is shown, and why it is
    /// not below its parent.
    pub fn serialize_at(&self, depth: usize) -> impl Serialize + '_ {
        let shown = self.shown().map(|shown| shown.to_string());
        TreeLine { depth, record: &self.item, shown, detached: self.detached }
    }
}

/// Serializes the nodes in the order of [`walk`](Tree::walk), as a flat list: a tree may be deeper
/// than the nesting that readers of JSON allow.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.walk().map(|(depth, node)| node.serialize_at(depth)))
    }
}

impl Item {
    /// Returns the id of the task or workflow.
    pub fn id(&self) -> &str {
        match self {
            Item::Task(task) => &task.task_id,
            Item::Workflow(workflow) => &workflow.workflow_id,
        }
    }

    /// Returns the workflow. `None` for a task.
    pub fn as_workflow(&self) -> Option<&WorkflowObject> {
        match self {
            Item::Task(_) => None,
            Item::Workflow(workflow) => Some(workflow),
        }
    }

    /// Returns whether this is a task that ended early. For workflows the status says that.
    pub(super) fn ended_early(&self) -> bool {
        matches!(self, Item::Task(task) if task.ended_early == Some(true))
    }

    fn parent_task_id(&self) -> Option<&str> {
        match self {
            Item::Task(task) => task.parent_task_id.as_deref(),
            Item::Workflow(workflow) => workflow.parent_task_id.as_deref(),
        }
    }

    /// Returns the id of the workflow that a task belongs to, or that started a workflow.
    fn workflow_id(&self) -> Option<&str> {
        match self {
            Item::Task(task) => task.workflow_id.as_deref(),
            Item::Workflow(workflow) => workflow.parent_workflow_id.as_deref(),
        }
    }

    fn started_at(&self) -> Option<f64> {
        match self {
            Item::Task(task) => task.started_at,
            Item::Workflow(workflow) => workflow.started_at,
        }
    }

    fn by_start(&self, other: &Item) -> Ordering {
        match (self.started_at(), other.started_at()) {
            (Some(one), Some(two)) => one.total_cmp(&two).then_with(|| self.id().cmp(other.id())),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
}

/// The index of each id.
struct Links<'a> {
    workflows: HashMap<&'a str, usize>,
    /// Task ids are unique in Runlore's records. In records of other programs two workflows may use
    /// the same id.
    tasks: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Links<'a> {
    fn of(items: &'a [Item]) -> Self {
        let mut links = Links { workflows: HashMap::new(), tasks: HashMap::new() };
        for (at, item) in items.iter().enumerate() {
            match item {
                Item::Workflow(workflow) => {
                    links.workflows.insert(&workflow.workflow_id, at);
                }
                Item::Task(task) => links.tasks.entry(&task.task_id).or_default().push(at),
            }
        }
        links
    }

    /// Returns the parent's index, and why it is not the parent that `item` names.
    fn parent(&self, item: &Item, at: usize, items: &[Item]) -> (Option<usize>, Option<Detached>) {
        let above = self.workflow_above(item);
        let Some(parent_id) = item.parent_task_id() else {
            let is_missing = matches!(item, Item::Workflow(workflow)
                if workflow.parent_workflow_id.is_some() && above.is_none());
            return (above, is_missing.then_some(Detached::ParentMissing));
        };
        // The first tasks of a sub-workflow name the task that started it, which is above the
        // workflow.
        let is_first = matches!(item, Item::Task(_))
            && above.is_some_and(|above| items[above].parent_task_id() == Some(parent_id));
        let candidates = self.tasks.get(parent_id).map_or(&[][..], Vec::as_slice);
        let own = item.workflow_id();
        let parent = candidates
            .iter()
            .copied()
            .find(|&candidate| candidate != at && items[candidate].workflow_id() == own)
            .or_else(|| candidates.iter().copied().find(|&candidate| candidate != at))
            .or_else(|| candidates.first().copied());
        let Some(parent) = parent else {
            let is_running = |above: usize| {
                matches!(&items[above], Item::Workflow(workflow)
                    if workflow.status == Some(Status::Running))
            };
            let why = if above.is_some_and(is_running) {
                Detached::ParentOpen
            } else {
                Detached::ParentMissing
            };
            return (above, (!is_first).then_some(why));
        };
        let is_elsewhere = items[parent].workflow_id() != own;
        (if is_first && is_elsewhere { above } else { Some(parent) }, None)
    }

    /// For an open task whose workflow is over: returns whether the workflow was interrupted.
    fn over(&self, item: &Item, items: &[Item]) -> Option<bool> {
        if !matches!(item, Item::Task(task) if task.status == Some(Status::Running)) {
            return None;
        }
        let workflow = items[self.workflow_above(item)?].as_workflow()?;
        let is_over =
            matches!(workflow.status, Some(Status::Finished | Status::Error | Status::Unknown));
        is_over.then(|| workflow.is_interrupted())
    }

    /// Returns the workflow that `item` is below if no task is its parent.
    fn workflow_above(&self, item: &Item) -> Option<usize> {
        self.workflows.get(item.workflow_id()?).copied()
    }
}

/// Returns one index per circle in `parents`, where the circle is to be cut: the first one in
/// order.
fn circles(parents: &[Option<usize>]) -> Vec<usize> {
    const NEW: u32 = 0;
    let mut walked = vec![NEW; parents.len()];
    let mut cuts = Vec::new();
    for (walk, start) in (1_u32..).zip(0..parents.len()) {
        let mut at = start;
        while walked[at] == NEW {
            walked[at] = walk;
            match parents[at] {
                Some(parent) => at = parent,
                None => break,
            }
        }
        // The walk came back to itself: `at` is on a circle that was not found before.
        if walked[at] == walk && parents[at].is_some() {
            let mut first = at;
            let mut next = parents[at];
            while let Some(place) = next.filter(|&place| place != at) {
                first = first.min(place);
                next = parents[place];
            }
            cuts.push(first);
        }
    }
    cuts
}
