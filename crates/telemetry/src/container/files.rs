//! The open files of a container, and their parsers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::find::{Group, Groups};
use super::{Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, kind};
use crate::linux::ProcFile;
use crate::meminfo::Meminfo;
use crate::root::Root;
use crate::scan::Scan;

/// Version 1 reports "no limit" as a number near 2^63. No machine has as much memory as this bound.
const NO_LIMIT: u64 = 1 << 60;

#[derive(Debug)]
pub(super) struct Files {
    version: u8,
    path: String,
    kind: ContainerKind,
    unavailable: BTreeMap<String, String>,
    /// Memory of the machine.
    memory_total: Option<u64>,
    memory: Option<MemoryFiles>,
    cpu: CpuFiles,
    pids: PidsFiles,
    cpuset: Option<ProcFile>,
}

#[derive(Debug)]
struct MemoryFiles {
    current: Option<ProcFile>,
    peak: Option<ProcFile>,
    events: Option<ProcFile>,
    max: Vec<ProcFile>,
    high: Vec<ProcFile>,
}

#[derive(Debug, Default)]
struct CpuFiles {
    usage: Option<(ProcFile, Usage)>,
    /// Innermost first.
    quotas: Vec<QuotaFiles>,
}

/// Format of the file with the used CPU time.
#[derive(Debug, Clone, Copy)]
enum Usage {
    /// `cpuacct.usage`: nanoseconds.
    Nanoseconds,
    /// `cpu.stat`: a line with microseconds.
    Line,
}

#[derive(Debug)]
struct QuotaFiles {
    quota: ProcFile,
    /// Only version 1 has a separate file for the period.
    period: Option<ProcFile>,
    throttling: Throttling,
}

/// The file with the throttling counters.
#[derive(Debug)]
enum Throttling {
    /// The same file as the CPU usage.
    WithUsage,
    Apart(Option<ProcFile>),
}

/// The limits of a container, which change seldom.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Only the fields that are limits are set.
    numbers: ContainerNumbers,
    /// Index of the cgroup with the tightest quota, counted from the innermost.
    tightest: usize,
}

impl Limits {
    /// Returns the memory limits.
    pub(crate) fn memory(&self) -> ContainerMemory {
        self.numbers.memory
    }
}

#[derive(Debug, Default)]
struct PidsFiles {
    current: Option<ProcFile>,
    max: Vec<ProcFile>,
}

impl Files {
    /// Finds the container of this process, or returns why there is none.
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

    /// Returns the files of a container that no longer exists: none, with the reason.
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

    /// Reads limits and usage.
    pub(super) fn numbers(&self, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let limits = self.limits(buffer);
        self.numbers_within(&limits, buffer)
    }

    /// Reads the limits.
    pub(super) fn limits(&self, buffer: &mut Vec<u8>) -> Limits {
        let mut limits = Limits::default();
        if let Some(files) = &self.memory {
            limits.numbers.memory = files.limits(self.memory_total, buffer);
        }
        (limits.numbers.cpu, limits.tightest) = self.cpu.limits(buffer);
        limits.numbers.pids.max = smallest(&self.pids.max, buffer);
        limits
    }

    /// Reads only the memory in use.
    pub(super) fn memory_used(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        parsed(self.memory.as_ref()?.current.as_ref(), buffer, number)
    }

    /// Reads the inactive file cache. That is seldom needed, so the file is not kept open.
    pub(super) fn memory_cache(&self, _: &mut Vec<u8>) -> Option<u64> {
        let folder = self.memory.as_ref()?.current.as_ref()?.path().parent()?;
        let text = std::fs::read(folder.join("memory.stat")).ok()?;
        // In version 1 the plain name excludes descendant cgroups.
        line(&text, b"total_inactive_file ").or_else(|| line(&text, b"inactive_file "))
    }

    /// Reads the usage and adds it to limits that were read before.
    pub(super) fn numbers_within(&self, limits: &Limits, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let mut numbers = limits.numbers;
        if let Some(files) = &self.memory {
            files.read_usage(&mut numbers.memory, buffer);
        }
        self.cpu.read_usage(&mut numbers.cpu, limits.tightest, buffer);
        numbers.pids.current = parsed(self.pids.current.as_ref(), buffer, number);
        numbers
    }

    /// Adds the description to the numbers.
    pub(super) fn describe(&self, numbers: ContainerNumbers, buffer: &mut Vec<u8>) -> Container {
        let ContainerNumbers { memory, cpu, pids } = numbers;
        let cpuset = self.cpuset(buffer);
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

    /// Reads the CPUs. They are seldom needed, so the file is not kept open.
    fn cpuset(&self, buffer: &mut Vec<u8>) -> Option<String> {
        let file = self.cpuset.as_ref();
        let cpus = parsed(file, buffer, text);
        file.inspect(|file| file.release());
        cpus
    }

    /// Calls `see` with the descriptor of each open file.
    pub(super) fn each_descriptor(&self, mut see: impl FnMut(i32)) {
        let memory = self.memory.iter().flat_map(|files| {
            let single = [&files.current, &files.peak, &files.events].into_iter().flatten();
            single.chain(&files.max).chain(&files.high)
        });
        let usage = self.cpu.usage.iter().map(|(file, _)| file);
        let quotas = self.cpu.quotas.iter().flat_map(|quota| {
            let throttling = match &quota.throttling {
                Throttling::Apart(file) => file.as_ref(),
                Throttling::WithUsage => None,
            };
            std::iter::once(&quota.quota).chain(&quota.period).chain(throttling)
        });
        let pids = self.pids.current.iter().chain(&self.pids.max);
        let all = memory.chain(usage).chain(quotas).chain(pids).chain(&self.cpuset);
        all.filter_map(ProcFile::number).for_each(&mut see);
    }

    /// Whether a file that was readable no longer is: its descriptor was closed, or the cgroup is
    /// gone.
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

    /// Records the reasons for missing values. A part that was not found has one reason; of the
    /// other parts, single files may be missing.
    fn say_what_is_missing(&mut self, parts: BTreeMap<String, String>, buffer: &mut Vec<u8>) {
        let numbers = self.numbers(buffer);
        let cpuset = self.cpuset(buffer);
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

    fn limits(&self, total: Option<u64>, buffer: &mut Vec<u8>) -> ContainerMemory {
        let max = smallest(&self.max, buffer);
        ContainerMemory {
            max,
            high: smallest(&self.high, buffer),
            limit_is_host: max.map_or(Some(true), |max| total.map(|total| max >= total)),
            ..ContainerMemory::default()
        }
    }

    fn read_usage(&self, memory: &mut ContainerMemory, buffer: &mut Vec<u8>) {
        memory.current = parsed(self.current.as_ref(), buffer, number);
        memory.peak = parsed(self.peak.as_ref(), buffer, number);
        let oom_kills = |text: &[u8]| line(text, b"oom_kill ");
        memory.oom_kills = parsed(self.events.as_ref(), buffer, oom_kills);
    }
}

impl CpuFiles {
    fn open(group: &Group, usage: Option<&Group>, buffer: &mut Vec<u8>) -> Self {
        let usage = match (group.version, usage) {
            (1, Some(group)) => {
                innermost(group, "cpuacct.usage").map(|file| (file, Usage::Nanoseconds))
            }
            (1, None) => None,
            _ => innermost(group, "cpu.stat").map(|file| (file, Usage::Line)),
        };
        let quotas = group.levels.iter().enumerate().filter_map(|(index, folder)| {
            let (quota, period) = match group.version {
                1 => ("cpu.cfs_quota_us", Some("cpu.cfs_period_us")),
                _ => ("cpu.max", None),
            };
            let quota = ProcFile::existing(folder.join(quota))?;
            let stat = folder.join("cpu.stat");
            let files = QuotaFiles {
                quota,
                period: period.and_then(|period| ProcFile::existing(folder.join(period))),
                throttling: match &usage {
                    Some((file, _)) if file.path() == stat => Throttling::WithUsage,
                    _ => Throttling::Apart(ProcFile::existing(stat)),
                },
            };
            (index == 0 || files.read(buffer).is_some()).then_some(files)
        });
        let quotas = quotas.collect();
        Self { usage, quotas }
    }

    /// Returns the tightest quota and the index of its cgroup. The index is 0, the innermost, if
    /// there is no quota.
    fn limits(&self, buffer: &mut Vec<u8>) -> (ContainerCpu, usize) {
        let cpus = |(quota, period): (u64, u64)| quota as f64 / period as f64;
        let all = self.quotas.iter().enumerate();
        let limited = all.filter_map(|(index, files)| Some((index, files.read(buffer)?)));
        let tightest = limited.min_by(|a, b| cpus(a.1).total_cmp(&cpus(b.1)));
        let Some((index, (quota, period))) = tightest else { return Default::default() };
        let cpu = ContainerCpu {
            quota_us: Some(quota),
            period_us: Some(period),
            quota_cpus: Some(cpus((quota, period))),
            ..ContainerCpu::default()
        };
        (cpu, index)
    }

    fn read_usage(&self, cpu: &mut ContainerCpu, tightest: usize, buffer: &mut Vec<u8>) {
        // The cgroup with the tightest quota is the one that is throttled.
        let throttling = self.quotas.get(tightest).map(|files| &files.throttling);
        match &self.usage {
            Some((file, Usage::Nanoseconds)) => {
                cpu.usage_us = parsed(Some(file), buffer, number).map(|ns| ns / 1000);
            }
            Some((file, Usage::Line)) => {
                let found = parsed(Some(file), buffer, |text| {
                    let usage_us = Some(line(text, b"usage_usec ")?);
                    let mut found = ContainerCpu { usage_us, ..*cpu };
                    if let Some(Throttling::WithUsage) = throttling {
                        read_throttling(&mut found, text);
                    }
                    Some(found)
                });
                *cpu = found.unwrap_or(*cpu);
            }
            None => {}
        }
        if let Some(Throttling::Apart(Some(file))) = throttling {
            parsed(Some(file), buffer, |text| {
                read_throttling(cpu, text);
                Some(())
            });
        }
    }
}

fn read_throttling(cpu: &mut ContainerCpu, bytes: &[u8]) {
    cpu.periods = line(bytes, b"nr_periods ");
    cpu.throttled_periods = line(bytes, b"nr_throttled ");
    cpu.throttled_us = line(bytes, b"throttled_usec ")
        .or_else(|| line(bytes, b"throttled_time ").map(|ns| ns / 1000));
}

impl QuotaFiles {
    /// Reads quota and period. `None` if there is no limit.
    fn read(&self, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
        let (quota, period) = parsed(Some(&self.quota), buffer, |text| {
            let mut words = Scan::new(text);
            Some((words.number(), words.number()))
        })?;
        let quota = quota?;
        let period = match &self.period {
            Some(file) => parsed(Some(file), buffer, number)?,
            None => period?,
        };
        (period > 0).then_some((quota, period))
    }
}

impl PidsFiles {
    fn open(group: &Group, buffer: &mut Vec<u8>) -> Self {
        Self { current: innermost(group, "pids.current"), max: limits(group, "pids.max", buffer) }
    }
}

/// Opens a file of the cgroup. If the controller is off there, opens that of the nearest ancestor
/// where it is on, because that is where the kernel counts.
fn innermost(group: &Group, name: &str) -> Option<ProcFile> {
    group.levels.iter().find_map(|folder| ProcFile::existing(folder.join(name)))
}

/// Opens the limit files of the cgroup and of those ancestors that set a limit.
fn limits(group: &Group, name: &str, buffer: &mut Vec<u8>) -> Vec<ProcFile> {
    let mut open = |(index, folder): (usize, &PathBuf)| {
        let file = ProcFile::existing(folder.join(name))?;
        (index == 0 || limit(&file, buffer).is_some()).then_some(file)
    };
    group.levels.iter().enumerate().filter_map(&mut open).collect()
}

fn open_cpuset(group: &Group) -> Option<ProcFile> {
    // Even the root lists its CPUs.
    let folders = || group.levels.iter().chain([&group.own]);
    let open = |name: &str| folders().find_map(|folder| ProcFile::existing(folder.join(name)));
    match group.version {
        1 => open("cpuset.effective_cpus").or_else(|| open("cpuset.cpus")),
        _ => open("cpuset.cpus.effective"),
    }
}

fn smallest(files: &[ProcFile], buffer: &mut Vec<u8>) -> Option<u64> {
    files.iter().filter_map(|file| limit(file, buffer)).min()
}

/// Reads a limit. `None` for `max` and for its equivalent in version 1.
fn limit(file: &ProcFile, buffer: &mut Vec<u8>) -> Option<u64> {
    let limit = parsed(Some(file), buffer, |text| Some(number(text)))?;
    limit.filter(|limit| *limit < NO_LIMIT)
}

/// Reads a file, if there is one. Most of these files contain one number, and so may a file that
/// was given the same descriptor.
fn parsed<T>(
    file: Option<&ProcFile>,
    buffer: &mut Vec<u8>,
    parse: impl FnMut(&[u8]) -> Option<T>,
) -> Option<T> {
    file?.read_checked(buffer, parse).ok()
}

fn number(bytes: &[u8]) -> Option<u64> {
    let mut scan = Scan::new(bytes);
    let number = scan.number()?;
    scan.rest().trim_ascii().is_empty().then_some(number)
}

/// Finds the line that starts with `name` and parses the number after it.
fn line(bytes: &[u8], name: &[u8]) -> Option<u64> {
    let mut scan = Scan::new(bytes);
    while !scan.skip(name) {
        if !scan.next_line() {
            return None;
        }
    }
    scan.number()
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?.trim_ascii();
    (!text.is_empty()).then(|| text.to_owned())
}

fn memory_total(root: &Root) -> Option<u64> {
    Meminfo::parse(root.read("/proc/meminfo").ok()?.as_bytes()).total
}
