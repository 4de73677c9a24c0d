//! Containers of all kinds, as directories of files.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::{ContainerKind, ContainerReader};
use crate::root::{Root, fixture};

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:    16777216 kB\n");

fn open(folder: &TempDir) -> Result<ContainerReader, String> {
    ContainerReader::below(Root::folder(folder.path()))
}

/// Reads the container in a directory, in the form that records have.
fn told(folder: &TempDir) -> serde_json::Value {
    serde_json::to_value(open(folder).unwrap().read(&mut Vec::new())).unwrap()
}

/// A cgroup of version 2, three levels deep, with limits on the slice and on the scope.
fn limited_by_its_slice() -> TempDir {
    fixture(&[
        MEMINFO,
        ("/proc/self/cgroup", "0::/jobs.slice/job-7.scope/step\n"),
        ("/proc/self/mountinfo", V2),
        ("/sys/fs/cgroup/cgroup.procs", ""),
        ("/sys/fs/cgroup/cpu.stat", "usage_usec 999999999\n"),
        ("/sys/fs/cgroup/jobs.slice/cgroup.events", "populated 1\n"),
        ("/sys/fs/cgroup/jobs.slice/memory.current", "4000000000\n"),
        ("/sys/fs/cgroup/jobs.slice/memory.max", "8589934592\n"),
        ("/sys/fs/cgroup/jobs.slice/memory.high", "6442450944\n"),
        ("/sys/fs/cgroup/jobs.slice/cpu.max", "150000 100000\n"),
        (
            "/sys/fs/cgroup/jobs.slice/cpu.stat",
            "usage_usec 5000\nnr_periods 40\nnr_throttled 4\nthrottled_usec 700\n",
        ),
        ("/sys/fs/cgroup/jobs.slice/pids.max", "100\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/cgroup.events", "populated 1\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/memory.current", "2000000\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/memory.peak", "3000000\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/memory.events", "low 0\noom 3\noom_kill 2\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/memory.max", "max\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/memory.high", "max\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/pids.max", "max\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/cpu.max", "400000 100000\n"),
        // The memory controller is off at this level, so the parent's usage counts.
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/step/cgroup.events", "populated 1\n"),
        (
            "/sys/fs/cgroup/jobs.slice/job-7.scope/step/cpu.stat",
            "usage_usec 1234\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        ),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/step/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/step/pids.current", "5\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/step/pids.max", "max\n"),
        ("/sys/fs/cgroup/jobs.slice/job-7.scope/step/cpuset.cpus.effective", "0-3,8\n"),
    ])
}

#[test]
fn the_smallest_limit_around_the_group_holds() {
    assert_eq!(
        told(&limited_by_its_slice()),
        json!({
            "version": 2,
            "path": "/jobs.slice/job-7.scope/step",
            "kind": "unknown",
            "memory": {
                "current": 2_000_000,
                "max": 8_589_934_592_u64,
                "high": 6_442_450_944_u64,
                "peak": 3_000_000,
                "oom_kills": 2,
                "limit_is_host": false,
            },
            "cpu": {
                "quota_us": 150_000,
                "period_us": 100_000,
                "quota_cpus": 1.5,
                "periods": 40,
                "throttled_periods": 4,
                "throttled_us": 700,
                "usage_us": 1234,
            },
            "pids": { "current": 5, "max": 100 },
            "cpuset": "0-3,8",
        })
    );
}

#[test]
fn in_a_namespace_the_group_is_the_root_that_is_shown() {
    let folder = fixture(&[
        MEMINFO,
        ("/.dockerenv", ""),
        ("/proc/self/cgroup", "0::/\n"),
        ("/proc/self/mountinfo", V2),
        ("/sys/fs/cgroup/cgroup.events", "populated 1\n"),
        ("/sys/fs/cgroup/memory.current", "1000\n"),
        ("/sys/fs/cgroup/memory.max", "2000\n"),
        ("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n"),
        ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/pids.max", "max\n"),
    ]);
    let reason = "the kernel has no such file for this group, or it says no number";
    assert_eq!(
        told(&folder),
        json!({
            "version": 2,
            "path": "/",
            "kind": "docker",
            "memory": { "current": 1000, "max": 2000, "limit_is_host": false },
            "cpu": { "usage_us": 7 },
            "pids": {},
            "unavailable": {
                "memory.peak": reason,
                "memory.oom_kills": reason,
                "cpu.throttled_us": reason,
                "pids.current": reason,
                "cpuset": reason,
            },
        })
    );
}

#[test]
fn a_mount_may_show_only_the_group_itself_or_more() {
    let group = "/kubepods/pod1/c1";
    let files = |mounts: &str| {
        fixture(&[
            ("/proc/self/cgroup", "0::/kubepods/pod1/c1\n"),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/cgroup.events", ""),
            ("/sys/fs/cgroup/memory.max", "300\n"),
            ("/mnt/all groups/kubepods/cgroup.events", ""),
            ("/mnt/all groups/kubepods/memory.max", "200\n"),
            ("/mnt/all groups/kubepods/pod1/c1/cgroup.events", ""),
            ("/mnt/all groups/kubepods/pod1/c1/memory.max", "300\n"),
        ])
    };
    let own = format!("30 23 0:26 {group} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    let all = "31 23 0:26 / /mnt/all\\040groups rw - cgroup2 cgroup2 rw\n";
    let around = "32 23 0:26 /../.. /mnt/all\\040groups rw - cgroup2 cgroup2 rw\n";
    for (mounts, max) in [
        (own.clone(), Some(300)),
        (format!("{own}{all}"), Some(200)),
        (format!("{all}{own}"), Some(200)),
        (format!("{around}{own}"), Some(300)),
        (around.to_owned(), None),
        (own.replace("/sys/fs/cgroup", "/nowhere"), None),
    ] {
        let container = open(&files(&mounts)).unwrap().read(&mut Vec::new());
        assert_eq!(container.memory.max, max, "{mounts}");
        assert_eq!(container.kind, ContainerKind::Kubernetes);
        assert_eq!(container.path, group);
        assert_eq!(container.unavailable.contains_key("memory"), max.is_none(), "{mounts}");
        // These files do not contain the machine's memory.
        assert_eq!(container.memory.limit_is_host, None, "{mounts}");
    }
}

const V1: &str = "\
31 28 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 31 0:31 /docker/ab /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
35 31 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

#[test]
fn version_1_has_a_hierarchy_for_each_controller() {
    let files = [
        MEMINFO,
        (
            "/proc/self/cgroup",
            "9:name=systemd:/docker/ab\n4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n1:pids:/\n",
        ),
        ("/proc/self/mountinfo", V1),
        ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"),
        ("/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "2000\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "5999\n"),
        (
            "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
            "nr_periods 9\nnr_throttled 3\nthrottled_time 7000\n",
        ),
        ("/sys/fs/cgroup/pids/cgroup.sane_behavior", "0\n"),
        ("/sys/fs/cgroup/pids/pids.max", "7\n"),
    ];
    let folder = fixture(&files);
    let reader = open(&folder).unwrap();
    assert_eq!(
        serde_json::to_value(reader.read(&mut Vec::new())).unwrap(),
        json!({
            "version": 1,
            "path": "/docker/ab",
            "kind": "docker",
            "memory": { "current": 1000, "peak": 2000, "oom_kills": 1, "limit_is_host": true },
            "cpu": {
                "periods": 9, "throttled_periods": 3, "throttled_us": 7, "usage_us": 5,
            },
            "pids": {},
            "unavailable": {
                "pids": "the process is in the root of this hierarchy, which is the whole machine",
                "cpuset": "the kernel has no such file for this group, or it says no number",
            },
        })
    );

    // A limit that is set later is visible.
    let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text).unwrap();
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "17179869184");
    write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000");
    let numbers = reader.numbers(&mut Vec::new());
    assert_eq!(numbers.memory.max, Some(16 << 30));
    assert_eq!(numbers.memory.limit_is_host, Some(true), "the machine has no more");
    assert_eq!((numbers.cpu.quota_us, numbers.cpu.quota_cpus), (Some(25_000), Some(0.25)));
}

#[test]
fn in_a_hybrid_each_controller_is_where_it_was_put() {
    let folder = fixture(&[
        MEMINFO,
        ("/proc/self/cgroup", "3:memory:/lxc.payload.web\n1:name=systemd:/\n0::/lxc.payload.web\n"),
        (
            "/proc/self/mountinfo",
            "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("/sys/fs/cgroup/memory/cgroup.sane_behavior", "0\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "77\n"),
        ("/sys/fs/cgroup/memory/lxc.payload.web/memory.limit_in_bytes", "5000\n"),
        ("/sys/fs/cgroup/unified/lxc.payload.web/cgroup.events", ""),
        ("/sys/fs/cgroup/unified/lxc.payload.web/pids.max", "50\n"),
        ("/sys/fs/cgroup/unified/lxc.payload.web/cpu.max", "5000 10000\n"),
    ]);
    let container = open(&folder).unwrap().read(&mut Vec::new());
    assert_eq!((container.version, container.kind), (1, ContainerKind::Lxc));
    assert_eq!(container.memory.max, Some(5000), "the root's number is the machine's");
    assert_eq!(container.pids.max, Some(50));
    assert_eq!(container.cpu.quota_cpus, Some(0.5));
}

#[test]
fn no_container_is_a_reason() {
    let nothing = fixture(&[]);
    assert!(open(&nothing).unwrap_err().starts_with("/proc/self/cgroup: "));
    let no_mounts = fixture(&[("/proc/self/cgroup", "0::/\n")]);
    assert!(open(&no_mounts).unwrap_err().starts_with("/proc/self/mountinfo: "));
    let empty = fixture(&[("/proc/self/cgroup", "\n"), ("/proc/self/mountinfo", V2)]);
    assert_eq!(open(&empty).unwrap_err(), "/proc/self/cgroup names no control group");
    let root = fixture(&[
        ("/proc/self/cgroup", "0::/\n"),
        ("/proc/self/mountinfo", V2),
        ("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n"),
    ]);
    assert!(open(&root).unwrap_err().starts_with("the process is in no container"));
}

#[test]
fn the_path_or_a_mark_tells_the_kind() {
    let kind = |path: &str, mark: &str, text: &str| {
        let membership = format!("0::{path}\n");
        let folder = fixture(&[
            ("/proc/self/cgroup", membership.as_str()),
            ("/proc/self/mountinfo", ""),
            (mark, text),
        ]);
        open(&folder).map(|reader| reader.read(&mut Vec::new()).kind).ok()
    };
    use ContainerKind as Kind;
    for (path, expected) in [
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-1f.scope", Kind::Kubernetes),
        ("/kubepods/besteffort/pod1/docker-1f.scope", Kind::Kubernetes),
        ("/docker/1f", Kind::Docker),
        ("/system.slice/docker-1f.scope", Kind::Docker),
        ("/machine.slice/libpod-1f.scope/container", Kind::Podman),
        ("/lxc.payload.web", Kind::Lxc),
        ("/machine.slice/systemd-nspawn@web.service/payload", Kind::SystemdNspawn),
        ("/slurm/uid_0/job_1/step_0", Kind::Slurm),
        ("/system.slice/slurmstepd.scope/job_1/step_0/user/task_0", Kind::Slurm),
        ("/user.slice/user-1000.slice/session-2.scope", Kind::Unknown),
        ("/system.slice/docker.service", Kind::Unknown),
    ] {
        assert_eq!(kind(path, "/mark", ""), Some(expected), "{path}");
    }
    for (mark, text, expected) in [
        ("/.dockerenv", "", Some(Kind::Docker)),
        ("/run/.containerenv", "", Some(Kind::Podman)),
        ("/run/systemd/container", "systemd-nspawn\n", Some(Kind::SystemdNspawn)),
        ("/run/systemd/container", "wsl\n", Some(Kind::Unknown)),
        ("/var/run/secrets/kubernetes.io/token", "", Some(Kind::Kubernetes)),
        ("/etc/hostname", "docker", None),
    ] {
        assert_eq!(kind("/", mark, text), expected, "{mark}");
    }
}

#[test]
fn after_forgetting_the_files_are_found_anew() {
    let folder = limited_by_its_slice();
    let reader = open(&folder).unwrap();
    let buffer = &mut Vec::new();
    assert_eq!(reader.numbers(buffer).pids.current, Some(5));
    let held = reader.descriptors();
    assert!(held > 10, "{held}");

    // As if the process had moved to another cgroup.
    let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text).unwrap();
    write("proc/self/cgroup", "0::/jobs.slice\n");
    assert_eq!(reader.read(buffer).path, "/jobs.slice/job-7.scope/step");
    reader.forget();
    let moved = reader.read(buffer);
    assert_eq!((moved.path.as_str(), moved.memory.current), ("/jobs.slice", Some(4_000_000_000)));
    assert!(reader.descriptors() < held);

    // As if the process were no longer in a cgroup.
    std::fs::remove_file(folder.path().join("proc/self/cgroup")).unwrap();
    reader.forget();
    let gone = reader.read(buffer);
    assert_eq!(gone.memory.current, None);
    assert!(gone.unavailable["container"].starts_with("/proc/self/cgroup: "), "{gone:?}");
    assert_eq!(reader.descriptors(), 0);
}

#[test]
fn what_is_read_comes_back_from_a_record() {
    let container = open(&limited_by_its_slice()).unwrap().read(&mut Vec::new());
    let text = serde_json::to_string(&container).unwrap();
    assert_eq!(serde_json::from_str::<super::Container>(&text).unwrap(), container);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invalid files make values missing, but never cause a panic or an impossible limit.
    #[test]
    fn garbage_is_survived(
        groups in "([0-9]{0,3}:?(memory|cpu|,|)?:(/|\\.\\.|a|\u{0}| |\\\\){0,6}\n){0,4}",
        mounts in "([0-9 ]{0,6}(/|\\.\\.|a|\\\\04?0?){1,5} (/|a){1,3} - (cgroup2?|tmpfs) x (memory|cpu|rw|,){0,3}\n){0,4}",
        text in "(max|-1|[0-9]{1,25}|oom_kill|usage_usec|nr_periods| |\n|\u{fffd}){0,8}",
    ) {
        let paths = ["memory.max", "memory.current", "memory.events", "cpu.max", "cpu.stat", "cgroup.events"];
        let folder = fixture(&[("/proc/self/cgroup", &groups), ("/proc/self/mountinfo", &mounts)]);
        for place in ["", "a", "a/a", "a/a/a"] {
            let place = folder.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            for path in paths {
                std::fs::write(place.join(path), &text).unwrap();
            }
        }
        if let Ok(reader) = open(&folder) {
            let container = reader.read(&mut Vec::new());
            prop_assert!(container.memory.max.is_none_or(|max| max < 1 << 60));
            serde_json::to_string(&container).unwrap();
        }
    }
}

/// Reads a cgroup of version 2 of the running kernel, in which a process has worked. It checks only
/// the path, the CPU time and the memory controller; `tests/container.rs` checks limits where they
/// can be set.
#[test]
fn a_real_group_of_version_2_is_read() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(point) = mount.and_then(|line| line.split(' ').nth(4)) else {
        return eprintln!("not tried: no hierarchy of version 2 is mounted here");
    };
    let name = format!("runlore-unit-{}", std::process::id());
    let group = Path::new(point).join(&name);
    if let Err(error) = fs::create_dir(&group) {
        return eprintln!("not tried: no control group may be made here: {error}");
    }
    // The worker joins the cgroup, works and ends before the cgroup is read.
    const MAY_NOT_JOIN: i32 = 42;
    let work = "echo $$ > \"$0\" || exit 42; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut worker = std::process::Command::new("sh");
    let ended = worker.args(["-c", work]).arg(group.join("cgroup.procs")).status();

    let folder = fixture(&[
        MEMINFO,
        ("/proc/self/cgroup", &format!("0::/{name}\n")),
        ("/proc/self/mountinfo", "35 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ]);
    fs::create_dir_all(folder.path().join("sys/fs")).unwrap();
    std::os::unix::fs::symlink(point, folder.path().join("sys/fs/cgroup")).unwrap();
    let container = open(&folder).map(|reader| reader.read(&mut Vec::new()));
    let has_memory = group.join("memory.current").exists();
    // The kernel may need a moment to remove a process that has ended.
    for _ in 0..1000 {
        if fs::remove_dir(&group).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let ended = ended.unwrap();
    if ended.code() == Some(MAY_NOT_JOIN) {
        return eprintln!("not tried: no process may join a control group here");
    }
    assert!(ended.success());
    let container = container.unwrap();
    assert_eq!((container.version, container.path), (2, format!("/{name}")));
    assert!(container.cpu.usage_us.unwrap() > 0, "{:?}", container.cpu);
    assert_eq!(container.memory.current.is_some(), has_memory);
    let reasons = &container.unavailable;
    assert_ne!(reasons.keys().any(|what| what.starts_with("memory")), has_memory, "{reasons:?}");
}
