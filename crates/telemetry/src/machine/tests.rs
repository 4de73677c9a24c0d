//! Fictitious machines made of files, and the machine that runs the tests.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::MachineInfo;
use crate::root::{Root, fixture};
use runlore_core::settings::{Search, TelemetrySettings};

fn settings(environment: &str) -> TelemetrySettings {
    let text = format!("telemetry_capture:\n  environment: {environment}\n");
    Search::nowhere().text("settings.yaml", &text).load().settings.telemetry_capture
}

fn capture(folder: &TempDir) -> MachineInfo {
    MachineInfo::below(&Root::folder(folder.path()), &settings("[]"))
}

/// An ARM server. Its CPU fields contain numbers instead of names.
fn arm_server() -> TempDir {
    let mut cpuinfo = String::new();
    for cpu in 0..2 {
        write!(
            cpuinfo,
            "processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd aes crc32\n\
             CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n\
             CPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
        )
        .unwrap();
    }
    let cache = |cpu: u32, index: u32, facts: [&str; 4], shared: &str| {
        let [level, kind, size, ways] = facts;
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        [
            ("level", level),
            ("type", kind),
            ("size", size),
            ("ways_of_associativity", ways),
            ("coherency_line_size", "64"),
            ("shared_cpu_list", shared),
        ]
        .map(|(file, text)| (format!("{folder}/{file}"), format!("{text}\n")))
    };
    let mut files = vec![
        ("/proc/cpuinfo".to_owned(), cpuinfo),
        ("/sys/devices/system/cpu/online".to_owned(), "0-1\n".to_owned()),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq".into(), "2600000\n".into()),
        ("/sys/devices/system/cpu/cpufreq/ignored".into(), String::new()),
    ];
    for cpu in 0..2 {
        let own = cpu.to_string();
        files.extend(cache(cpu, 0, ["1", "Data", "64K", "4"], &own));
        files.extend(cache(cpu, 1, ["1", "Instruction", "64K", "4"], &own));
        files.extend(cache(cpu, 2, ["2", "Unified", "1024K", "8"], &own));
        files.extend(cache(cpu, 3, ["3", "Unified", "32M", "16"], "0-1"));
    }
    for (name, text) in [
        ("/proc/sys/kernel/ostype", "Linux"),
        ("/proc/sys/kernel/hostname", "graviton"),
        ("/proc/sys/kernel/osrelease", "6.8.0-arm"),
        ("/proc/sys/kernel/version", "#1 SMP"),
        ("/proc/sys/kernel/arch", "aarch64"),
        ("/proc/uptime", "3600.25 7000.00"),
        ("/proc/stat", "cpu 1 2 3\nbtime 1700000000\n"),
        ("/proc/vmstat", "pgfault 3\npswpin 2\npswpout 0"),
        ("/etc/passwd", "daemon:x:1:1::/:/bin/sh\nroot:x:0:0::/root:/bin/sh"),
        ("/proc/self/cgroup", "0::/"),
        ("/proc/self/mountinfo", ""),
        (
            "/proc/meminfo",
            "MemTotal: 8000000 kB\nMemFree: 1000000 kB\nMemAvailable: 6000000 kB\nBuffers: 10 kB\n\
             Cached: 1000 kB\nSwapCached: 1 kB\nActive: 70 kB\nInactive: 80 kB\nActive(anon): 7 kB\n\
             Shmem: 20 kB\nSlab: 30 kB\nSReclaimable: 24 kB\nSwapTotal: 4000 kB\nSwapFree: 3000 kB",
        ),
    ] {
        files.push((name.to_owned(), format!("{text}\n")));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    fixture(&files)
}

#[test]
#[cfg(target_os = "linux")]
fn an_arm_server_is_described() {
    let mut info = capture(&arm_server());
    // The build describes the test binary, not the fixture.
    info.build = super::Build::default();
    if crate::system_calls::page_size() != 4096 {
        info.memory.swap.sin = Some(8192);
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&info).unwrap(), @r##"
    {
      "platform": {
        "system": "Linux",
        "node": "graviton",
        "release": "6.8.0-arm",
        "version": "#1 SMP",
        "machine": "aarch64",
        "processor": "Neoverse-N1"
      },
      "cpu": {
        "arch": "ARM_8",
        "arch_string_raw": "aarch64",
        "bits": 64,
        "count": 2,
        "vendor_id_raw": "ARM",
        "brand_raw": "Neoverse-N1",
        "hz_actual_friendly": "2.6000 GHz",
        "hz_actual": [
          2600000000,
          0
        ],
        "flags": [
          "aes",
          "asimd",
          "crc32",
          "fp"
        ],
        "l1_data_cache_size": 131072,
        "l1_instruction_cache_size": 131072,
        "l2_cache_size": 2097152,
        "l2_cache_line_size": 64,
        "l2_cache_associativity": 8,
        "l3_cache_size": 33554432,
        "implementer": "0x41",
        "part": "0xd0c",
        "variant": "0x3",
        "revision": "1"
      },
      "memory": {
        "virtual": {
          "total": 8192000000,
          "available": 6144000000,
          "percent": 25.0,
          "used": 2048000000,
          "free": 1024000000,
          "active": 71680,
          "inactive": 81920,
          "buffers": 10240,
          "cached": 1048576,
          "shared": 20480,
          "slab": 30720
        },
        "swap": {
          "total": 4096000,
          "used": 1024000,
          "free": 3072000,
          "percent": 25.0,
          "sin": 8192,
          "sout": 0
        }
      },
      "disk": {},
      "network": {},
      "environment": {},
      "hostname": "graviton",
      "login_name": "root",
      "process": {},
      "kernel": {
        "release": "6.8.0-arm",
        "uptime": 3600.25,
        "booted_at": 1700000000.0
      },
      "caches": [
        {
          "level": 1,
          "kind": "data",
          "size": 65536,
          "line_size": 64,
          "ways": 4,
          "instances": 2,
          "shared_cpus": [
            "0",
            "1"
          ]
        },
        {
          "level": 1,
          "kind": "instruction",
          "size": 65536,
          "line_size": 64,
          "ways": 4,
          "instances": 2,
          "shared_cpus": [
            "0",
            "1"
          ]
        },
        {
          "level": 2,
          "kind": "unified",
          "size": 1048576,
          "line_size": 64,
          "ways": 8,
          "instances": 2,
          "shared_cpus": [
            "0",
            "1"
          ]
        },
        {
          "level": 3,
          "kind": "unified",
          "size": 33554432,
          "line_size": 64,
          "ways": 16,
          "instances": 1,
          "shared_cpus": [
            "0-1"
          ]
        }
      ],
      "build": {},
      "unavailable": {
        "build.crates": "only a workflow knows the annotated functions of its program",
        "container": "the process is in no container: its control group is the root, without limits",
        "cpu.cores": "neither the processor nor the kernel tells it",
        "cpu.family": "ARM processors have a part and a revision instead",
        "cpu.hypervisor": "the processor names none",
        "cpu.hz_advertised": "neither the processor nor the kernel tells it",
        "cpu.hz_advertised_friendly": "neither the processor nor the kernel tells it",
        "cpu.model": "ARM processors have a part and a revision instead",
        "cpu.sockets": "neither the processor nor the kernel tells it",
        "cpu.stepping": "ARM processors have a part and a revision instead",
        "cpu.usable": "neither the processor nor the kernel tells it",
        "disk": "only the machine itself can be asked",
        "network": "only the machine itself can be asked",
        "numa": "/sys/devices/system/node shows no nodes",
        "process": "only the machine itself can be asked"
      }
    }
    "##);
}

#[test]
#[cfg(target_os = "linux")]
fn memory_of_a_recorded_machine_is_what_psutil_says() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/psutil/machine");
    let golden = std::fs::read(folder.join("psutil.json")).unwrap();
    let mut golden: Value = serde_json::from_slice(&golden).unwrap();
    for counter in ["sin", "sout"] {
        // psutil assumes pages of 4 KiB.
        let counter = &mut golden["memory"]["swap"][counter];
        *counter = (counter.as_u64().unwrap() / 4096 * crate::system_calls::page_size()).into();
    }
    let ours = MachineInfo::below(&Root::folder(&folder), &settings("[]"));
    assert_eq!(serde_json::to_value(ours.memory).unwrap(), golden["memory"]);
}

#[test]
fn sockets_nodes_and_hyperthreads_are_counted() {
    let mut cpuinfo = String::new();
    // Two sockets of two cores with two threads each.
    for cpu in 0..8 {
        let (socket, core) = (cpu % 2, cpu / 2 % 2);
        write!(
            cpuinfo,
            "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
             model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz\nstepping\t: 4\n\
             cpu MHz\t\t: 1000.5\nphysical id\t: {socket}\ncore id\t\t: {core}\n\
             flags\t\t: sse fpu aperfmperf sse\nbugs\t\t:\n\n"
        )
        .unwrap();
    }
    let info = capture(&fixture(&[
        ("/proc/cpuinfo", &cpuinfo),
        ("/proc/sys/kernel/arch", "x86_64\n"),
        ("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n"),
        ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:   1024 kB\nNode 0 x: 1 kB\n"),
        ("/sys/devices/system/node/node1/cpulist", "1,3,5,7\n"),
        ("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:   2048 kB\n"),
        // A node with memory but without CPUs.
        ("/sys/devices/system/node/node10/cpulist", "\n"),
        ("/sys/devices/system/node/node10/meminfo", "Node 10 MemTotal:  4096 kB\n"),
        ("/sys/devices/system/node/possible", "0-10\n"),
    ]));
    let cpu = &info.cpu;
    assert_eq!((cpu.sockets, cpu.cores, cpu.count), (Some(2), Some(4), Some(8)));
    assert_eq!((cpu.family, cpu.model, cpu.stepping), (Some(6), Some(85), Some(4)));
    assert_eq!(cpu.vendor_id_raw.as_deref(), Some("GenuineIntel"));
    assert_eq!(cpu.hz_advertised, Some([2_400_000_000, 0]));
    assert_eq!(cpu.hz_actual, Some([1_000_500_000, 0]));
    assert_eq!(cpu.hz_actual_friendly.as_deref(), Some("1.0005 GHz"));
    assert_eq!(cpu.flags.as_ref().unwrap(), &["aperfmperf", "fpu", "sse"]);
    assert_eq!(
        serde_json::to_value(&info.numa).unwrap(),
        json!([
            { "node": 0, "cpus": "0,2,4,6", "memory": 1 << 20 },
            { "node": 1, "cpus": "1,3,5,7", "memory": 2 << 20 },
            { "node": 10, "memory": 4 << 20 },
        ])
    );
}

#[test]
fn a_clock_that_changes_is_not_taken_for_the_advertised_one() {
    let of = |flags: &str| {
        let text = format!("processor: 0\nmodel name: AMD EPYC\ncpu MHz: 2445.4\nflags: {flags}\n");
        capture(&fixture(&[("/proc/cpuinfo", &text)]))
    };
    assert_eq!(of("fpu").cpu.hz_advertised, Some([2_445_400_000, 0]));
    let changing = of("fpu aperfmperf");
    assert_eq!(changing.cpu.hz_advertised, None);
    assert_eq!(changing.cpu.hz_actual, Some([2_445_400_000, 0]));
    assert!(changing.unavailable.contains_key("cpu.hz_advertised"));
}

#[test]
fn an_empty_machine_is_all_reasons() {
    let info = capture(&fixture(&[]));
    every_part_has_a_value_or_a_reason(&info);
    for part in ["memory", "disk", "network", "process", "container", "numa", "caches", "hostname"]
    {
        assert!(info.unavailable.contains_key(part), "{part}");
    }
}

#[test]
fn this_machine_has_a_value_or_a_reason_everywhere() {
    let info = MachineInfo::capture(&settings("[PATH, RUNLORE_NOT_SET]"));
    every_part_has_a_value_or_a_reason(&info);
    assert_eq!(info.process.pid, Some(std::process::id()));
    assert!(info.cpu.count.is_some() && info.cpu.usable.is_some());
    assert!(info.environment.contains_key("PATH"));
    assert_eq!(info.unavailable["environment.RUNLORE_NOT_SET"], "the variable is not set");
    let text = serde_json::to_string(&info).unwrap();
    assert_eq!(serde_json::from_str::<MachineInfo>(&text).unwrap(), info);
}

/// All fields that a machine can have, by part.
const ALL: &[(&str, &[&str])] = &[
    ("platform", &["system", "node", "release", "version", "machine", "processor"]),
    (
        "cpu",
        &[
            "arch",
            "arch_string_raw",
            "bits",
            "count",
            "usable",
            "cores",
            "sockets",
            "vendor_id_raw",
            "brand_raw",
            "hz_advertised_friendly",
            "hz_actual_friendly",
            "hz_advertised",
            "hz_actual",
            "family",
            "model",
            "stepping",
            "flags",
            "l1_data_cache_size",
            "l1_instruction_cache_size",
            "l2_cache_size",
            "l2_cache_line_size",
            "l2_cache_associativity",
            "l3_cache_size",
            "hypervisor",
            "implementer",
            "part",
            "variant",
            "revision",
        ],
    ),
    (
        "memory.virtual",
        &[
            "total",
            "available",
            "percent",
            "used",
            "free",
            "active",
            "inactive",
            "buffers",
            "cached",
            "shared",
            "slab",
        ],
    ),
    ("memory.swap", &["total", "used", "free", "percent", "sin", "sout"]),
    ("disk", &["total", "used", "free", "percent"]),
    (
        "process",
        &[
            "pid",
            "executable",
            "cmd_line",
            "cwd",
            "user_id",
            "started_at",
            "cpu_number",
            "memory",
            "memory_percent",
            "cpu_times",
            "cpu_percent",
            "io_counters",
            "num_open_file_descriptors",
            "num_open_files",
            "num_connections",
            "num_threads",
            "num_ctx_switches",
        ],
    ),
    ("kernel", &["release", "uptime", "booted_at"]),
    (
        "build",
        &["rustc", "target", "profile", "opt_level", "debug_assertions", "runlore", "crates"],
    ),
    ("", &["network", "environment", "hostname", "login_name", "container", "numa", "caches"]),
];

/// Fails unless each field has either a value or a reason, its own or that of the part around it.
fn every_part_has_a_value_or_a_reason(info: &MachineInfo) {
    let value = serde_json::to_value(info).unwrap();
    for (part, names) in ALL {
        for name in *names {
            let path = format!("{part}.{name}");
            let path = path.trim_start_matches('.');
            let found = value.pointer(&format!("/{}", path.replace('.', "/")));
            let is_there = match found {
                Some(Value::Object(fields)) => !fields.is_empty() || path == "environment",
                found => found.is_some(),
            };
            let reasons: Vec<_> = path
                .match_indices('.')
                .map(|(end, _)| &path[..end])
                .chain([path])
                .filter_map(|path| info.unavailable.get(path))
                .collect();
            assert_eq!(is_there, reasons.is_empty(), "{path}: {found:?} {reasons:?}");
            assert!(reasons.iter().all(|why| !why.is_empty()), "{path}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_survived(
        text in "((MemTotal|SwapFree|processor|core id|physical id|cpu MHz|flags|btime|Node 0 MemTotal)?[ :\t]{0,2}(-?[0-9]{0,22}|0x41|@ 9GHz|@é|1-4294967295|,)( kB|K|G)?\n?){0,12}",
    ) {
        let paths = [
            "/proc/cpuinfo", "/proc/meminfo", "/proc/vmstat", "/proc/stat", "/proc/uptime", "/etc/passwd",
            "/proc/sys/kernel/arch", "/sys/devices/system/cpu/online", "/sys/devices/system/node/node0/cpulist",
            "/sys/devices/system/node/node0/meminfo", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
            "/sys/devices/system/cpu/cpu0/cache/index0/level", "/sys/devices/system/cpu/cpu0/cache/index0/size",
            "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
        ];
        let info = capture(&fixture(&paths.map(|path| (path, text.as_str()))));
        every_part_has_a_value_or_a_reason(&info);
    }
}
