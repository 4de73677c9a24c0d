//! The CPU caches, and the CPUs that share each of them.

use serde::{Deserialize, Serialize};

use super::cpuid;
use super::system::cpus_in_list;
use crate::root::Root;

/// Caches of one kind: all that have the same level, type, size, line size and associativity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Cache {
    /// Level; 1 is the nearest to the core.
    pub level: u8,
    /// Content: `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size of one cache, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Size of a cache line, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_size: Option<u64>,
    /// Associativity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u64>,
    /// Number of such caches.
    pub instances: u64,
    /// For each cache, the CPUs that share it, if the system reports them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_cpus: Vec<String>,
}

/// Reads the caches, sorted by level and then by type.
pub(super) fn read(root: &Root) -> Vec<Cache> {
    let mut caches = from_files(root);
    if caches.is_empty() && root.is_live() {
        caches = cpuid::caches();
    }
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn from_files(root: &Root) -> Vec<Cache> {
    const CPUS: &str = "/sys/devices/system/cpu";
    let mut caches: Vec<Cache> = Vec::new();
    // For each index, the CPUs whose cache has been counted.
    let mut seen: Vec<Vec<u32>> = Vec::new();
    for cpu in root.numbered(CPUS, "cpu") {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in 0.. {
            if seen.len() == index {
                seen.push(Vec::new());
            }
            if seen[index].binary_search(&cpu).is_ok() {
                continue;
            }
            let of = |name: &str| format!("{folder}/index{index}/{name}");
            let Some(level) = root.value(&of("level")) else { break };
            let shared: Option<String> = root.value(&of("shared_cpu_list"));
            let sharing = shared.as_deref().map(cpus_in_list).unwrap_or_default();
            seen[index].extend(if sharing.is_empty() { vec![cpu] } else { sharing });
            seen[index].sort_unstable();
            let cache = Cache {
                level,
                kind: root.value::<String>(&of("type")).unwrap_or_default().to_lowercase(),
                size: root.value::<String>(&of("size")).as_deref().and_then(bytes),
                line_size: root.value(&of("coherency_line_size")),
                ways: root.value(&of("ways_of_associativity")).filter(|ways| *ways > 0),
                instances: 0,
                shared_cpus: Vec::new(),
            };
            add(&mut caches, cache, shared);
        }
    }
    caches
}

/// Counts a cache, together with those of the same kind.
fn add(caches: &mut Vec<Cache>, cache: Cache, shared: Option<String>) {
    let shape = |c: &Cache| (c.level, c.kind.clone(), c.size, c.line_size, c.ways);
    let known = caches.iter().position(|other| shape(other) == shape(&cache));
    let index = known.unwrap_or_else(|| {
        caches.push(cache);
        caches.len() - 1
    });
    caches[index].instances += 1;
    caches[index].shared_cpus.extend(shared);
}

/// Parses a size such as `32K` to bytes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
