//! Captures, ours and those of other libraries.
#![allow(unsafe_code)]

use std::hint::black_box;

use runlore::telemetry::{Snapshot, Telemetry, TelemetryCapture, TelemetryType, Types, usage};

/// What a process inherits depends on who started it, and costs every contender that counts descriptors.
pub(crate) fn close_inherited() {
    // SAFETY: nothing was opened yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Every type but graphics processors, with something to compare percentages with.
pub(crate) fn complete() -> TelemetryCapture {
    let capture = TelemetryCapture::new(Types::host());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let taken = capture.capture();
    assert!(taken.unavailable.is_empty(), "not complete: {:?}", taken.unavailable);
    capture
}

pub(crate) fn process_only() -> Types {
    Types::from([TelemetryType::ProcessInfo])
}

pub(crate) fn capture_into(capture: &TelemetryCapture, bytes: &mut Vec<u8>) {
    capture_types_into(capture, Types::host(), bytes);
}

pub(crate) fn capture_types_into(capture: &TelemetryCapture, types: Types, bytes: &mut Vec<u8>) {
    bytes.clear();
    capture.capture_into(types, bytes);
    black_box(&bytes);
}

pub(crate) fn light() {
    black_box(usage::thread());
}

/// A capture that was taken.
pub(crate) struct Taken(Vec<u8>);

pub(crate) fn taken(capture: &TelemetryCapture) -> Taken {
    let mut bytes = Vec::new();
    capture_into(capture, &mut bytes);
    Taken(bytes)
}

impl Taken {
    pub(crate) fn decode(&self) -> Telemetry {
        Snapshot(&self.0).decode().expect("a capture")
    }

    pub(crate) fn write_json(&self, text: &mut Vec<u8>) {
        text.clear();
        assert!(Snapshot(&self.0).write_json(text));
        black_box(&text);
    }
}

/// What each library can tell of the same, read as its documentation says.
pub(crate) mod by_procfs {
    use std::hint::black_box;

    use procfs::process::Process;
    use procfs::{Current, CurrentSI};

    pub(crate) fn capture() {
        let process = Process::myself().expect("this process");
        black_box(procfs::KernelStats::current().expect("stat"));
        black_box(procfs::CpuInfo::current().expect("cpuinfo"));
        black_box(procfs::Meminfo::current().expect("meminfo"));
        black_box(procfs::vmstat().expect("vmstat"));
        black_box(procfs::diskstats().expect("diskstats"));
        black_box(procfs::net::dev_status().expect("net/dev"));
        black_box(process.stat().expect("stat"));
        black_box(process.statm().expect("statm"));
        black_box(process.io().expect("io"));
        black_box(process.status().expect("status"));
        black_box(process.fd_count().expect("fd"));
    }
}

/// As [`by_procfs`].
pub(crate) mod by_sysinfo {
    use std::hint::black_box;

    use sysinfo::{Disks, Networks, Pid, ProcessRefreshKind, ProcessesToUpdate, System};

    pub(crate) struct Peer {
        system: System,
        disks: Disks,
        networks: Networks,
        pid: Pid,
    }

    impl Peer {
        pub(crate) fn new() -> Self {
            Self {
                system: System::new().expect("a system"),
                disks: Disks::new_with_refreshed_list().expect("disks"),
                networks: Networks::new_with_refreshed_list().expect("networks"),
                pid: sysinfo::get_current_pid().expect("this process"),
            }
        }

        pub(crate) fn capture(&mut self) {
            self.system.refresh_cpu_all();
            self.system.refresh_memory();
            let everything = ProcessRefreshKind::everything();
            let this = ProcessesToUpdate::Some(&[self.pid]);
            self.system.refresh_processes_specifics(this, true, everything);
            self.disks.refresh(true);
            self.networks.refresh(true);
            black_box(&self.system);
        }
    }
}
