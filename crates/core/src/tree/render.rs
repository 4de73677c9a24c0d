//! Renders a tree as text: one line per task, with an optional style for each part of a line.

use std::fmt::{self, Display, Write};

use serde_json::{Map, Value};

use super::{Detached, Item, Node, Tree};
use crate::record::{Status, WorkflowObject};
use crate::text::{human_duration, printable};

/// Below this depth lines are not indented further but show their depth as a number. A tree with a
/// hundred thousand levels would otherwise be gigabytes of blanks.
const DEEPEST: usize = 48;

/// How many characters of an error and of a value are shown.
const ERROR_LENGTH: usize = 200;
const VALUE_LENGTH: usize = 40;

/// The part of a line that a [`Style`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The branch lines of the tree.
    Branch,
    /// The name of a task.
    Task,
    /// The name of a workflow.
    Workflow,
    /// The status as it is shown. The argument is the status whose colour fits.
    Status(Status),
    /// The duration.
    Duration,
    /// The inputs and outputs.
    Values,
    /// The error message.
    Error,
    /// A note of this crate about the record.
    Note,
}

/// How the parts of a line are written, for example with a terminal's colours.
///
/// ```
/// use std::fmt;
/// use runlore::query::{Part, Style, Tree};
/// use runlore::record::TaskObject;
///
/// struct Html;
/// impl Style for Html {
///     fn write(&self, f: &mut fmt::Formatter<'_>, part: Part, text: &dyn fmt::Display) -> fmt::Result {
///         match part {
///             Part::Task => write!(f, "<b>{text}</b>"),
///             _ => write!(f, "{text}"),
///         }
///     }
/// }
/// let tree = Tree::new([], [TaskObject { task_id: "load".into(), ..TaskObject::default() }]);
/// assert_eq!(tree.render().style(&Html).to_string(), "<b>load</b>\n");
/// ```
pub trait Style {
    /// Writes `text`, which is safe to print and contains no line break.
    fn write(&self, f: &mut fmt::Formatter<'_>, part: Part, text: &dyn Display) -> fmt::Result;
}

struct Plain;

impl Style for Plain {
    fn write(&self, f: &mut fmt::Formatter<'_>, _: Part, text: &dyn Display) -> fmt::Result {
        text.fmt(f)
    }
}

/// A [`Tree`] as text. Made by [`Tree::render`].
pub struct Render<'a> {
    tree: &'a Tree,
    style: &'a dyn Style,
    values: bool,
}

impl fmt::Debug for Render<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Render").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'a> Render<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, style: &Plain, values: false }
    }

    /// Shows the inputs and outputs, shortened.
    #[must_use]
    pub fn values(mut self, show: bool) -> Self {
        self.values = show;
        self
    }

    /// Uses `style` to write the parts of a line.
    #[must_use]
    pub fn style(mut self, style: &'a dyn Style) -> Self {
        self.style = style;
        self
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        let (part, name, status, duration, error) = match &node.item {
            Item::Task(task) => {
                (Part::Task, task.name(), task.status, task.duration(), task.error_message())
            }
            Item::Workflow(workflow) => (
                Part::Workflow,
                workflow.display_name(),
                workflow.status,
                workflow.duration(),
                workflow.error_message(),
            ),
        };
        self.style.write(f, part, &printable(name))?;
        if let Some(shown) = node.shown()
            && let Some(tone) = shown.tone()
        {
            f.write_str("  ")?;
            self.style.write(f, Part::Status(tone), &printable(&shown.to_string()))?;
        }
        if let Some(duration) = duration {
            f.write_str("  ")?;
            self.style.write(f, Part::Duration, &human_duration(duration))?;
        }
        if self.values {
            let (used, generated) = match &node.item {
                Item::Task(task) => (&task.used, &task.generated),
                Item::Workflow(workflow) => (&workflow.used, &workflow.generated),
            };
            let values = Values { used: used.as_ref(), generated: generated.as_ref() };
            if !values.is_empty() {
                f.write_str("  ")?;
                self.style.write(f, Part::Values, &values)?;
            }
        }
        // A task may print to stderr without failing.
        if let Some(error) =
            error.filter(|_| matches!(status, Some(Status::Error | Status::Unknown)))
        {
            f.write_str("  ")?;
            self.style.write(f, Part::Error, &printable(error.trim()).at_most(ERROR_LENGTH))?;
        }
        if node.item.ended_early() {
            f.write_str("  ")?;
            self.style.write(f, Part::Note, &"(ended early)")?;
        }
        if let Some(lost) = node.item.as_workflow().and_then(WorkflowObject::lost) {
            f.write_str("  ")?;
            self.style.write(f, Part::Error, &format_args!("({} lost)", lost.number()))?;
        }
        // An interrupted task is shown as such and needs no note.
        if node.cut_off && !node.interrupted {
            f.write_str("  ")?;
            self.style.write(f, Part::Note, &"(its run ended first)")?;
        }
        if let Some(why) = node.detached {
            f.write_str("  ")?;
            self.style.write(f, Part::Note, &Why { why, node })?;
        }
        f.write_char('\n')
    }
}

impl Display for Render<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // For each drawn depth: whether more siblings follow there.
        let mut follows: Vec<bool> = Vec::new();
        let mut prefix = String::new();
        for step in self.tree.steps() {
            prefix.clear();
            if step.depth > 0 {
                follows.truncate(step.depth.min(DEEPEST) - 1);
                for &more in &follows {
                    prefix.push_str(if more { "│  " } else { "   " });
                }
                follows.push(!step.is_last);
                prefix.push_str(if step.is_last { "└─ " } else { "├─ " });
                if step.depth > DEEPEST {
                    let _ = write!(prefix, "(level {}) ", step.depth);
                }
                self.style.write(f, Part::Branch, &prefix)?;
            }
            self.line(f, step.node)?;
        }
        Ok(())
    }
}

struct Why<'a> {
    why: Detached,
    node: &'a Node,
}

impl Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = printable(self.node.parent_id().unwrap_or("?")).at_most(64);
        match self.why {
            Detached::ParentMissing => write!(f, "(its parent {parent} is not in the records)"),
            Detached::ParentOpen => write!(f, "(its parent {parent} has not ended yet)"),
            Detached::Circle => write!(f, "(its parent {parent} is also below it)"),
        }
    }
}

/// The inputs and outputs: `x=1 opts={"mode":"fast"} → y=2`.
struct Values<'a> {
    used: Option<&'a Map<String, Value>>,
    generated: Option<&'a Map<String, Value>>,
}

impl Values<'_> {
    fn is_empty(&self) -> bool {
        self.used.is_none_or(Map::is_empty) && self.generated.is_none_or(Map::is_empty)
    }
}

impl Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (name, value) in self.used.into_iter().flatten() {
            f.write_str(between)?;
            pair(f, name, value)?;
            between = " ";
        }
        if let Some(generated) = self.generated.filter(|generated| !generated.is_empty()) {
            f.write_str(between)?;
            f.write_char('→')?;
            for (name, value) in generated {
                f.write_char(' ')?;
                pair(f, name, value)?;
            }
        }
        Ok(())
    }
}

fn pair(f: &mut fmt::Formatter<'_>, name: &str, value: &Value) -> fmt::Result {
    let text = value.to_string();
    let name = printable(name).at_most(VALUE_LENGTH);
    write!(f, "{name}={}", printable(&text).at_most(VALUE_LENGTH))
}
