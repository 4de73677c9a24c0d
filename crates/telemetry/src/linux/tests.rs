//! Fictitious machines, made of files.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{Host, ProcFile};
use crate::{Telemetry, TelemetryCapture, TelemetryType, Types};

/// A fictitious machine.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.cpus(&[(0, 100), (1, 100)]);
        machine.file("proc/meminfo", MEMINFO);
        machine.file("proc/vmstat", "nr_free_pages 1\npswpin 3\npswpout 5\npgalloc 7\n");
        machine.file("proc/cpuinfo", "processor: 0\nflags\t\t: fpu vme\ncpu MHz\t\t: 2000.500\n");
        machine.disks(&["vda", "vda1"], &["vda"]);
        machine.interfaces(&["lo", "eth0"]);
        machine.file("proc/self/statm", "100 50 20 5 0 30 0\n");
        machine.file("proc/self/io", "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 0\n");
        machine.file("proc/self/cmdline", "a\0b\0");
        machine.file("proc/sys/kernel/task_delayacct", "0\n");
        for folder in ["proc/self/fd", "proc/self/task"] {
            fs::create_dir_all(machine.0.path().join(folder)).unwrap();
        }
        machine
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Written in place, so that the file keeps its inode, as the kernel's files do.
        fs::write(path, text).unwrap();
    }

    /// Writes `/proc/stat` for CPUs with these numbers. Each has been busy for that many ticks, and
    /// idle for as many.
    fn cpus(&self, cpus: &[(u32, u64)]) {
        let line = |name: String, ticks: u64| format!("{name} {ticks} 0 0 {ticks} 0 0 0 0 0 0\n");
        let mut text = line("cpu ".into(), cpus.iter().map(|(_, ticks)| ticks).sum());
        text.extend(cpus.iter().map(|(number, ticks)| line(format!("cpu{number}"), *ticks)));
        text.push_str("intr 1");
        text.push_str(&" 0".repeat(5000));
        text.push_str("\nctxt 1\n");
        self.file("proc/stat", text);
    }

    fn disks(&self, names: &[&str], whole: &[&str]) {
        let line =
            |name: &&str| format!(" 254 0 {name} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        self.file("proc/diskstats", names.iter().map(line).collect::<String>());
        for name in whole {
            fs::create_dir_all(self.root().join("sys/block").join(name)).unwrap();
        }
    }

    fn interfaces(&self, names: &[&str]) {
        let mut text = "Inter-|   Receive  |  Transmit\n face |bytes\n".to_owned();
        for name in names {
            text.push_str(&format!("  {name}:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"));
        }
        self.file("proc/net/dev", text);
    }

    fn capture(&self) -> TelemetryCapture {
        TelemetryCapture::below(self.root(), Types::host())
    }

    fn now(&self) -> Telemetry {
        self.capture().capture()
    }
}

const MEMINFO: &str = "MemTotal:     1000 kB\nMemFree:       200 kB\nMemAvailable:  600 kB\nBuffers:  10 kB
Cached:  100 kB\nSwapCached:   0 kB\nActive: 30 kB\nInactive: 40 kB\nActive(anon): 1 kB\nSwapTotal: 0 kB
SwapFree: 0 kB\nShmem: 50 kB\nSlab: 70 kB\nSReclaimable: 60 kB\nSUnreclaim: 10 kB\n";

/// Converts pages of this machine to bytes.
fn pages(count: u64) -> Option<u64> {
    Some(count * crate::system_calls::page_size())
}

/// Waits long enough for a percentage.
fn wait_a_tick() {
    thread::sleep(Duration::from_millis(11));
}

#[test]
fn a_small_machine_is_read_whole() {
    let machine = Machine::new();
    let capture = machine.capture();
    wait_a_tick();
    machine.cpus(&[(0, 130), (1, 100)]);
    let now = capture.capture();
    let cpu = now.cpu.as_ref().unwrap();
    assert_eq!(cpu.times_avg.as_ref().unwrap().user, 2.3);
    assert_eq!(cpu.times_mean.as_ref().unwrap().user, 1.15);
    assert_eq!(cpu.percent_all, Some(50.0));
    assert_eq!(cpu.percent_per_cpu, Some(vec![Some(50.0), Some(0.0)]));
    assert_eq!(cpu.frequency, Some(2000.5));
    assert!(cpu.interval_s.unwrap() >= 0.01);
    let memory = now.memory.as_ref().unwrap();
    let of_machine = memory.r#virtual.as_ref().unwrap();
    assert_eq!((of_machine.total, of_machine.used, of_machine.percent), (1_024_000, 409_600, 40.0));
    assert_eq!(of_machine.cached, Some(160 * 1024));
    let swap = memory.swap.as_ref().unwrap();
    assert_eq!((swap.sin, swap.sout), (pages(3), pages(5)));
    let disk = now.disk.as_ref().unwrap();
    assert_eq!(disk.io_per_disk.as_ref().unwrap().len(), 2);
    // A partition is a part of its disk.
    let sum = disk.io_sum.as_ref().unwrap();
    assert_eq!((sum.read_count, sum.read_bytes, sum.busy_time), (Some(1), 3 * 512, Some(10)));
    let network = now.network.as_ref().unwrap();
    assert_eq!(network.netio_sum.as_ref().unwrap().bytes_sent, 18);
    let process = now.process.as_ref().unwrap();
    assert_eq!(process.io_counters.as_ref().unwrap().read_count, Some(3));
    assert_eq!(process.cmd_line.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(now.reason("process.executable"), Some("/proc/self/exe cannot be read"));
}

/// Compares with the values of psutil for the same files (`tests/data/psutil/golden.py`). On a live
/// machine most of them change between two readings.
#[test]
fn a_recorded_machine_is_what_psutil_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/psutil/machine");
    let mut golden: Value =
        serde_json::from_slice(&fs::read(folder.join("psutil.json")).unwrap()).unwrap();
    for counter in ["sin", "sout"] {
        // psutil assumes pages of 4 KiB.
        let counter = &mut golden["memory"]["swap"][counter];
        *counter = pages(counter.as_u64().unwrap() / 4096).into();
    }
    // Runlore leaves out interfaces without traffic.
    golden["network"]["netio_per_interface"].as_object_mut().unwrap().remove("ifb0").unwrap();

    let capture = TelemetryCapture::below(&folder, Types::host()).with_idle_devices();
    let ours = serde_json::to_value(capture.capture()).unwrap();
    for (path, theirs) in [
        "/cpu/times_avg",
        "/cpu/times_per_cpu",
        "/memory/virtual",
        "/memory/swap",
        "/disk/io_sum",
        "/disk/io_per_disk",
        "/network/netio_sum",
        "/network/netio_per_interface",
    ]
    .map(|path| (path, golden.pointer(path).unwrap()))
    {
        assert_eq!(ours.pointer(path), Some(theirs), "{path}");
    }
}

#[test]
fn a_missing_command_line_has_its_own_reason() {
    let machine = Machine::new();
    let reasons = |now: &Telemetry| {
        ["process.executable", "process.cmd_line"].map(|field| now.reason(field).is_some())
    };
    assert_eq!(reasons(&machine.now()), [true, false]);
    std::os::unix::fs::symlink("/bin/tool", machine.root().join("proc/self/exe")).unwrap();
    assert_eq!(reasons(&machine.now()), [false, false]);
    fs::remove_file(machine.root().join("proc/self/cmdline")).unwrap();
    let now = machine.now();
    assert_eq!(reasons(&now), [false, true]);
    let process = now.process.as_ref().unwrap();
    assert_eq!((process.executable.as_deref(), &process.cmd_line), (Some("/bin/tool"), &None));
    fs::remove_file(machine.root().join("proc/self/exe")).unwrap();
    assert_eq!(reasons(&machine.now()), [true, true]);
}

#[test]
fn a_forked_child_waits_for_no_lock_of_its_parent() {
    let machine = Machine::new();
    let host = Arc::new(Host::new(machine.root()));
    for file in host.files() {
        _ = file.open();
    }
    let opened = |host: &Host| host.files().filter(|file| file.number().is_some()).count();
    assert!(opened(&host) > 5);

    let locked = host.statm.hold_lock();
    let _others = (host.described.lock(), host.seen.lock(), host.last.lock());
    let (child, closed) = (Arc::clone(&host), mpsc::channel());
    thread::spawn(move || {
        child.close_all();
        closed.0.send(()).unwrap();
    });
    // Far longer than needed, so that a failing test ends.
    closed.1.recv_timeout(Duration::from_secs(60)).expect("it waits for a lock");
    drop(locked);
    assert_eq!(opened(&host), 1, "only the file whose lock was held is still open");
}

#[test]
fn a_large_machine_is_read_whole() {
    let machine = Machine::new();
    let cpus: Vec<_> = (0..256).map(|number| (number, u64::from(number))).collect();
    machine.cpus(&cpus);
    let disks: Vec<_> = (0..100).map(|number| format!("nvme{number}n1")).collect();
    let disks: Vec<_> = disks.iter().map(String::as_str).collect();
    machine.disks(&disks, &disks);
    let interfaces: Vec<_> = (0..100).map(|number| format!("veth{number:09}")).collect();
    machine.interfaces(&interfaces.iter().map(String::as_str).collect::<Vec<_>>());
    let now = machine.now();
    assert_eq!(now.cpu.unwrap().times_per_cpu.unwrap().len(), 256);
    let disk = now.disk.unwrap();
    assert_eq!(disk.io_per_disk.unwrap().len(), 100);
    assert_eq!(disk.io_sum.unwrap().read_count, Some(100));
    assert_eq!(now.network.unwrap().netio_per_interface.unwrap().len(), 100);
}

#[test]
fn processors_may_have_gaps_and_come_and_go() {
    let machine = Machine::new();
    machine.cpus(&[(0, 100), (7, 200)]);
    let capture = machine.capture();
    wait_a_tick();
    machine.cpus(&[(0, 150), (3, 10), (7, 200)]);
    let cpu = capture.capture().cpu.unwrap();
    assert_eq!(cpu.percent_per_cpu, Some(vec![Some(50.0), None, Some(0.0)]));
    assert_eq!(cpu.times_per_cpu.unwrap().len(), 3);
    wait_a_tick();
    machine.cpus(&[(7, 300)]);
    let cpu = capture.capture().cpu.unwrap();
    assert_eq!(cpu.percent_per_cpu, Some(vec![Some(50.0)]));
}

#[test]
fn a_disk_that_appears_is_known_for_what_it_is() {
    let machine = Machine::new();
    let capture = machine.capture();
    assert_eq!(capture.capture().disk.unwrap().io_sum.unwrap().read_count, Some(1));
    machine.disks(&["vda", "vda1", "vdb", "cciss/c0d0"], &["vda", "vdb", "cciss!c0d0"]);
    assert_eq!(capture.capture().disk.unwrap().io_sum.unwrap().read_count, Some(3));
}

#[test]
fn idle_loop_devices_are_listed_when_asked_for() {
    let machine = Machine::new();
    let idle = |name: &str| format!("7 0 {name} 0 0 0 0 0 0 0 0 0 0 0\n");
    let busy = " 7 1 loop1 1 2 3 4 5 6 7 8 9 10 11\n";
    machine.file(
        "proc/diskstats",
        [&idle("loop0"), busy, &idle("ram3"), &idle("zram0"), &idle("loopback")].concat(),
    );
    let names = |capture: &TelemetryCapture| {
        let disks = capture.capture().disk.unwrap().io_per_disk.unwrap();
        disks.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let capture = machine.capture();
    assert_eq!(names(&capture), ["loop1", "zram0", "loopback"]);
    assert_eq!(names(&capture.with_idle_devices()).len(), 5);
}

#[test]
fn interfaces_may_have_odd_names_and_no_traffic() {
    let machine = Machine::new();
    let mut text = b"Inter-|\n face |\n eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n".to_vec();
    text.extend_from_slice(b"w\xfflan\":5 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    text.extend_from_slice(b"  down: 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0\n");
    machine.file("proc/net/dev", text);
    let capture = machine.capture();
    let network = capture.capture().network.unwrap();
    let each = network.netio_per_interface.unwrap();
    let names: Vec<_> = each.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["eth0:1", "w\u{fffd}lan\""]);
    assert_eq!(each["eth0:1"].bytes_recv, 1);
    assert_eq!(network.netio_sum.unwrap().errout, 23);
}

#[test]
fn what_cannot_be_read_has_a_reason() {
    let machine = Machine::new();
    for path in ["proc/stat", "proc/meminfo", "proc/diskstats", "proc/net/dev", "proc/self/io"] {
        fs::remove_file(machine.root().join(path)).unwrap();
    }
    let now = machine.now();
    for field in [
        "cpu.percent_all",
        "memory.virtual",
        "memory.swap",
        "disk.io_sum",
        "disk.io_per_disk",
        "network.netio_sum",
        "process.io_counters",
        "process.memory_percent",
    ] {
        let reason = now.reason(field).unwrap_or_else(|| panic!("{field} has no reason: {now:?}"));
        let told = reason.ends_with(": No such file or directory") || reason.contains("not known");
        assert!(told, "{field}: {reason}");
    }
    assert!(now.disk.unwrap().disk_usage.is_some());
}

#[test]
fn garbage_is_no_number() {
    let garbage: [&[u8]; 6] =
        [b"", b"\n", b"cpu\n", b"\xff\xfe\0\0", b"cpu  x y z\ncpu0", b"one two three\nfour"];
    for text in garbage {
        let machine = Machine::new();
        let capture = machine.capture();
        for path in [
            "proc/stat",
            "proc/meminfo",
            "proc/vmstat",
            "proc/net/dev",
            "proc/self/io",
            "proc/self/statm",
        ] {
            machine.file(path, text);
        }
        if !text.is_empty() {
            machine.file("proc/diskstats", text);
        }
        let now = capture.capture();
        for field in ["cpu", "memory", "network", "process.io_counters", "process.memory"] {
            let reason = now.reason(field).unwrap_or_else(|| panic!("{field}: {now:?}"));
            assert!(reason.ends_with("its content is not as expected"), "{reason}");
        }
    }
}

#[test]
fn a_text_may_end_anywhere() {
    let machine = Machine::new();
    let capture = machine.capture();
    for path in ["proc/stat", "proc/meminfo", "proc/diskstats", "proc/net/dev", "proc/self/statm"] {
        let whole = fs::read(machine.root().join(path)).unwrap();
        for length in 0..whole.len().min(200) {
            machine.file(path, &whole[..length]);
            _ = capture.capture();
        }
        machine.file(path, whole);
    }
    assert!(capture.capture().disk.unwrap().io_sum.is_some());
}

#[test]
fn huge_numbers_become_the_largest() {
    let machine = Machine::new();
    let huge = "99999999999999999999999999";
    machine
        .file("proc/stat", format!("cpu {huge} {huge} {huge} {huge} 0\ncpu0 {huge} 0 0 {huge}\n"));
    machine.file("proc/meminfo", MEMINFO.replace("1000", huge));
    machine.file("proc/diskstats", format!(" 1 1 vda {}\n", format!("{huge} ").repeat(11)));
    machine.file("proc/net/dev", format!("Inter-|\n|\neth0: {}\n", format!("{huge} ").repeat(16)));
    machine.file("proc/self/statm", format!("{huge} ").repeat(7));
    let now = machine.now();
    assert_eq!(now.network.unwrap().netio_sum.unwrap().bytes_recv, u64::MAX);
    assert_eq!(now.memory.unwrap().r#virtual.unwrap().total, u64::MAX);
    assert_eq!(now.disk.unwrap().io_sum.unwrap().read_bytes, u64::MAX);
}

#[test]
fn a_line_that_is_missing_costs_its_field() {
    let machine = Machine::new();
    machine.file("proc/meminfo", MEMINFO.replace("MemAvailable:  600 kB\n", ""));
    let now = machine.now();
    let memory = now.memory.as_ref().unwrap();
    assert_eq!(memory.r#virtual, None);
    assert!(memory.swap.is_some());
    assert!(now.reason("memory.virtual").is_some());
    machine.file(
        "proc/meminfo",
        "SReclaimable: 1 kB\nMemAvailable: 2 kB\nMemTotal: 4 kB\nMemFree: 1 kB\n",
    );
    let now = machine.now();
    assert_eq!(now.memory.as_ref().unwrap().r#virtual.as_ref().unwrap().percent, 50.0);
    assert!(now.reason("memory.swap").is_some());
}

#[test]
fn swap_counters_are_read_when_there_is_swap() {
    let machine = Machine::new();
    let capture = machine.capture();
    let sin = || capture.capture().memory.unwrap().swap.unwrap().sin;
    let vmstat = |pages: u64| machine.file("proc/vmstat", format!("pswpin {pages}\npswpout 5\n"));
    assert_eq!(sin(), pages(3));
    // Without swap space the counters cannot change, so they are not read again.
    vmstat(4);
    assert_eq!(sin(), pages(3));
    machine.file("proc/meminfo", MEMINFO.replace("SwapTotal: 0", "SwapTotal: 100"));
    assert_eq!(sin(), pages(4));
    vmstat(6);
    assert_eq!(sin(), pages(6));
    // After swap was turned off, the counters are read once more.
    vmstat(7);
    machine.file("proc/meminfo", MEMINFO);
    assert_eq!(sin(), pages(7));
}

#[test]
fn frequencies_come_from_where_they_change() {
    let mhz = |machine: &Machine| machine.now().cpu.unwrap().frequency;
    let machine = Machine::new();
    let capture = machine.capture();
    let cpuinfo = |mhz: &str| {
        format!(
            "processor: 0\nflags: fpu aperfmperf\ncpu MHz: {mhz}\nprocessor: 1\ncpu MHz: 1000.0\n"
        )
    };
    assert_eq!(capture.capture().cpu.unwrap().frequency, Some(2000.5));
    machine.file("proc/cpuinfo", cpuinfo("2000.0"));
    assert_eq!(capture.capture().cpu.unwrap().frequency, Some(2000.5), "known to be constant");
    let capture = machine.capture();
    assert_eq!(capture.capture().cpu.unwrap().frequency, Some(1500.0));
    machine.file("proc/cpuinfo", cpuinfo("3000.0"));
    assert_eq!(capture.capture().cpu.unwrap().frequency, Some(2000.0));
    for (policy, khz) in [(0, 1_000_000), (1, 2_000_000), (40, 3_000_000)] {
        let path = format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_cur_freq");
        machine.file(&path, format!("{khz}\n"));
    }
    assert_eq!(mhz(&machine), Some(2000.0));
    let machine = Machine::new();
    machine.file("proc/cpuinfo", "processor: 0\nCPU implementer: 0x41\n");
    assert_eq!(mhz(&machine), None);
    assert!(machine.now().reason("cpu.frequency").is_some());
}

#[test]
fn each_type_comes_alone() {
    let machine = Machine::new();
    for one in Types::host().iter() {
        let capture = TelemetryCapture::below(machine.root(), Types::from([one]));
        let json = serde_json::to_value(capture.capture()).unwrap();
        let parts: Vec<_> =
            json.as_object().unwrap().keys().filter(|key| *key != "unavailable").collect();
        assert_eq!(parts, [crate::capture::part_of(one)], "{one:?}");
    }
    let per_cpu = TelemetryCapture::below(machine.root(), Types::from([TelemetryType::PerCpu]));
    let cpu = per_cpu.capture().cpu.unwrap();
    assert!(cpu.times_avg.is_none() && cpu.times_per_cpu.is_some());
}

fn content(file: &ProcFile, buffer: &mut Vec<u8>) -> Vec<u8> {
    file.read_checked(buffer, |text| Some(text.to_vec())).unwrap()
}

#[test]
#[allow(unsafe_code)]
fn a_descriptor_that_somebody_else_took_is_left_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
    std::fs::write(&ours, "1").unwrap();
    std::fs::write(&theirs, "2").unwrap();

    let buffer = &mut Vec::new();
    let held = ProcFile::existing(ours).unwrap();
    let number = held.number().unwrap();
    let other = fs::File::open(&theirs).unwrap();
    // SAFETY: both descriptors are open; what the first stood for is closed, as a program might
    // do.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
    assert_eq!(content(&held, buffer), b"1", "it was opened anew");
    drop(held);
    // SAFETY: the call only queries; a closed descriptor gives -1.
    assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
    // SAFETY: nobody else uses this descriptor any more.
    unsafe { libc::close(number) };
}

#[test]
#[allow(unsafe_code)]
fn a_descriptor_that_another_of_ours_took_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    std::fs::write(&first, "1").unwrap();
    std::fs::write(&second, "2").unwrap();

    let (held, buffer) = (ProcFile::existing(first).unwrap(), &mut Vec::new());
    assert_eq!(content(&held, buffer), b"1");
    let number = held.number().unwrap();
    let other = ProcFile::existing(second).unwrap();
    let instead = other.number().unwrap();
    // As if the program had closed the first before the second was opened.
    // SAFETY: both descriptors are open, and what the first stood for is ours.
    assert_eq!(unsafe { libc::dup2(instead, number) }, number);
    assert_eq!(content(&held, buffer), b"1", "it was opened anew");
    assert_eq!(content(&other, buffer), b"2");
    // SAFETY: nobody else uses this descriptor any more.
    unsafe { libc::close(number) };
}
