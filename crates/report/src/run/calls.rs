//! The call tree of activities: tasks with the same chain of callers share a node.

use std::collections::HashMap;

use serde::Serialize;

use super::gantt::Row;
use crate::picture::State;

/// The deepest level of the tree. Deeper calls are left out.
const DEEPEST: usize = 32;
/// Maximum number of nodes of the tree.
const MOST: usize = 600;

/// Calls of one activity from the same caller.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Call {
    /// The activity that was called.
    pub activity: String,
    /// The number of calls.
    pub tasks: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The total time of the calls, including the calls they made.
    pub total_ns: u64,
    /// The calls they made, ordered by first start.
    pub calls: Vec<Call>,
}

struct Node {
    activity: u32,
    depth: usize,
    tasks: u64,
    errors: u64,
    total_ns: u64,
    first_ns: u64,
    children: Vec<usize>,
}

/// Builds the call tree. Returns its roots, and the number of tasks that were left out.
pub(super) fn of(rows: &[Row], names: &[String]) -> (Vec<Call>, usize) {
    let by_id: HashMap<&str, usize> =
        rows.iter().enumerate().map(|(at, row)| (&*row.id, at)).collect();
    let mut nodes: Vec<Node> = Vec::new();
    let mut known: HashMap<(Option<usize>, u32), usize> = HashMap::new();
    let mut node_of: Vec<Option<usize>> = vec![None; rows.len()];
    let mut left_out = 0;
    for at in 0..rows.len() {
        if node_of[at].is_some() {
            continue;
        }
        // Walk up to a task that already has a node, or to a root. The records may contain cycles.
        let mut way = vec![at];
        let mut above = None;
        while let Some(parent) = rows[way[way.len() - 1]].parent.as_deref() {
            let Some(&parent) = by_id.get(parent) else { break };
            if let Some(node) = node_of[parent] {
                above = Some(node);
                break;
            }
            if way.len() > DEEPEST * 4 || way.contains(&parent) {
                break;
            }
            way.push(parent);
        }
        for &task in way.iter().rev() {
            let row = &rows[task];
            let depth = above.map_or(0, |above: usize| nodes[above].depth + 1);
            let key = (above, row.activity);
            let node = match known.get(&key) {
                Some(&node) => node,
                None if depth > DEEPEST || nodes.len() >= MOST => {
                    left_out += 1;
                    // Attach its children to its caller.
                    node_of[task] = above;
                    continue;
                }
                None => {
                    let node = nodes.len();
                    nodes.push(Node {
                        activity: row.activity,
                        depth,
                        tasks: 0,
                        errors: 0,
                        total_ns: 0,
                        first_ns: u64::MAX,
                        children: Vec::new(),
                    });
                    if let Some(above) = above {
                        nodes[above].children.push(node);
                    }
                    known.insert(key, node);
                    node
                }
            };
            if node_of[task].is_none() {
                node_of[task] = Some(node);
                let node = &mut nodes[node];
                node.tasks += 1;
                node.errors += u64::from(row.state == State::Failed);
                node.total_ns = node.total_ns.saturating_add(row.length_ns);
                node.first_ns = node.first_ns.min(row.start_ns);
            }
            above = Some(node);
        }
    }
    let mut roots: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].depth == 0).collect();
    roots.sort_by_key(|&node| nodes[node].first_ns);
    (roots.into_iter().map(|node| call(&nodes, node, names)).collect(), left_out)
}

fn call(nodes: &[Node], at: usize, names: &[String]) -> Call {
    let node = &nodes[at];
    let mut children = node.children.clone();
    children.sort_by_key(|&child| nodes[child].first_ns);
    Call {
        activity: names[node.activity as usize].clone(),
        tasks: node.tasks,
        errors: node.errors,
        total_ns: node.total_ns,
        calls: children.into_iter().map(|child| call(nodes, child, names)).collect(),
    }
}
