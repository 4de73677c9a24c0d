//! What records say of the graphics processors themselves.
#![cfg(all(target_os = "linux", feature = "nvidia", feature = "amd"))]

use std::time::Duration;

use runlore::store::MemoryStore;
use serde_json::{Value, json};

use crate::gpu_stub::{Machine, capture_of, untell};
use crate::support::record;

const PATIENCE: Duration = Duration::from_secs(60);
const IN_FORCE: &[(&str, &str)] = &[
    ("RUNLORE_TELEMETRY_CAPTURE__GPU", "[used]"),
    ("RUNLORE_TELEMETRY_CAPTURE__GPU_VENDOR", "nvidia"),
];

/// What the last record of the run says of the machine.
fn machine(store: &MemoryStore) -> Value {
    let ended = store.workflows().into_iter().find(runlore::record::WorkflowObject::is_finished);
    ended.unwrap().machine_info.unwrap().into_values().next().unwrap()
}

/// Starts runs until one of them knows.
fn until_known() -> Value {
    for _ in 0..6000 {
        let machine = machine(&record(|| ()));
        if machine.get("gpu").is_some() {
            return machine;
        }
        let reason = machine["unavailable"]["gpu"].as_str().unwrap();
        assert!(reason.starts_with("the driver has not answered"), "{reason}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came");
}

#[test]
fn a_run_says_what_the_devices_are() {
    let test = "gpu_info::a_run_says_what_the_devices_are";
    Machine::with(&["nvml"]).variables(IN_FORCE).run(test, || {
        assert_eq!(
            until_known()["gpu"],
            json!({
                "vendor": "nvidia",
                "driver_version": "570.86.15",
                "library_version": "12.570.86.15",
                "count": 2,
                "devices": {
                    "gpu_0": {
                        "name": "Stub H100",
                        "uuid": "GPU-11111111-aaaa-0000-0000-000000000001",
                        "memory_total": 80_000_000_000_u64,
                        "pci_bus_id": "00000000:41:00.0",
                    },
                    "gpu_1": {
                        "name": "Stub H100",
                        "uuid": "GPU-22222222-bbbb-0000-0000-000000000002",
                        "memory_total": 80_000_000_000_u64,
                        "pci_bus_id": "00000000:42:00.0",
                    },
                },
            })
        );
    });
}

#[test]
fn what_the_driver_tells_late_is_in_the_last_record() {
    let test = "gpu_info::what_the_driver_tells_late_is_in_the_last_record";
    Machine::with(&["nvml"]).told(&[("hang", "")]).variables(IN_FORCE).run(test, || {
        // It starts while the driver hangs, and is not known by then.
        let store = record(|| {
            untell("hang");
            until_known();
        });
        assert_eq!(machine(&store)["gpu"]["count"], 2);
        assert_eq!(machine(&store).pointer("/unavailable/gpu"), None);
    });
}

#[test]
fn without_a_library_the_run_says_why() {
    let machine_without = Machine::default().variables(IN_FORCE);
    machine_without.run("gpu_info::without_a_library_the_run_says_why", || {
        let machine = machine(&record(|| ()));
        assert!(machine.get("gpu").is_none());
        let reason = machine["unavailable"]["gpu"].as_str().unwrap();
        let is_told = ["libnvidia-ml.so.1", "has not answered"].iter();
        assert!(is_told.into_iter().any(|told| reason.contains(told)), "{reason}");
    });
}

#[test]
fn only_what_the_program_may_use_is_described() {
    let test = "gpu_info::only_what_the_program_may_use_is_described";
    let machine = Machine::with(&["nvml"]).variables(&[("CUDA_VISIBLE_DEVICES", "MIG-4444")]);
    machine.run(test, || {
        let info = capture_of("gpu: [used], gpu_vendor: nvidia").gpu_info(PATIENCE).unwrap();
        assert_eq!(info.count, 2);
        assert_eq!(info.devices.len(), 1);
        let part = &info.devices["gpu_1_mig_1"];
        assert_eq!(part.name.as_deref(), Some("Stub H100 MIG 1g.10gb"));
        assert_eq!(part.memory_total, Some(10_000_000_000));
        assert_eq!(part.pci_bus_id.as_deref(), Some("00000000:42:00.0"));
    });
}

#[test]
fn amd_s_devices_are_described_too() {
    let test = "gpu_info::amd_s_devices_are_described_too";
    Machine::with(&["amdsmi"]).run(test, || {
        let info = capture_of("gpu: [used], gpu_vendor: amd").gpu_info(PATIENCE).unwrap();
        assert_eq!((info.vendor.as_str(), info.count), ("amd", 2));
        assert_eq!(info.library_version.as_deref(), Some("26.5.0"));
        assert!(info.driver_version.is_some() || info.unavailable.contains_key("driver_version"));
        let second = &info.devices["gpu_1"];
        assert_eq!(second.name.as_deref(), Some("Stub MI300X"));
        assert_eq!(second.uuid.as_deref(), Some("21ff74a0-0000-1000-80de-ad0000000002"));
        assert_eq!(second.memory_total, Some(192_000_000_000));
        assert_eq!(second.pci_bus_id.as_deref(), Some("0000:02:00.0"));
    });
}

#[test]
fn an_old_layout_costs_the_name_only() {
    let machine = Machine::with(&["amdsmi"]).told(&[("version", "24")]);
    machine.run("gpu_info::an_old_layout_costs_the_name_only", || {
        let info = capture_of("gpu: [used], gpu_vendor: amd").gpu_info(PATIENCE).unwrap();
        assert_eq!(info.devices["gpu_0"].name, None);
        assert!(info.unavailable["gpu_0.name"].contains("AMD SMI 24 lays it out differently"));
        assert_eq!(info.devices["gpu_0"].memory_total, Some(192_000_000_000));
    });
}
