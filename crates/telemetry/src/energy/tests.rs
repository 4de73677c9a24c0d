//! Energy meters of fictitious machines.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::root::fixture;
use crate::{Energy, Telemetry, TelemetryCapture, TelemetryType, Types};

const POWERCAP: &str = "/sys/class/powercap";

fn capture(root: &Path) -> TelemetryCapture {
    TelemetryCapture::below(root, Types::from([TelemetryType::Energy]))
}

fn energy(capture: &TelemetryCapture) -> Energy {
    let now = capture.capture();
    now.energy.unwrap_or_else(|| panic!("{:?}", now.unavailable))
}

fn meters(now: &Telemetry) -> Vec<&str> {
    now.energy.as_ref().unwrap().joules.iter().map(|(meter, _)| meter).collect()
}

/// The files of a powercap zone: its number, name and register.
fn zone(number: &str, name: &str, microjoules: u64) -> [(String, String); 3] {
    let file = |file: &str| format!("{POWERCAP}/intel-rapl{number}/{file}");
    [
        (file("name"), format!("{name}\n")),
        (file("energy_uj"), format!("{microjoules}\n")),
        (file("max_energy_range_uj"), "262143328850\n".to_owned()),
    ]
}

fn machine(files: impl IntoIterator<Item = (String, String)>) -> tempfile::TempDir {
    let files: Vec<_> = files.into_iter().collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    fixture(&files)
}

fn set(root: &Path, zone: &str, microjoules: u64) {
    let path = root.join(format!("sys/class/powercap/intel-rapl{zone}/energy_uj"));
    fs::write(path, format!("{microjoules}\n")).unwrap();
}

#[test]
fn packages_and_their_memory_are_counted_once() {
    let zones = [
        zone(":0", "package-0", 1_500_000),
        zone(":0:0", "core", 900_000),
        zone(":0:1", "uncore", 100_000),
        zone(":0:2", "dram", 250_000),
        zone(":1", "package-1", 2_000_000),
        zone(":2", "psys", 9_000_000),
        zone("-mmio:0", "package-0", 1_500_000),
    ];
    let machine = machine(zones.into_iter().flatten());
    let now = capture(machine.path()).capture();
    assert_eq!(meters(&now), ["rapl:package-0", "rapl:dram-0", "rapl:package-1"]);
    assert_eq!(now.energy.unwrap().joules["rapl:dram-0"], 0.25);
}

#[test]
fn the_platform_is_read_where_there_is_nothing_finer() {
    let machine = machine(zone(":0", "psys", 9_000_000));
    assert_eq!(meters(&capture(machine.path()).capture()), ["rapl:psys"]);
}

#[test]
fn a_counter_that_goes_round_counts_on() {
    let machine = machine(zone(":0", "package-0", 262_143_000_000));
    let capture = capture(machine.path());
    let before = energy(&capture);
    set(machine.path(), ":0", 671_150);
    let used = energy(&capture).since(&before).unwrap();
    assert_eq!(used.microjoules(), 1_000_000);
    assert_eq!(used.by_meter()["rapl:package-0"], 1.0);
}

#[test]
fn boards_tell_where_processors_do_not() {
    let file = |file: &str, text: &str| (format!("/sys/class/hwmon/{file}"), text.to_owned());
    let machine = machine([
        file("hwmon0/name", "i915"),
        file("hwmon0/energy1_input", "5"),
        file("hwmon1/name", "amd_energy"),
        file("hwmon1/energy1_input", "7"),
        file("hwmon1/energy1_label", "Ecore000"),
        file("hwmon1/energy2_input", "8000000"),
        file("hwmon1/energy2_label", "Esocket0"),
    ]);
    let now = capture(machine.path()).capture();
    assert_eq!(meters(&now), ["hwmon:amd_energy-Esocket0"]);
    assert_eq!(now.energy.unwrap().joules["hwmon:amd_energy-Esocket0"], 8.0);
}

#[test]
fn a_battery_tells_while_it_feeds_the_machine() {
    let path = |file: &str| format!("/sys/class/power_supply/{file}");
    let machine = machine([
        (path("BAT0/type"), "Battery".to_owned()),
        (path("BAT0/energy_now"), "40000000".to_owned()),
        (path("BAT0/status"), "Discharging".to_owned()),
        (path("AC/type"), "Mains".to_owned()),
        (path("mouse/type"), "Battery".to_owned()),
        (path("mouse/scope"), "Device".to_owned()),
        (path("mouse/energy_now"), "1".to_owned()),
    ]);
    let write = |file: &str, text: &str| {
        fs::write(machine.path().join(path(file).trim_start_matches('/')), text).unwrap();
    };
    let capture = capture(machine.path());
    let before = energy(&capture);
    write("BAT0/energy_now", "39990000");
    assert_eq!(energy(&capture).since(&before).unwrap().joules(), 36.0);
    write("BAT0/status", "Charging");
    let now = capture.capture();
    assert!(now.reason("energy.battery:BAT0").unwrap().contains("does not feed the machine"));
    assert!(now.energy.unwrap().since(&before).unwrap_err().contains("at the end"));
}

#[test]
fn a_machine_without_meters_says_what_was_looked_for() {
    let machine = tempfile::tempdir().unwrap();
    let now = capture(machine.path()).capture();
    assert_eq!(now.energy, None);
    assert!(now.reason("energy").unwrap().contains("/sys/class/powercap"));
}

#[test]
fn half_of_the_meters_is_not_all() {
    let zones = [zone(":0", "package-0", 1), zone(":1", "package-1", 1)];
    let machine = machine(zones.into_iter().flatten());
    let capture = capture(machine.path());
    let before = energy(&capture);
    fs::write(machine.path().join("sys/class/powercap/intel-rapl:1/energy_uj"), "broken").unwrap();
    let now = capture.capture();
    assert!(now.reason("energy.rapl:package-1").is_some());
    let reason = now.energy.unwrap().since(&before).unwrap_err();
    assert_eq!(reason, "rapl:package-1 could not be read at the end");
}

/// A task: the energy that the machine uses before each child, the children, and the energy after
/// the last child.
#[derive(Debug, Clone)]
struct Task {
    before: Vec<u64>,
    children: Vec<Task>,
    after: u64,
}

fn task() -> impl Strategy<Value = Task> {
    // Each up to a fifth of the range, so that counters wrap around often.
    let use_ = 0_u64..50_000_000_000;
    let leaf = use_.clone().prop_map(|after| Task { before: vec![], children: vec![], after });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let children = proptest::collection::vec((use_.clone(), inner), 0..3);
        (children, use_.clone()).prop_map(|(children, after)| {
            let (before, children) = children.into_iter().unzip();
            Task { before, children, after }
        })
    })
}

/// A machine with two packages, the second of which uses twice as much energy.
struct Machine {
    folder: tempfile::TempDir,
    registers: [u64; 2],
    used: u64,
}

impl Machine {
    fn uses(&mut self, microjoules: u64) {
        for (number, register) in self.registers.iter_mut().enumerate() {
            let microjoules = microjoules * (number as u64 + 1);
            self.used += microjoules;
            *register = (*register + microjoules) % 262_143_328_850;
            set(self.folder.path(), &format!(":{number}"), *register);
        }
    }
}

/// Runs a task and returns its energy, children included. Appends the energy of each task without
/// its children to `own`.
fn run(task: &Task, machine: &mut Machine, capture: &TelemetryCapture, own: &mut Vec<u64>) -> u64 {
    let at_start = energy(capture);
    let mut by_children = 0;
    for (before, child) in task.before.iter().zip(&task.children) {
        machine.uses(*before);
        by_children += run(child, machine, capture, own);
    }
    machine.uses(task.after);
    let inclusive = energy(capture).since(&at_start).unwrap().microjoules();
    own.push(inclusive - by_children);
    inclusive
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_sequential_tasks_used_themselves_is_all_that_was_used(task in task(), begin in 0_u64..262_143_328_850) {
        let zones = [zone(":0", "package-0", begin), zone(":1", "package-1", begin)];
        let folder = machine(zones.into_iter().flatten());
        let capture = capture(folder.path());
        let mut machine = Machine { folder, registers: [begin; 2], used: 0 };
        let mut own = Vec::new();
        let inclusive = run(&task, &mut machine, &capture, &mut own);
        prop_assert_eq!(inclusive, machine.used);
        prop_assert_eq!(own.iter().sum::<u64>(), machine.used);
    }
}
