//! The files of a container, found once, and what they say now.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::find::{Group, Groups};
use super::held::Held;
use super::{
    Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, ContainerPids, kind,
};
use crate::telemetry::root::Root;

/// Version 1 says "no limit" with a number near 2^63; no machine has this much.
const NO_LIMIT: u64 = 1 << 60;

#[derive(Debug)]
pub(super) struct Files {
    version: u8,
    path: String,
    kind: ContainerKind,
    unavailable: BTreeMap<String, String>,
    /// What the machine has.
    memory_total: Option<u64>,
    memory: Option<MemoryFiles>,
    cpu: CpuFiles,
    pids: PidsFiles,
    cpuset: Option<Held>,
}

#[derive(Debug)]
struct MemoryFiles {
    current: Option<Held>,
    peak: Option<Held>,
    events: Option<Held>,
    max: Vec<Held>,
    high: Vec<Held>,
}

#[derive(Debug, Default)]
struct CpuFiles {
    usage: Option<(Held, Usage)>,
    /// From the inside out.
    quotas: Vec<QuotaFiles>,
}

/// How the time that was used is said.
#[derive(Debug, Clone, Copy)]
enum Usage {
    /// `cpuacct.usage`: nanoseconds.
    Nanoseconds,
    /// `cpu.stat`: a line with microseconds.
    Line,
}

#[derive(Debug)]
struct QuotaFiles {
    quota: Held,
    /// Only version 1 has a file of its own for it.
    period: Option<Held>,
    stat: Option<Held>,
}

#[derive(Debug, Default)]
struct PidsFiles {
    current: Option<Held>,
    max: Vec<Held>,
}

impl Files {
    /// Finds the container of this process, or says why there is none.
    pub(super) fn open(root: &Root) -> Result<Self, String> {
        let groups = Groups::of_this_process(root)?;
        let mut reasons = BTreeMap::new();
        let mut group = |controller: &str, part: &str| match groups.of(controller, root) {
            Ok(group) if group.levels.is_empty() => {
                let why =
                    "the process is in the root of this hierarchy, which is the whole machine";
                reasons.insert(part.to_owned(), why.to_owned());
                Some(group)
            }
            Ok(group) => Some(group),
            Err(why) => {
                reasons.insert(part.to_owned(), why);
                None
            }
        };
        let memory_group = group("memory", "memory");
        let cpu_group = group("cpu", "cpu");
        let pids_group = group("pids", "pids");
        let cpuset_group = groups.of("cpuset", root).ok();
        let usage_group = groups.of("cpuacct", root).ok();

        let buffer = &mut Vec::new();
        let memory = memory_group.as_ref().map(|group| MemoryFiles::open(group, buffer));
        let cpu =
            cpu_group.as_ref().map(|group| CpuFiles::open(group, usage_group.as_ref(), buffer));
        let pids = pids_group.as_ref().map(|group| PidsFiles::open(group, buffer));
        let cpuset = cpuset_group.as_ref().and_then(open_cpuset);
        let main = memory_group.iter().chain(&cpu_group).chain(&pids_group);
        let mut paths = main.clone().map(|group| group.path.as_str()).chain(groups.paths());
        let path = paths.find(|path| *path != "/");
        let kind = kind::of(root, groups.paths());

        let mut files = Self {
            version: main.clone().map(|group| group.version).next().unwrap_or(2),
            path: path.unwrap_or("/").to_owned(),
            kind: kind.unwrap_or(ContainerKind::Unknown),
            unavailable: BTreeMap::new(),
            memory_total: memory_total(root),
            memory,
            cpu: cpu.unwrap_or_default(),
            pids: pids.unwrap_or_default(),
            cpuset,
        };
        files.say_what_is_missing(reasons, buffer);

        let numbers = files.numbers(buffer);
        let is_limited = numbers.memory.max.is_some()
            || numbers.memory.high.is_some()
            || numbers.cpu.quota_us.is_some()
            || numbers.pids.max.is_some();
        if !is_limited && kind.is_none() && path.is_none() {
            return Err(
                "the process is in no container: its control group is the root, without limits"
                    .to_owned(),
            );
        }
        Ok(files)
    }

    /// What is told of a container that is no more.
    pub(super) fn gone(why: String) -> Self {
        Self {
            version: 2,
            path: "/".to_owned(),
            kind: ContainerKind::Unknown,
            unavailable: BTreeMap::from([("container".to_owned(), why)]),
            memory_total: None,
            memory: None,
            cpu: CpuFiles::default(),
            pids: PidsFiles::default(),
            cpuset: None,
        }
    }

    /// What the files say now.
    pub(super) fn numbers(&self, buffer: &mut Vec<u8>) -> ContainerNumbers {
        ContainerNumbers {
            memory: match &self.memory {
                Some(files) => files.read(self.memory_total, buffer),
                None => ContainerMemory::default(),
            },
            cpu: self.cpu.read(buffer),
            pids: self.pids.read(buffer),
        }
    }

    /// Numbers, with the text that belongs to them.
    pub(super) fn describe(&self, numbers: ContainerNumbers, buffer: &mut Vec<u8>) -> Container {
        let ContainerNumbers { memory, cpu, pids } = numbers;
        let cpuset = self.cpuset.as_ref().and_then(|file| text(file.read_once(buffer)?));
        Container {
            version: self.version,
            path: self.path.clone(),
            kind: self.kind,
            memory,
            cpu,
            pids,
            cpuset,
            unavailable: self.unavailable.clone(),
        }
    }

    /// Shows the descriptor of each file that is held open.
    pub(super) fn each_descriptor(&self, mut see: impl FnMut(i32)) {
        let memory = self.memory.iter().flat_map(|files| {
            let single = [&files.current, &files.peak, &files.events].into_iter().flatten();
            single.chain(&files.max).chain(&files.high)
        });
        let usage = self.cpu.usage.iter().map(|(file, _)| file);
        let quotas = self.cpu.quotas.iter().flat_map(|quota| {
            std::iter::once(&quota.quota).chain(&quota.period).chain(&quota.stat)
        });
        let pids = self.pids.current.iter().chain(&self.pids.max);
        let all = memory.chain(usage).chain(quotas).chain(pids).chain(&self.cpuset);
        all.filter_map(Held::number).for_each(&mut see);
    }

    /// Whether a file that could be read once can be no more: somebody closed its descriptor, or the group is gone.
    pub(super) fn have_lost(&self, numbers: &ContainerNumbers) -> bool {
        let lost = |file: bool, value: Option<u64>, name: &str| {
            file && value.is_none() && !self.unavailable.contains_key(name)
        };
        lost(
            self.memory.as_ref().is_some_and(|files| files.current.is_some()),
            numbers.memory.current,
            "memory.current",
        ) || lost(self.cpu.usage.is_some(), numbers.cpu.usage_us, "cpu.usage_us")
            || lost(self.pids.current.is_some(), numbers.pids.current, "pids.current")
    }

    /// A part that could not be found at all has its reason; the others may lack single files.
    fn say_what_is_missing(&mut self, parts: BTreeMap<String, String>, buffer: &mut Vec<u8>) {
        let numbers = self.numbers(buffer);
        let cpuset = self.cpuset.as_ref().and_then(|file| text(file.read_once(buffer)?));
        let values = [
            ("memory.current", numbers.memory.current.is_some()),
            ("memory.peak", numbers.memory.peak.is_some()),
            ("memory.oom_kills", numbers.memory.oom_kills.is_some()),
            ("cpu.usage_us", numbers.cpu.usage_us.is_some()),
            ("cpu.throttled_us", numbers.cpu.throttled_us.is_some()),
            ("pids.current", numbers.pids.current.is_some()),
            ("cpuset", cpuset.is_some()),
        ];
        self.unavailable = parts;
        for (name, is_there) in values {
            let part = name.split('.').next().unwrap_or(name);
            if !is_there && !self.unavailable.contains_key(part) {
                let why = "the kernel has no such file for this group, or it says no number";
                self.unavailable.insert(name.to_owned(), why.to_owned());
            }
        }
    }
}

impl MemoryFiles {
    fn open(group: &Group, buffer: &mut Vec<u8>) -> Self {
        let of = |v1: &str, v2: &str| innermost(group, if group.version == 1 { v1 } else { v2 });
        let mut limits = |name: &str| limits(group, name, buffer);
        Self {
            current: of("memory.usage_in_bytes", "memory.current"),
            peak: of("memory.max_usage_in_bytes", "memory.peak"),
            events: of("memory.oom_control", "memory.events"),
            max: limits(if group.version == 1 { "memory.limit_in_bytes" } else { "memory.max" }),
            high: limits("memory.high"),
        }
    }

    fn read(&self, total: Option<u64>, buffer: &mut Vec<u8>) -> ContainerMemory {
        let max = smallest(&self.max, buffer);
        ContainerMemory {
            current: self.current.as_ref().and_then(|file| number(file.read(buffer)?)),
            max,
            high: smallest(&self.high, buffer),
            peak: self.peak.as_ref().and_then(|file| number(file.read(buffer)?)),
            oom_kills: self.events.as_ref().and_then(|file| line(file.read(buffer)?, "oom_kill")),
            limit_is_host: max.map_or(Some(true), |max| total.map(|total| max >= total)),
        }
    }
}

impl CpuFiles {
    fn open(group: &Group, usage: Option<&Group>, buffer: &mut Vec<u8>) -> Self {
        let quotas = group.levels.iter().enumerate().filter_map(|(index, folder)| {
            let (quota, period) = match group.version {
                1 => ("cpu.cfs_quota_us", Some("cpu.cfs_period_us")),
                _ => ("cpu.max", None),
            };
            let files = QuotaFiles {
                quota: Held::open(&folder.join(quota))?,
                period: period.and_then(|period| Held::open(&folder.join(period))),
                stat: Held::open(&folder.join("cpu.stat")),
            };
            (index == 0 || files.read(buffer).is_some()).then_some(files)
        });
        let quotas = quotas.collect();
        let usage = match (group.version, usage) {
            (1, Some(group)) => {
                innermost(group, "cpuacct.usage").map(|file| (file, Usage::Nanoseconds))
            }
            (1, None) => None,
            _ => innermost(group, "cpu.stat").map(|file| (file, Usage::Line)),
        };
        Self { usage, quotas }
    }

    fn read(&self, buffer: &mut Vec<u8>) -> ContainerCpu {
        let usage_us = self.usage.as_ref().and_then(|(file, kind)| {
            let bytes = file.read(buffer)?;
            match kind {
                Usage::Nanoseconds => number(bytes).map(|ns| ns / 1000),
                Usage::Line => line(bytes, "usage_usec"),
            }
        });
        let mut cpu = ContainerCpu { usage_us, ..ContainerCpu::default() };
        let limited = self.quotas.iter().filter_map(|files| Some((files, files.read(buffer)?)));
        let cpus = |(quota, period): (u64, u64)| quota as f64 / period as f64;
        let tightest = limited.min_by(|a, b| cpus(a.1).total_cmp(&cpus(b.1)));
        if let Some((_, (quota, period))) = tightest {
            cpu.quota_us = Some(quota);
            cpu.period_us = Some(period);
            cpu.quota_cpus = Some(cpus((quota, period)));
        }
        // The group that sets the quota is the one that is held back.
        let holds_back = tightest.map(|(files, _)| files).or(self.quotas.first());
        let stat = holds_back.and_then(|files| files.stat.as_ref());
        if let Some(bytes) = stat.and_then(|file| file.read(buffer)) {
            cpu.periods = line(bytes, "nr_periods");
            cpu.throttled_periods = line(bytes, "nr_throttled");
            cpu.throttled_us = line(bytes, "throttled_usec")
                .or_else(|| line(bytes, "throttled_time").map(|ns| ns / 1000));
        }
        cpu
    }
}

impl QuotaFiles {
    /// Quota and period, if there is a limit.
    fn read(&self, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
        let mut words = str::from_utf8(self.quota.read(buffer)?).ok()?.split_ascii_whitespace();
        let quota = words.next()?.parse().ok()?;
        let beside = words.next().and_then(|word| word.parse().ok());
        let period = match &self.period {
            Some(file) => number(file.read(buffer)?)?,
            None => beside?,
        };
        (period > 0).then_some((quota, period))
    }
}

impl PidsFiles {
    fn open(group: &Group, buffer: &mut Vec<u8>) -> Self {
        Self { current: innermost(group, "pids.current"), max: limits(group, "pids.max", buffer) }
    }

    fn read(&self, buffer: &mut Vec<u8>) -> ContainerPids {
        ContainerPids {
            current: self.current.as_ref().and_then(|file| number(file.read(buffer)?)),
            max: smallest(&self.max, buffer),
        }
    }
}

/// A file of the group, or of the nearest one around it for which the controller is on: that is where the kernel counts.
fn innermost(group: &Group, name: &str) -> Option<Held> {
    group.levels.iter().find_map(|folder| Held::open(&folder.join(name)))
}

/// The files of the group itself, and of those around it that set a limit.
fn limits(group: &Group, name: &str, buffer: &mut Vec<u8>) -> Vec<Held> {
    let mut open = |(index, folder): (usize, &PathBuf)| {
        let file = Held::open(&folder.join(name))?;
        (index == 0 || limit(file.read(buffer)?).is_some()).then_some(file)
    };
    group.levels.iter().enumerate().filter_map(&mut open).collect()
}

fn open_cpuset(group: &Group) -> Option<Held> {
    // Even the root says which processors there are.
    let folders = || group.levels.iter().chain([&group.own]);
    let open = |name: &str| folders().find_map(|folder| Held::open(&folder.join(name)));
    match group.version {
        1 => open("cpuset.effective_cpus").or_else(|| open("cpuset.cpus")),
        _ => open("cpuset.cpus.effective"),
    }
}

fn smallest(files: &[Held], buffer: &mut Vec<u8>) -> Option<u64> {
    files.iter().filter_map(|file| limit(file.read(buffer)?)).min()
}

/// A limit; `max`, and what version 1 writes for it, is none.
fn limit(bytes: &[u8]) -> Option<u64> {
    number(bytes).filter(|limit| *limit < NO_LIMIT)
}

fn number(bytes: &[u8]) -> Option<u64> {
    str::from_utf8(bytes).ok()?.trim_ascii().parse().ok()
}

/// The number after a name, in a file with a line each.
fn line(bytes: &[u8], name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim_ascii().parse().ok();
    str::from_utf8(bytes).ok()?.lines().find_map(value)
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?.trim_ascii();
    (!text.is_empty()).then(|| text.to_owned())
}

fn memory_total(root: &Root) -> Option<u64> {
    let text = root.read("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
