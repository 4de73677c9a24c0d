//! Graphics processors on a machine that has none: the real crates, and libraries that answer as the vendors' do.
#![cfg(target_os = "linux")]
#![cfg_attr(not(all(feature = "nvidia", feature = "amd")), allow(dead_code, unused_imports))]

use std::time::Duration;

use runlore::settings::Search;
use runlore::telemetry::{SensorState, Telemetry, TelemetryCapture};
use serde_json::{Value, json};

use crate::gpu_stub::{Machine, capture_of, tell, untell, until};

/// The first capture in which the devices are.
fn read(capture: &TelemetryCapture) -> Telemetry {
    until(capture, |now| now.gpu.is_some())
}

/// The first capture that gives a reason which will not change.
fn refused(capture: &TelemetryCapture) -> String {
    let is_final = |now: &Telemetry| {
        now.reason("gpu").is_some_and(|reason| !reason.starts_with("the driver "))
    };
    let now = until(capture, is_final);
    assert_eq!(now.gpu, None);
    now.reason("gpu").unwrap().to_owned()
}

fn json_of(now: &Telemetry) -> Value {
    serde_json::to_value(now.gpu.as_ref().unwrap()).unwrap()
}

#[test]
fn without_a_library_the_reason_says_what_was_looked_for() {
    Machine::default().run("gpu::without_a_library_the_reason_says_what_was_looked_for", || {
        for (vendor, feature, library) in [
            ("amd", cfg!(feature = "amd"), "libamd_smi.so"),
            ("nvidia", cfg!(feature = "nvidia"), "libnvidia-ml.so.1"),
        ] {
            let expected =
                if feature { library.to_owned() } else { format!("the feature `{vendor}`") };
            for vendor in [vendor, "auto"] {
                let capture = capture_of(&format!("gpu: [used], gpu_vendor: {vendor}"));
                let reason = refused(&capture);
                assert!(reason.contains(&expected), "{vendor}: {reason}");
            }
        }
        // Nobody asked.
        let now = capture_of("gpu: ~").capture();
        assert!(now.gpu.is_none() && now.unavailable.is_empty());
    });
}

#[test]
fn settings_tell_metrics_that_no_vendor_has() {
    let check = |text: &str| {
        let text = format!("telemetry_capture:\n  {text}\n");
        let loaded = Search::nowhere().text("settings.yaml", &text).load();
        let told: Vec<String> = loaded.problems().iter().map(ToString::to_string).collect();
        (loaded.settings.telemetry_capture.gpu, told)
    };
    for fine in [
        "gpu: [used, activity, utilization, power.average_socket_power, clocks.sm]",
        "{gpu: [temperature.edge, others], gpu_vendor: amd}",
        "{gpu: [fan, throttle, ecc.corrected], gpu_vendor: nvidia}",
    ] {
        assert!(check(fine).1.is_empty(), "{fine}: {:?}", check(fine).1);
    }
    let (kept, told) = check("gpu: [used, temprature, wattage]");
    assert_eq!(kept, ["used"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("no metric `temprature`: did you mean `temperature`?"), "{told:?}");
    assert!(told[0].contains("no metric `wattage`: valid are `used`, `activity`"), "{told:?}");
    let (_, told) = check("gpu: [power.average_socket_powr]");
    assert!(told[0].contains("did you mean `power.average_socket_power`?"), "{told:?}");
    let (kept, told) = check("{gpu: [activity, power], gpu_vendor: nvidia}");
    assert_eq!(kept, ["power"]);
    assert!(told[0].contains("NVIDIA's graphics processors have no metric `activity`"), "{told:?}");
}

#[cfg(feature = "nvidia")]
mod nvidia {
    use super::*;

    const NVML: Machine = Machine { libraries: &["nvml"], old: false, told: &[], variables: &[] };

    #[test]
    fn both_devices_tell_every_metric() {
        NVML.run("gpu::nvidia::both_devices_tell_every_metric", || {
            let capture = capture_of(
                "gpu: [used, temperature, power, name, id, utilization, memory, clocks, fan, energy, pcie, throttle, \
                 ecc, mig, process_memory]",
            );
            let now = read(&capture);
            let gpus = json_of(&now);
            assert_eq!(
                gpus["gpu_0"],
                json!({
                    "used": 10_000_000_000_u64,
                    "temperature": 41,
                    "power": 250_001,
                    "name": "Stub H100",
                    "id": "GPU-11111111-aaaa-0000-0000-000000000001",
                    "utilization": {"gpu": 91, "memory": 31},
                    "memory": {
                        "total": 80_000_000_000_u64,
                        "free": 70_000_000_000_u64,
                        "reserved": 600_000_000,
                    },
                    "clocks": {"graphics": 1980, "sm": 1981, "memory": 2619, "video": 1545},
                    "energy": 1_000_000,
                    "pcie": {"tx": 1000, "rx": 1001},
                    "throttle": ["sw_power_cap", "sw_thermal_slowdown"],
                    "ecc": {"corrected": 7, "uncorrected": 6},
                    "mig": {"enabled": false, "devices": 0},
                    "process_memory": 123_456_789,
                })
            );
            assert_eq!(gpus["gpu_1"]["used"], 60_000_000_000_u64);
            assert_eq!(gpus["gpu_1"]["mig"], json!({"enabled": true, "devices": 2}));
            let reason = now.reason("gpu.gpu_0.fan").unwrap();
            assert!(reason.contains("not available on the target device"), "{reason}");
            let reason = now.reason("gpu.gpu_1.process_memory").unwrap();
            assert!(reason.contains("does not list this process"), "{reason}");
            assert_eq!(now.unavailable.len(), 3, "{:?}", now.unavailable);
        });
    }

    #[test]
    fn an_older_library_lacks_what_came_later_and_nothing_else() {
        let test = "gpu::nvidia::an_older_library_lacks_what_came_later_and_nothing_else";
        NVML.old().run(test, || {
            let now = read(&capture_of("gpu: [used, memory, energy, mig, power]"));
            let gpus = json_of(&now);
            assert_eq!(gpus["gpu_1"]["used"], 60_000_000_000_u64);
            assert_eq!(gpus["gpu_1"]["power"], 250_002);
            for lacking in ["energy", "mig.enabled", "memory.reserved"] {
                assert!(now.reason(&format!("gpu.gpu_0.{lacking}")).is_some(), "{lacking}");
            }
        });
    }

    #[test]
    fn a_list_of_processes_in_another_form_is_not_read() {
        let test = "gpu::nvidia::a_list_of_processes_in_another_form_is_not_read";
        NVML.told(&[("driver", "535.54.03")]).run(test, || {
            let now = read(&capture_of("gpu: [process_memory, temperature]"));
            assert_eq!(json_of(&now)["gpu_0"], json!({"temperature": 41}));
            let reason = now.reason("gpu.gpu_0.process_memory").unwrap();
            assert!(reason.contains("the driver 535.54.03 lists processes in a form"), "{reason}");
        });
    }

    #[test]
    fn a_driver_that_is_not_loaded_is_told() {
        NVML.told(&[("no-driver", "")]).run(
            "gpu::nvidia::a_driver_that_is_not_loaded_is_told",
            || {
                let reason = refused(&capture_of("gpu: [used], gpu_vendor: nvidia"));
                assert_eq!(reason, "NVIDIA: NVML: NVIDIA driver is not loaded");
            },
        );
    }

    #[test]
    fn an_error_costs_its_metric_only() {
        NVML.told(&[("broken", "")]).run("gpu::nvidia::an_error_costs_its_metric_only", || {
            let now = read(&capture_of("gpu: [used, power, temperature]"));
            let gpus = json_of(&now);
            assert_eq!(gpus["gpu_0"]["power"], 250_001);
            assert_eq!(gpus["gpu_1"], json!({"used": 60_000_000_000_u64, "temperature": 42}));
            assert!(now.reason("gpu.gpu_1.power").is_some());
            assert_eq!(now.unavailable.len(), 1);
        });
    }

    #[test]
    fn a_late_reading_is_not_shared_as_if_it_were_one() {
        let machine = NVML.told(&[("hang", "")]);
        machine.run("gpu::nvidia::a_late_reading_is_not_shared_as_if_it_were_one", || {
            let capture = capture_of("gpu: [used], max_age: 1h");
            assert!(capture.capture().gpu.is_none());
            untell("hang");
            read(&capture);
        });
    }

    #[test]
    fn a_device_that_disappears_costs_itself_only_and_may_come_back() {
        let test = "gpu::nvidia::a_device_that_disappears_costs_itself_only_and_may_come_back";
        NVML.run(test, || {
            let capture = capture_of("gpu: [temperature]");
            read(&capture);
            tell("lost", "");
            let now = until(&capture, |now| now.gpu.as_ref().is_some_and(|gpus| gpus.len() == 1));
            assert_eq!(json_of(&now), json!({"gpu_0": {"temperature": 41}}));
            let reason = now.reason("gpu.gpu_1").unwrap();
            assert!(reason.contains("fell off the bus"), "{reason}");
            untell("lost");
            until(&capture, |now| now.gpu.as_ref().is_some_and(|gpus| gpus.len() == 2));
        });
    }

    #[test]
    fn nobody_waits_for_a_driver_that_hangs() {
        NVML.run("gpu::nvidia::nobody_waits_for_a_driver_that_hangs", || {
            let capture = capture_of("gpu: [used]");
            read(&capture);
            let before = threads();
            tell("hang", "");
            // All of these come back while the driver does not.
            let late: Vec<Telemetry> = (0..100).map(|_| capture.capture()).collect();
            assert!(late.iter().all(|now| now.gpu.is_none()));
            let reason = late[99].reason("gpu").unwrap();
            assert!(reason.starts_with("the driver has not answered for"), "{reason}");
            assert_eq!(threads(), before, "one thread is enough");
            untell("hang");
            read(&capture);
        });
    }

    #[test]
    fn a_call_that_takes_two_seconds_holds_no_task() {
        let machine = NVML.told(&[("slow", "")]).variables(&[
            ("RUNLORE_TELEMETRY_CAPTURE__GPU", "[used]"),
            ("RUNLORE_TELEMETRY_CAPTURE__GPU_VENDOR", "nvidia"),
        ]);
        machine.run("gpu::nvidia::a_call_that_takes_two_seconds_holds_no_task", || {
            let store = crate::support::record(|| {
                for _ in 0..20 {
                    runlore::task("work").run(|| ());
                }
            });
            assert_eq!(store.tasks().len(), 20);
            for task in store.tasks() {
                let at_end = task.telemetry_at_end.unwrap();
                assert!(at_end.get("gpu").is_none(), "{at_end:?}");
                assert!(at_end["unavailable"]["gpu"].as_str().unwrap().contains("driver"));
            }
        });
    }

    #[test]
    fn waiting_for_a_driver_takes_nothing_off_what_a_task_used() {
        let machine = NVML.variables(&[
            ("RUNLORE_TELEMETRY_CAPTURE__GPU", "[used]"),
            ("RUNLORE_TELEMETRY_CAPTURE__GPU_VENDOR", "nvidia"),
        ]);
        let test = "gpu::nvidia::waiting_for_a_driver_takes_nothing_off_what_a_task_used";
        machine.run(test, || {
            let used = || runlore::telemetry::usage::thread().unwrap().cpu_ns;
            let work_ns = 10_000_000;
            let store = crate::support::record(|| {
                runlore::task("parent").run(|| {
                    let since = used();
                    while used() - since < work_ns {}
                    tell("hang", "");
                    runlore::task("child").run(|| ());
                    untell("hang");
                });
            });
            let parent = serde_json::to_value(crate::support::the(&store, "parent")).unwrap();
            let own = parent["resources"]["cpu_ns"]["self"].as_u64().unwrap();
            assert!(own >= work_ns, "{own}");
        });
    }

    #[test]
    fn a_young_reading_serves_others() {
        NVML.run("gpu::nvidia::a_young_reading_serves_others", || {
            for backend in
                ["auto", "portable"].into_iter().take(1 + usize::from(cfg!(feature = "portable")))
            {
                let capture = capture_of(&format!("gpu: [used], max_age: 1h, backend: {backend}"));
                let first = read(&capture);
                tell("hang", "");
                assert_eq!(capture.capture().gpu, first.gpu);
                untell("hang");
            }
        });
    }

    #[test]
    fn the_program_s_devices_are_read_and_no_others() {
        for variables in [
            &[("CUDA_VISIBLE_DEVICES", "1")],
            &[("CUDA_VISIBLE_DEVICES", "GPU-2222")],
            &[("NVIDIA_VISIBLE_DEVICES", "1")],
        ] {
            let test = "gpu::nvidia::the_program_s_devices_are_read_and_no_others";
            NVML.variables(variables).run(test, || {
                let now = read(&capture_of("gpu: [temperature]"));
                assert_eq!(json_of(&now), json!({"gpu_1": {"temperature": 42}}));
                assert!(now.unavailable.is_empty());
            });
        }
    }

    #[test]
    fn a_part_of_a_device_has_memory_and_identity_of_its_own() {
        let test = "gpu::nvidia::a_part_of_a_device_has_memory_and_identity_of_its_own";
        for variables in [
            &[("CUDA_VISIBLE_DEVICES", "MIG-4444")],
            &[("CUDA_VISIBLE_DEVICES", "MIG-GPU-22222222-bbbb-0000-0000-000000000002/2/0")],
        ] {
            NVML.variables(variables).run(test, || {
                let now = read(&capture_of("gpu: [used, id, temperature]"));
                assert_eq!(
                    json_of(&now),
                    json!({"gpu_1_mig_1": {
                        "used": 3_000_000_000_u64,
                        "id": "MIG-44444444-dddd-0000-0000-000000000004",
                        "temperature": 42,
                    }})
                );
            });
        }
    }

    #[test]
    fn parts_of_one_device_have_keys_of_their_own_and_share_its_meter() {
        let test = "gpu::nvidia::parts_of_one_device_have_keys_of_their_own_and_share_its_meter";
        NVML.variables(&[("CUDA_VISIBLE_DEVICES", "MIG-4444,MIG-3333")]).run(test, || {
            let now = read(&capture_of("gpu: [id], energy: yes, gpu_vendor: nvidia"));
            let devices: Vec<_> = now.gpu.as_ref().unwrap().iter().map(|(name, _)| name).collect();
            assert_eq!(devices, ["gpu_1_mig_1", "gpu_1_mig_0"]);
            let ids = json_of(&now);
            assert_eq!(ids["gpu_1_mig_0"]["id"], "MIG-33333333-cccc-0000-0000-000000000003");
            assert_eq!(ids["gpu_1_mig_1"]["id"], "MIG-44444444-dddd-0000-0000-000000000004");
            let meters = now.energy.as_ref().unwrap().joules.iter().map(|(meter, _)| meter);
            let meters: Vec<_> = meters.filter(|meter| meter.starts_with("nvml:")).collect();
            assert_eq!(meters, ["nvml:gpu_1"]);
        });
    }

    #[test]
    fn a_variable_that_hides_every_device_is_the_reason() {
        let test = "gpu::nvidia::a_variable_that_hides_every_device_is_the_reason";
        for variables in [
            &[("CUDA_VISIBLE_DEVICES", "")],
            &[("CUDA_VISIBLE_DEVICES", "-1")],
            &[("CUDA_VISIBLE_DEVICES", "GPU-of-another-machine")],
        ] {
            NVML.variables(variables).run(test, || {
                let value = std::env::var("CUDA_VISIBLE_DEVICES").unwrap();
                let expected = format!(
                    "CUDA_VISIBLE_DEVICES={value:?} hides all 2 devices of this machine from the program"
                );
                let capture = capture_of("gpu: [used], gpu_vendor: nvidia");
                assert_eq!(refused(&capture), expected);
                let info = capture.gpu_info(Duration::from_secs(60)).unwrap();
                assert_eq!((info.count, info.devices.len()), (2, 0));
                assert_eq!(info.unavailable["devices"], expected);
                // The doctor shows these.
                let sensors = capture.sensors();
                let [gpu] = &sensors[..] else { panic!("{sensors:?}") };
                let SensorState::Missing { reason, advice, .. } = &gpu.state else {
                    panic!("{gpu:?}")
                };
                assert_eq!((&*gpu.field, &**reason), ("gpu", &*expected));
                assert!(advice.starts_with("name devices in the variable"), "{advice}");
            });
        }
    }

    #[test]
    fn numbers_that_cuda_may_mean_otherwise_are_doubted() {
        let test = "gpu::nvidia::numbers_that_cuda_may_mean_otherwise_are_doubted";
        let machine = NVML.told(&[("unlike", "")]).variables(&[("CUDA_VISIBLE_DEVICES", "0")]);
        machine.run(test, || {
            let now = read(&capture_of("gpu: [name]"));
            assert!(now.reason("gpu.order").unwrap().contains("CUDA_DEVICE_ORDER"));
        });
    }

    #[test]
    fn a_metric_of_the_other_vendor_is_told_and_the_rest_read() {
        let test = "gpu::nvidia::a_metric_of_the_other_vendor_is_told_and_the_rest_read";
        let output = NVML.run(test, || {
            let now = read(&capture_of("gpu: [temperature, activity]"));
            assert_eq!(json_of(&now)["gpu_0"], json!({"temperature": 41}));
            let reason = now.reason("gpu.activity").unwrap();
            assert!(reason.starts_with("NVIDIA's graphics processors have no metric `activity`"));
        });
        if let Some(output) = output {
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(said.matches("no metric `activity`: valid are `used`").count(), 1, "{said}");
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_forked_child_reads_by_itself() {
        NVML.run("gpu::nvidia::a_forked_child_reads_by_itself", || {
            let capture = capture_of("gpu: [temperature]");
            read(&capture);
            // SAFETY: the child captures and ends without returning.
            let child = unsafe { libc::fork() };
            if child == 0 {
                read(&capture);
                // SAFETY: nothing of the parent's runs.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: the child is ours, and there is room for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            read(&capture);
        });
    }

    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }
}

#[cfg(feature = "amd")]
mod amd {
    use super::*;

    const AMDSMI: Machine =
        Machine { libraries: &["amdsmi"], old: false, told: &[], variables: &[] };

    #[test]
    fn both_devices_tell_every_metric() {
        AMDSMI.run("gpu::amd::both_devices_tell_every_metric", || {
            let capture = capture_of(
                "gpu: [used, activity, power, temperature, others, id, gpu_ix], gpu_vendor: amd",
            );
            let now = read(&capture);
            let gpus = json_of(&now);
            assert_eq!(
                gpus["gpu_0"],
                json!({
                    "used": 1_000_000_000,
                    "activity": {"gfx_activity": 81, "umc_activity": 21, "mm_activity": 12},
                    "power": {"average_socket_power": 301, "energy_accumulator": 2_000_000},
                    "temperature": {
                        "edge": 42, "hotspot": 53, "mem": 64, "vrgfx": 75, "vrmem": 97,
                        "hbm": [53, 54], "fan_speed": 3001,
                    },
                    "others": {
                        "current_gfxclk": 2101, "current_socclk": 1201, "current_uclk": 1301,
                        "current_vclk0": 1401,
                    },
                    "id": "11ff74a0-0000-1000-80de-ad0000000001",
                    "gpu_ix": 0,
                })
            );
            assert_eq!(gpus["gpu_1"]["gpu_ix"], 1);
            assert!(now.reason("gpu.gpu_0.others.current_dclk0").is_some());
            assert_eq!(now.unavailable.len(), 2, "{:?}", now.unavailable);
        });
    }

    #[test]
    fn a_metric_of_a_group_can_be_named_alone() {
        AMDSMI.run("gpu::amd::a_metric_of_a_group_can_be_named_alone", || {
            let capture = capture_of("gpu: [power.average_socket_power, temperature.edge, id]");
            let gpus = json_of(&read(&capture));
            assert_eq!(
                gpus["gpu_0"],
                json!({
                    "power": {"average_socket_power": 301},
                    "temperature": {"edge": 42},
                    "id": "11ff74a0-0000-1000-80de-ad0000000001",
                })
            );
        });
    }

    #[test]
    fn a_function_that_is_missing_costs_its_metrics_only() {
        let test = "gpu::amd::a_function_that_is_missing_costs_its_metrics_only";
        let output = AMDSMI.old().run(test, || {
            let now = read(&capture_of("gpu: [used, power, temperature]"));
            let gpus = json_of(&now);
            assert_eq!(gpus["gpu_0"]["power"], json!({"average_socket_power": 301}));
            assert_eq!(gpus["gpu_0"]["temperature"]["edge"], 42);
            assert_eq!(
                now.reason("gpu.gpu_0.power.energy_accumulator"),
                Some("AMD SMI: it has no `amdsmi_get_energy_count`")
            );
            assert!(now.reason("gpu.gpu_1.temperature.hbm").is_some());
        });
        if let Some(output) = output {
            assert!(!String::from_utf8(output.stderr).unwrap().contains("panicked"));
        }
    }

    #[test]
    fn an_old_layout_gives_reasons_and_no_wrong_numbers() {
        let test = "gpu::amd::an_old_layout_gives_reasons_and_no_wrong_numbers";
        AMDSMI.told(&[("version", "24")]).run(test, || {
            let now = read(&capture_of("gpu: [used, power, activity, temperature]"));
            let gpus = json_of(&now);
            assert_eq!(gpus["gpu_0"]["used"], 1_000_000_000);
            assert_eq!(gpus["gpu_0"]["power"], json!({"energy_accumulator": 2_000_000}));
            assert_eq!(gpus["gpu_0"]["temperature"]["hotspot"], 53);
            for lacking in ["power.average_socket_power", "activity.gfx_activity"] {
                let reason = now.reason(&format!("gpu.gpu_0.{lacking}")).unwrap();
                assert!(reason.contains("AMD SMI 24 lays it out differently"), "{reason}");
            }
        });
    }

    #[test]
    fn a_version_that_nobody_knows_is_not_read() {
        let test = "gpu::amd::a_version_that_nobody_knows_is_not_read";
        AMDSMI.told(&[("version", "28")]).run(test, || {
            let reason = refused(&capture_of("gpu: [used], gpu_vendor: amd"));
            assert!(reason.contains("is of version 28; those from 24 to 27"), "{reason}");
        });
    }

    #[test]
    fn a_driver_that_is_not_loaded_is_told() {
        AMDSMI.told(&[("no-driver", "")]).run(
            "gpu::amd::a_driver_that_is_not_loaded_is_told",
            || {
                let reason = refused(&capture_of("gpu: [used], gpu_vendor: amd"));
                assert_eq!(reason, "AMD: AMD SMI: Driver not loaded");
            },
        );
    }

    #[test]
    fn an_error_costs_its_metric_only() {
        AMDSMI.told(&[("broken", "")]).run("gpu::amd::an_error_costs_its_metric_only", || {
            let now = read(&capture_of("gpu: [used, gpu_ix]"));
            assert_eq!(
                json_of(&now),
                json!({"gpu_0": {"used": 1_000_000_000, "gpu_ix": 0}, "gpu_1": {"gpu_ix": 1}})
            );
            assert!(now.reason("gpu.gpu_1.used").unwrap().contains("FILE_ERROR"));
        });
    }

    #[test]
    fn a_device_that_disappears_costs_itself_only() {
        AMDSMI.run("gpu::amd::a_device_that_disappears_costs_itself_only", || {
            let capture = capture_of("gpu: [used, temperature.edge]");
            read(&capture);
            tell("lost", "");
            let is_gone = |now: &Telemetry| now.unavailable.get("gpu.gpu_1.used").is_some();
            let now = until(&capture, is_gone);
            let gpus = json_of(&now);
            assert_eq!(gpus["gpu_0"], json!({"used": 1_000_000_000, "temperature": {"edge": 42}}));
            assert_eq!(gpus["gpu_1"], json!({}));
            assert!(now.reason("gpu.gpu_1.temperature.edge").is_some());
        });
    }

    #[test]
    fn nobody_waits_for_a_driver_that_hangs() {
        AMDSMI.run("gpu::amd::nobody_waits_for_a_driver_that_hangs", || {
            let capture = capture_of("gpu: [used]");
            read(&capture);
            tell("hang", "");
            let late: Vec<Telemetry> = (0..100).map(|_| capture.capture()).collect();
            assert!(late.iter().all(|now| now.gpu.is_none()));
            untell("hang");
            read(&capture);
        });
    }

    #[test]
    fn the_program_s_devices_are_read_and_no_others() {
        let test = "gpu::amd::the_program_s_devices_are_read_and_no_others";
        let machine =
            AMDSMI.variables(&[("ROCR_VISIBLE_DEVICES", "1,0"), ("HIP_VISIBLE_DEVICES", "0")]);
        machine.run(test, || {
            let gpus = json_of(&read(&capture_of("gpu: [gpu_ix]")));
            assert_eq!(gpus, json!({"gpu_1": {"gpu_ix": 1}}));
        });
    }

    #[test]
    fn a_variable_that_hides_every_device_is_the_reason() {
        let test = "gpu::amd::a_variable_that_hides_every_device_is_the_reason";
        for variables in [
            &[("ROCR_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", "0"), ("EXPECTED", "ROCR")],
            &[("ROCR_VISIBLE_DEVICES", "1"), ("HIP_VISIBLE_DEVICES", ""), ("EXPECTED", "HIP")],
        ] {
            AMDSMI.variables(variables).run(test, || {
                let reason = refused(&capture_of("gpu: [used], gpu_vendor: amd"));
                let variable = std::env::var("EXPECTED").unwrap();
                let expected = format!(
                    "{variable}_VISIBLE_DEVICES=\"\" hides all 2 devices of this machine from the program"
                );
                assert_eq!(reason, expected);
            });
        }
    }

    #[cfg(feature = "nvidia")]
    #[test]
    fn of_both_vendors_amd_is_read_and_that_is_said() {
        let both = Machine::with(&["amdsmi", "nvml"]);
        both.run("gpu::amd::of_both_vendors_amd_is_read_and_that_is_said", || {
            let now = read(&capture_of("gpu: [used]"));
            assert_eq!(json_of(&now)["gpu_0"], json!({"used": 1_000_000_000}));
            assert!(now.reason("gpu.nvidia").unwrap().contains("NVIDIA's 2 are not"));
            let now = read(&capture_of("gpu: [used], gpu_vendor: nvidia"));
            assert_eq!(json_of(&now)["gpu_0"], json!({"used": 10_000_000_000_u64}));
            assert!(now.unavailable.is_empty());
        });
    }
}
