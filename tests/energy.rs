//! What tasks used of the machine's energy, by meters that say what the test tells them to.
#![cfg(all(target_os = "linux", feature = "nvidia", feature = "amd"))]

use runlore::telemetry::{SensorState, TelemetryCapture, TelemetryType, Types};
use serde_json::Value;

use crate::gpu_stub::{Machine, capture_of, tell, until};
use crate::support::{record, the};

/// Lets the devices use this much more, as their counter shows it.
fn uses(joules: u64) {
    static USED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let millijoules = joules * 1000;
    let used = USED.fetch_add(millijoules, std::sync::atomic::Ordering::Relaxed) + millijoules;
    tell("millijoules", &used.to_string());
}

#[test]
fn tasks_say_what_they_and_their_children_used() {
    let machine = Machine::with(&["nvml"]).variables(&[
        ("RUNLORE_TELEMETRY_CAPTURE__ENERGY", "yes"),
        ("RUNLORE_TELEMETRY_CAPTURE__GPU_VENDOR", "nvidia"),
        ("CUDA_VISIBLE_DEVICES", "0"),
    ]);
    machine.run("energy::tasks_say_what_they_and_their_children_used", || {
        let mut begun = 0;
        loop {
            begun += 1;
            let store = record(|| {
                runlore::task("parent").run(|| {
                    uses(5);
                    runlore::task("first").run(|| uses(7));
                    uses(11);
                    runlore::task("second").run(|| uses(13));
                    uses(17);
                });
            });
            let joules = ["parent", "first", "second"].map(|name| {
                let task = the(&store, name);
                let used = serde_json::to_value(&task).unwrap();
                used.pointer("/resources/joules").cloned().ok_or_else(|| {
                    used.pointer("/unavailable/resources.joules").cloned().unwrap_or(used)
                })
            });
            // On a busy machine the driver may have been late.
            let [Ok(parent), Ok(first), Ok(second)] = joules else {
                assert!(begun < 100, "{joules:?}");
                continue;
            };
            let number = |used: &Value, name: &str| used[name].as_f64();
            let totals = store.workflows().into_iter().find_map(|workflow| workflow.totals);
            assert_eq!(totals.unwrap()["joules"]["inclusive"], parent["inclusive"]);
            // The machine itself may have meters too.
            let of_gpu = |used: &Value| used["meters"]["nvml:gpu_0"].as_f64();
            assert_eq!([&parent, &first, &second].map(of_gpu), [Some(53.0), Some(7.0), Some(13.0)]);
            let sum = |used: &Value| {
                used["meters"].as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>()
            };
            for used in [&parent, &first, &second] {
                assert!((number(used, "inclusive").unwrap() - sum(used)).abs() < 1e-5, "{used}");
            }
            let own: f64 =
                [&parent, &first, &second].iter().filter_map(|used| number(used, "self")).sum();
            assert!((own - number(&parent, "inclusive").unwrap()).abs() < 1e-5, "{parent}");
            return;
        }
    });
}

#[test]
fn amd_s_counters_are_turned_into_joules() {
    let machine = Machine::with(&["amdsmi"]).told(&[("steps", "0")]);
    machine.run("energy::amd_s_counters_are_turned_into_joules", || {
        let capture = capture_of("energy: yes, gpu_vendor: amd");
        let read = || {
            let has = |now: &runlore::telemetry::Telemetry| {
                let energy = now.energy.as_ref();
                energy.is_some_and(|energy| energy.joules.get("amdsmi:gpu_1").is_some())
            };
            until(&capture, has).energy.unwrap()
        };
        let before = read();
        assert_eq!(before.joules["amdsmi:gpu_0"], 31.0);
        tell("steps", "1000000");
        let used = read().since(&before).unwrap().by_meter();
        assert_eq!(used["amdsmi:gpu_0"], 15.5);
        assert_eq!(used["amdsmi:gpu_1"], 15.5);
    });
}

#[test]
fn the_doctor_hears_of_devices_and_meters() {
    let machine = Machine::with(&["nvml"]);
    machine.run("energy::the_doctor_hears_of_devices_and_meters", || {
        let capture = capture_of("energy: yes, gpu: [power, fan, clocks], gpu_vendor: nvidia");
        until(&capture, |now| now.gpu.is_some());
        let sensors = capture.sensors();
        let sensor = |field: &str| {
            let found = sensors.iter().find(|sensor| sensor.field == field);
            found.unwrap_or_else(|| panic!("{field} is not among {sensors:?}"))
        };
        let power = sensor("gpu.gpu_0.power");
        assert_eq!((power.unit, &*power.source), ("mW", "NVML"));
        assert_eq!(power.state, SensorState::Value(250_001.into()));
        assert!(power.cost.is_some());
        assert_eq!(sensor("gpu.gpu_1.clocks.sm").unit, "MHz");
        assert!(matches!(sensor("gpu.gpu_0.fan").state, SensorState::Missing { .. }));
        assert_eq!(sensor("energy.nvml:gpu_1").unit, "J");
    });
}

#[test]
fn energy_has_a_value_or_a_reason() {
    Machine::default().run("energy::energy_has_a_value_or_a_reason", || {
        let capture = TelemetryCapture::new(Types::from([TelemetryType::Energy]));
        let now = capture.capture();
        let has_reason = now.unavailable.iter().any(|(field, _)| field.starts_with("energy"));
        assert!(now.energy.is_some() || has_reason);
        assert_eq!(now.gpu, None);
    });
}
