//! A process in a real control group sees its limits.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runlore::telemetry::{Container, ContainerReader};

use crate::support;

/// A group that goes when the test ends.
struct Group(PathBuf);

impl Group {
    /// Makes a group in a hierarchy and sets limits; none where that is not allowed.
    fn new(parent: &Path, limits: &[(&str, &str)]) -> Option<Self> {
        let path = parent.join(format!("runlore-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        let set = |(file, text): &(&str, &str)| fs::write(group.0.join(file), text).is_ok();
        limits.iter().all(set).then_some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may need a moment to forget a process that has ended.
        let began = Instant::now();
        while fs::remove_dir(&self.0).is_err() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where this process's group of a controller is; for version 2 the root, whose groups may be divided further.
fn folder_of(controller: &str) -> Option<(u8, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = |kind: &str, option: &str| {
        let line = mounts.lines().find(|line| {
            let system = line.split_once(" - ").map_or("", |(_, system)| system);
            let mut words = system.split(' ');
            words.next() == Some(kind)
                && words
                    .next_back()
                    .is_some_and(|o| option.is_empty() || o.split(',').any(|o| o == option))
        })?;
        let mut words = line.split(' ').skip(3);
        (words.next()? == "/").then(|| PathBuf::from(words.next().unwrap()))
    };
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of_v1 = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next()?.split(',').any(|name| name == controller).then_some(fields.next()?)
    });
    if let Some(path) = of_v1 {
        return Some((1, mount("cgroup", controller)?.join(path.trim_start_matches('/'))));
    }
    let root = mount("cgroup2", "")?;
    let on = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
    on.split_whitespace().any(|name| name == controller).then_some((2, root))
}

/// Runs this test again inside of groups, and returns what it says of its container. None where it may not join them.
fn inside(test: &str, groups: &[&Group]) -> Option<Container> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("container.json");
    let mut child = support::child(test);
    let groups: Vec<&str> = groups.iter().map(|group| group.0.to_str().unwrap()).collect();
    child.env("RUNLORE_TEST_GROUPS", groups.join("\n")).env("RUNLORE_TEST_FILE", &file);
    support::expect_success(&support::finished_in_time(child));
    Some(serde_json::from_str(&fs::read_to_string(file).ok()?).unwrap())
}

/// What the child does: it joins the groups, works until it is held back, and says what it sees.
fn join_and_tell() {
    for group in std::env::var("RUNLORE_TEST_GROUPS").unwrap().lines() {
        if let Err(error) = fs::write(Path::new(group).join("cgroup.procs"), "0") {
            return eprintln!("{group} may not be joined: {error}");
        }
    }
    let reader = ContainerReader::open().unwrap();
    let buffer = &mut Vec::new();
    // The time is counted when the group may go on, after the period.
    while reader.numbers(buffer).cpu.throttled_us == Some(0) {
        std::hint::black_box((0..1_000_000_u64).sum::<u64>());
    }
    let said = serde_json::to_string(&reader.read(buffer)).unwrap();
    fs::write(std::env::var("RUNLORE_TEST_FILE").unwrap(), said).unwrap();
}

#[test]
fn limits_of_a_real_group_are_seen() {
    const TEST: &str = "container::limits_of_a_real_group_are_seen";
    const WHAT: &str = "limits of a real control group";
    if support::is_child(TEST) {
        return join_and_tell();
    }
    let memory = folder_of("memory");
    let (container, version) = match (folder_of("cpu"), folder_of("pids")) {
        (Some((1, cpu)), Some((1, pids))) => {
            let cpu =
                Group::new(&cpu, &[("cpu.cfs_quota_us", "20000"), ("cpu.cfs_period_us", "100000")]);
            let pids = Group::new(&pids, &[("pids.max", "64")]);
            let (Some(cpu), Some(pids)) = (cpu, pids) else {
                return support::skipped(WHAT, "control groups may not be made here");
            };
            (inside(TEST, &[&cpu, &pids]), 1)
        }
        (Some((2, root)), Some((2, _))) if memory == Some((2, root.clone())) => {
            let limits =
                [("cpu.max", "20000 100000"), ("pids.max", "64"), ("memory.max", "268435456")];
            let Some(group) = Group::new(&root, &limits) else {
                return support::skipped(WHAT, "control groups may not be made here");
            };
            (inside(TEST, &[&group]), 2)
        }
        _ => return support::skipped(WHAT, "no hierarchy of control groups can be divided here"),
    };
    let Some(container) = container else {
        return support::skipped(WHAT, "control groups may not be joined here");
    };
    assert_eq!(container.version, version);
    assert_eq!(container.cpu.quota_us, Some(20_000));
    assert_eq!(container.cpu.quota_cpus, Some(0.2));
    assert!(
        container.cpu.throttled_periods.unwrap() > 0 && container.cpu.throttled_us.unwrap() > 0
    );
    assert_eq!(container.pids.max, Some(64));
    assert!((1..=64).contains(&container.pids.current.unwrap()), "{container:?}");
    if version == 2 {
        assert!(container.path.contains("runlore-test-"), "{container:?}");
        assert_eq!(container.memory.max, Some(256 << 20));
        assert!(
            container.memory.current.unwrap() > 0 && container.memory.limit_is_host == Some(false)
        );
        assert!(container.cpu.usage_us.unwrap() > 0);
    }
}
