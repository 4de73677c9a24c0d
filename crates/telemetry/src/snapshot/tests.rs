use proptest::prelude::*;

use super::*;
use crate::container::Container;
use crate::parts::{
    Cpu, CpuTimes, Disk, DiskIo, Energy, Memory, NetIo, Network, Process, ProcessMemory, Swap,
};

fn json_of(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    let written = Snapshot(bytes).write_json(&mut text);
    assert!(written || text.is_empty());
    written.then(|| String::from_utf8(text).unwrap())
}

/// Numbers of all magnitudes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(value, bits)| value >> bits)
}

fn times() -> impl Strategy<Value = CpuTimes> {
    proptest::array::uniform10(0_u64..1 << 50).prop_map(|ticks| {
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] =
            ticks.map(|ticks| ticks as f64 / 100.0);
        CpuTimes { user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice }
    })
}

fn maybe() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(number())
}

fn percent() -> impl Strategy<Value = f64> {
    (0_u32..10_000).prop_map(|tenths| f64::from(tenths) / 10.0)
}

prop_compose! {
    fn cpu()(
        times_avg in proptest::option::of(times()),
        percent_all in proptest::option::of(percent()),
        micros in proptest::option::of(0_u64..1 << 40),
        frequency in proptest::option::of(0.0_f64..1e5),
        times_per_cpu in proptest::option::of(proptest::collection::vec(times(), 0..5)),
        percent_per_cpu in proptest::option::of(
            proptest::collection::vec(proptest::option::of(percent()), 0..5)
        ),
    ) -> Cpu {
        Cpu {
            times_mean: times_avg.clone(),
            times_avg,
            percent_all,
            interval_s: micros.map(|micros| micros as f64 / 1e6),
            frequency,
            times_per_cpu,
            percent_per_cpu,
        }
    }
}

prop_compose! {
    fn disk()(
        names in proptest::collection::vec(".{0,12}", 0..4),
        bytes in number(),
        count in maybe(),
        is_there: bool,
    ) -> Disk {
        let io = DiskIo { read_bytes: bytes, read_count: count, ..DiskIo::default() };
        let each = names.into_iter().map(|name| (name, io.clone())).collect();
        Disk { disk_usage: None, io_per_disk: is_there.then_some(each), io_sum: Some(io) }
    }
}

prop_compose! {
    fn process()(
        pid in number(),
        rss in number(),
        shared in maybe(),
        memory_percent in proptest::option::of(any::<f64>().prop_filter("JSON", |v| v.is_finite())),
        executable in proptest::option::of(".*"),
        cmd_line in proptest::option::of(proptest::collection::vec(".*", 0..4)),
    ) -> Process {
        Process {
            pid,
            memory: Some(ProcessMemory { rss, shared, ..ProcessMemory::default() }),
            memory_percent,
            executable,
            cmd_line,
            ..Process::default()
        }
    }
}

prop_compose! {
    fn container()(
        path in ".{0,12}",
        current in maybe(),
        limit_is_host in proptest::option::of(any::<bool>()),
        quota_cpus in proptest::option::of(0.0_f64..100.0),
        max in maybe(),
        cpuset in proptest::option::of("[0-9,-]{1,5}"),
        reasons in proptest::collection::btree_map("[a-z.]{1,9}", ".*", 0..3),
    ) -> Container {
        let json = serde_json::json!({
            "version": 2, "path": path, "kind": "docker",
            "memory": {"current": current, "limit_is_host": limit_is_host},
            "cpu": {"quota_cpus": quota_cpus, "usage_us": current}, "pids": {"max": max},
            "cpuset": cpuset, "unavailable": reasons,
        });
        serde_json::from_value(json).unwrap()
    }
}

prop_compose! {
    fn telemetry()(
        cpu in proptest::option::of(cpu()),
        disk in proptest::option::of(disk()),
        process in proptest::option::of(process()),
        bytes_sent in number(),
        sin in maybe(),
        reasons in proptest::collection::vec(("[a-z.]{1,9}", ".*"), 0..3),
        gpu: bool,
        container in proptest::option::of(container()),
    ) -> Telemetry {
        let io = NetIo { bytes_sent, dropin: sin, ..NetIo::default() };
        let swap = Swap { sin, total: bytes_sent, ..Swap::default() };
        Telemetry {
            cpu,
            memory: sin.map(|_| Memory { r#virtual: None, swap: Some(swap) }),
            disk,
            network: Some(Network {
                netio_per_interface: Some([("eth0:1", io.clone())].into_iter().collect()),
                netio_sum: Some(io),
            }),
            process,
            gpu: gpu.then(|| [("gpu_0", serde_json::json!({"used": sin, "name": "a\"b"}))].into_iter().collect()),
            energy: sin.map(|_| Energy { joules: [("rapl:package-0", 262_143.328_85)].into_iter().collect() }),
            container,
            unavailable: reasons.into_iter().collect(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(telemetry in telemetry()) {
        let mut bytes = Vec::new();
        put(Types::host(), &telemetry, &mut bytes);
        let read = Snapshot(&bytes).decode();
        prop_assert_eq!(read.as_ref(), Some(&telemetry));
        let text = serde_json::to_string(&telemetry).unwrap();
        prop_assert_eq!(json_of(&bytes), Some(text.clone()));
        prop_assert_eq!(serde_json::to_string(&Snapshot(&bytes)).unwrap(), text.clone());
        prop_assert_eq!(serde_json::from_str::<Telemetry>(&text).unwrap(), telemetry);
    }

    #[test]
    fn damage_costs_the_snapshot_and_nothing_else(
        telemetry in telemetry(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut bytes = Vec::new();
        put(Types::host(), &telemetry, &mut bytes);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Whatever still decodes must give the same JSON both ways. The texts may differ: a map
        // sorts its names, and of two equal names only the last remains. Parsed as JSON, both are
        // the same object.
        let read = Snapshot(&bytes).decode();
        let text = json_of(&bytes);
        prop_assert_eq!(read.is_some(), text.is_some());
        if let (Some(read), Some(text)) = (read, text) {
            let object = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(object(&serde_json::to_string(&read).unwrap()), object(&text));
        }
    }

    #[test]
    fn any_bytes_are_harmless(bytes: Vec<u8>) {
        _ = Snapshot(&bytes).decode();
        _ = json_of(&bytes);
    }
}

#[test]
fn a_count_asks_for_no_memory_that_is_not_there() {
    let mut bytes = vec![VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Snapshot(&bytes).decode(), None);
}

#[test]
fn what_the_process_used_is_found_behind_a_container() {
    let container = serde_json::from_str(r#"{"version":2,"path":"/a","kind":"docker"}"#).unwrap();
    let memory = Some(ProcessMemory { rss: 7, ..ProcessMemory::default() });
    let telemetry = Telemetry {
        container: Some(container),
        process: Some(Process { memory, ..Process::default() }),
        ..Telemetry::default()
    };
    let mut bytes = Vec::new();
    put(Types::host(), &telemetry, &mut bytes);
    assert_eq!(Snapshot(&bytes).process_usage().unwrap().rss, Some(7));
}
