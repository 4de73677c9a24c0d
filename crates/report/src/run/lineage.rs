//! Data flow between activities: finds values that one activity generated and another one used, by
//! their hashes.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::svg::Markup;
use runlore_core::record::TaskObject;
use runlore_core::store::ValueHash;
use runlore_core::text::printable;
use runlore_query::query::trace::value_hashes;

/// Maximum number of distinct values that are followed.
const VALUES: usize = 400_000;
/// Maximum number of activities in a graph.
const NODES: usize = 40;

/// The data flow between activities.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowGraph {
    /// The activities, ordered by first start.
    pub activities: Vec<String>,
    /// The flows between them.
    pub flows: Vec<Flow>,
}

/// Values that went from one activity to another.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Flow {
    /// The activity that generated them.
    pub from: String,
    /// The activity that used them.
    pub to: String,
    /// The number of values.
    pub values: u64,
    /// The name under which one of the values was used. Of several names, the first in alphabetical
    /// order.
    pub name: String,
}

#[derive(Debug, Default)]
struct Seen {
    made_by: Vec<u32>,
    used_by: Vec<u32>,
    name: Option<Box<str>>,
}

/// Collects the hashes of the tasks' values.
#[derive(Debug, Default)]
pub(super) struct Values {
    seen: HashMap<Box<str>, Seen>,
    pub(super) left_out: u64,
}

impl Values {
    pub(super) fn add(&mut self, task: &TaskObject, activity: u32) {
        for ValueHash { side, name, hash } in task.hashes.iter().flat_map(value_hashes) {
            if self.seen.len() >= VALUES && !self.seen.contains_key(&*hash) {
                self.left_out += 1;
                continue;
            }
            let seen = match self.seen.get_mut(&*hash) {
                Some(seen) => seen,
                None => self.seen.entry(hash.into()).or_default(),
            };
            let is_generated = side == "generated";
            let by = if is_generated { &mut seen.made_by } else { &mut seen.used_by };
            if !by.contains(&activity) {
                by.push(activity);
            }
            if !is_generated && seen.name.is_none() {
                seen.name = Some(name.into());
            }
        }
    }

    /// Returns the graph. `order` is the first start of each activity.
    pub(super) fn graph(self, names: &[String], order: &[u64]) -> FlowGraph {
        let mut flows: BTreeMap<(u32, u32), (u64, Box<str>)> = BTreeMap::new();
        for seen in self.seen.into_values() {
            for &from in &seen.made_by {
                for &to in &seen.used_by {
                    let name = seen.name.clone().unwrap_or_default();
                    let flow = flows.entry((from, to)).or_insert((0, name.clone()));
                    flow.0 += 1;
                    // Take the first name in the alphabet, because the order of the values is
                    // random.
                    if name < flow.1 {
                        flow.1 = name;
                    }
                }
            }
        }
        let mut most: Vec<_> = flows.into_iter().collect();
        most.sort_by_key(|((from, to), (values, _))| (u64::MAX - values, *from, *to));
        let mut shown: Vec<u32> = Vec::new();
        let mut kept = Vec::new();
        for ((from, to), (values, name)) in most {
            let new = [from, to].into_iter().filter(|one| !shown.contains(one)).count();
            if shown.len() + new > NODES {
                continue;
            }
            for one in [from, to] {
                if !shown.contains(&one) {
                    shown.push(one);
                }
            }
            kept.push((from, to, values, name));
        }
        shown.sort_by_key(|&activity| (order[activity as usize], activity));
        let name = |activity: u32| names[activity as usize].clone();
        FlowGraph {
            activities: shown.into_iter().map(name).collect(),
            flows: kept
                .into_iter()
                .map(|(from, to, values, value)| Flow {
                    from: name(from),
                    to: name(to),
                    values,
                    name: value.into(),
                })
                .collect(),
        }
    }
}

const BOX: (f64, f64) = (170.0, 34.0);
const STEP: (f64, f64) = (260.0, 62.0);

impl FlowGraph {
    /// Draws the graph from left to right. Flows to an earlier activity are drawn below.
    pub(super) fn to_svg(&self) -> String {
        let at: HashMap<&str, usize> =
            self.activities.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
        let mut layer = vec![0_usize; self.activities.len()];
        // Activities are ordered by time, so one pass is enough.
        for to in 0..layer.len() {
            for flow in &self.flows {
                if at[&*flow.to] == to && at[&*flow.from] < to {
                    layer[to] = layer[to].max(layer[at[&*flow.from]] + 1);
                }
            }
        }
        let mut filled: Vec<usize> = Vec::new();
        let places: Vec<(f64, f64)> = layer
            .iter()
            .map(|&layer| {
                filled.resize(filled.len().max(layer + 1), 0);
                let row = filled[layer];
                filled[layer] += 1;
                (12.0 + layer as f64 * STEP.0, 24.0 + row as f64 * STEP.1)
            })
            .collect();
        let columns = filled.len().max(1) as f64;
        let rows = filled.iter().copied().max().unwrap_or(1) as f64;
        let (width, height) = (columns * STEP.0 - (STEP.0 - BOX.0) + 60.0, rows * STEP.1 + 40.0);
        let mut to = Markup::default();
        to.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {width} {height}")),
                ("width", &width),
                ("height", &height),
                ("role", &"img"),
                (
                    "aria-label",
                    &"Which activity used what another one made; the table below says the same",
                ),
            ],
        );
        to.raw(
            "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path class=\"quiet\" d=\"M0 0L8 4L0 8z\"/></marker></defs>",
        );
        for flow in &self.flows {
            let (from, into) = (places[at[&*flow.from]], places[at[&*flow.to]]);
            let (x1, y1) = (from.0 + BOX.0, from.1 + BOX.1 / 2.0);
            let (x2, y2) = (into.0, into.1 + BOX.1 / 2.0);
            let path = if x2 > x1 {
                let middle = f64::midpoint(x1, x2);
                format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")
            } else {
                let below = y1.max(y2) + BOX.1;
                format!("M{x1} {y1}C{} {below} {} {below} {x2} {y2}", x1 + 40.0, x2 - 40.0)
            };
            to.open(
                "path",
                &[
                    ("class", &"edge"),
                    ("d", &path),
                    ("fill", &"none"),
                    ("stroke", &"#566072"),
                    ("stroke-width", &(1.0 + (flow.values as f64).log10().max(0.0)).min(4.0)),
                    ("marker-end", &"url(#arrow)"),
                ],
            );
            to.element("title", &[], format!("{} → {}: {}", flow.from, flow.to, flow.values));
            to.close("path");
        }
        for (name, (x, y)) in self.activities.iter().zip(&places) {
            to.empty(
                "rect",
                &[
                    ("class", &"node"),
                    ("x", x),
                    ("y", y),
                    ("width", &BOX.0),
                    ("height", &BOX.1),
                    ("rx", &6),
                ],
            );
            to.element(
                "text",
                &[
                    ("class", &"text"),
                    ("x", &(x + BOX.0 / 2.0)),
                    ("y", &(y + 21.0)),
                    ("font-size", &12),
                    ("text-anchor", &"middle"),
                ],
                printable(name).at_most(22),
            );
        }
        to.close("svg");
        to.finish()
    }
}
