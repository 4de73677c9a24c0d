//! NUMA nodes: groups of CPUs, each with its local memory.

use serde::{Deserialize, Serialize};

use super::facts::Reasons;
use crate::root::Root;

/// A NUMA node: a group of CPUs and their local memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NumaNode {
    /// The node's number.
    pub node: u32,
    /// Its CPUs, in the kernel's list format: `0-3,8`. A node may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Its memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> Vec<NumaNode> {
    const NODES: &str = "/sys/devices/system/node";
    let node = |node: u32| {
        let of = |name: &str| format!("{NODES}/node{node}/{name}");
        let cpus = root.value::<String>(&of("cpulist")).filter(|list| !list.is_empty());
        NumaNode {
            node,
            cpus,
            memory: root.read(&of("meminfo")).ok().and_then(|text| total(&text)),
        }
    };
    let nodes: Vec<NumaNode> = root.numbered(NODES, "node").into_iter().map(node).collect();
    if nodes.is_empty() {
        reasons.note("numa", format!("{NODES} shows no nodes"));
    }
    for NumaNode { node, memory, .. } in &nodes {
        if memory.is_none() {
            reasons.note(format!("numa.{node}.memory"), "the kernel does not tell it");
        }
    }
    nodes
}

/// Parses a line such as `Node 0 MemTotal:  24682416 kB` to bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| Some(line.split_once("MemTotal:")?.1))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
