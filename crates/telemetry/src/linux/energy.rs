//! The energy meters of the machine.
//!
//! CPUs report their energy through powercap (RAPL). Where there is no RAPL, a board may have
//! meters in hwmon, and a laptop has the charge of its batteries. Of meters that count the same
//! energy, only one is read: a package includes its cores, and the platform (`psys`) includes the
//! packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Host;
use super::proc_file::ProcFile;
use crate::energy::Counter;
use crate::reasons::told;
use runlore_core::clock;

/// How long counters may go unread. Less than any counter needs to wrap around: the smallest range
/// is 65 kJ.
const KEEP_UP_NS: u64 = 30_000_000_000;
/// Maximum number of meters. Reading one is cheap, but each keeps a file descriptor open.
const MOST: usize = 32;

/// The meters of the machine.
#[derive(Debug)]
pub(super) struct Meters {
    meters: Vec<Meter>,
    /// One counter per meter. It is locked during a reading, so that no counter seems to run
    /// backwards.
    counters: Mutex<Vec<Counter>>,
    read_at_ns: AtomicU64,
    /// Why there are no meters.
    nothing: Option<String>,
}

#[derive(Debug)]
struct Meter {
    /// Such as `rapl:package-0`.
    name: String,
    file: ProcFile,
    /// Microjoules per unit of the file's value.
    step: u64,
    /// For a battery: the file that says whether it powers the machine.
    status: Option<ProcFile>,
}

impl Host {
    pub(super) fn meters(&self) -> &Meters {
        self.meters.get_or_init(|| Meters::find(&self.root))
    }

    /// Reads the counters if the last reading is too old, so that no wrap-around is missed. Does
    /// nothing if no capture has read them before.
    pub(crate) fn keep_up(&self, now_ns: u64) {
        let Some(meters) = self.meters.get() else { return };
        if now_ns.saturating_sub(meters.read_at_ns.load(Ordering::Relaxed)) > KEEP_UP_NS {
            meters.read(&mut vec![0; 256], |_, _| ());
        }
    }
}

impl Meters {
    fn find(root: &Path) -> Self {
        let found = match powercap(root) {
            found if !found.is_empty() => found,
            _ => match hwmon(root) {
                found if !found.is_empty() => found,
                _ => batteries(root),
            },
        };
        let nothing = found.is_empty().then(|| {
            "this machine shows no meter: none in /sys/class/powercap (RAPL), none in /sys/class/hwmon, and no battery"
                .to_owned()
        });
        let (meters, counters) = found.into_iter().take(MOST).unzip();
        Self { meters, counters: Mutex::new(counters), read_at_ns: AtomicU64::new(0), nothing }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &ProcFile> {
        self.meters.iter().flat_map(|meter| std::iter::once(&meter.file).chain(&meter.status))
    }

    /// Reads all meters. Calls `each` with the name of a meter and its total in microjoules, or why
    /// that is not known.
    pub(super) fn read(
        &self,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&str, Result<u64, String>),
    ) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock::monotonic_ns();
        self.read_at_ns.store(now_ns, Ordering::Relaxed);
        for (meter, counter) in self.meters.iter().zip(&mut *counters) {
            each(&meter.name, meter.read(counter, now_ns, buffer));
        }
    }

    /// Returns why there are no meters.
    pub(super) fn nothing(&self) -> Option<&str> {
        self.nothing.as_deref()
    }
}

impl Meter {
    fn read(
        &self,
        counter: &mut Counter,
        now_ns: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, String> {
        let read = self.file.read_checked(buffer, number);
        let register = read.map_err(|error| self.told(&error))?.saturating_mul(self.step);
        let Some(status) = &self.status else { return counter.advance(register, now_ns) };
        let total = counter.drain(register, now_ns);
        let is_feeding = |text: &[u8]| Some(text.trim_ascii() == b"Discharging");
        match status.read_checked(buffer, is_feeding) {
            Ok(true) => Ok(total),
            Ok(false) => {
                Err("the battery does not feed the machine, so that it does not tell".to_owned())
            }
            Err(error) => Err(told(status.path().display(), &error)),
        }
    }

    fn told(&self, error: &std::io::Error) -> String {
        let path = self.file.path().display();
        let reason = told(&path, error);
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                format!(
                    "{reason}; only root may read it, unless somebody allows it: sudo chmod a+r {path}"
                )
            }
            _ => reason,
        }
    }
}

type FoundMeters = Vec<(Meter, Counter)>;

fn meter(name: String, file: PathBuf, range: Option<u64>) -> (Meter, Counter) {
    (Meter { name, file: ProcFile::new(file), step: 1, status: None }, Counter::new(range))
}

/// Finds the zones of powercap: `intel-rapl:0` is a package or the platform, `intel-rapl:0:1` a
/// part of it. AMD processors use the same names. The zones of `intel-rapl-mmio` are the same
/// packages again, so they are skipped.
fn powercap(root: &Path) -> FoundMeters {
    let folder = root.join("sys/class/powercap");
    let mut zones: Vec<(Vec<u32>, PathBuf)> = entries(&folder)
        .into_iter()
        .filter_map(|(name, path)| {
            let numbers = name.strip_prefix("intel-rapl:")?.split(':');
            Some((numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?, path))
        })
        .collect();
    zones.sort();
    let mut found = Vec::new();
    let mut platform = Vec::new();
    for (numbers, path) in zones {
        let Some(name) = word(&path.join("name")) else { continue };
        let range = word(&path.join("max_energy_range_uj")).and_then(|range| range.parse().ok());
        let file = path.join("energy_uj");
        match (&*numbers, &*name) {
            ([_], "psys") => platform.push(meter("rapl:psys".to_owned(), file, range)),
            ([_], _) => found.push(meter(format!("rapl:{name}"), file, range)),
            // A package does not count its memory.
            ([package, _], "dram") => {
                found.push(meter(format!("rapl:dram-{package}"), file, range));
            }
            _ => {}
        }
    }
    if found.is_empty() { platform } else { found }
}

/// Finds the meters of boards. Meters of single cores are skipped, because their socket includes
/// them. So are those of Intel's GPU drivers, which count nothing but the GPU.
fn hwmon(root: &Path) -> FoundMeters {
    let mut found = Vec::new();
    for (_, path) in entries(&root.join("sys/class/hwmon")) {
        let Some(name) = word(&path.join("name")) else { continue };
        if name.starts_with("i915") || name.starts_with("xe") {
            continue;
        }
        for number in 1.. {
            let file = path.join(format!("energy{number}_input"));
            if !file.exists() {
                break;
            }
            let label = word(&path.join(format!("energy{number}_label")));
            if label.as_ref().is_some_and(|label| label.starts_with("Ecore")) {
                continue;
            }
            let label = label.unwrap_or_else(|| number.to_string());
            found.push(meter(format!("hwmon:{name}-{label}"), file, None));
        }
    }
    found
}

/// Finds the batteries of the machine itself, whose charge is in microwatt-hours.
fn batteries(root: &Path) -> FoundMeters {
    let mut found = Vec::new();
    for (name, path) in entries(&root.join("sys/class/power_supply")) {
        let is_battery = word(&path.join("type")).as_deref() == Some("Battery");
        // The battery of a mouse, for example.
        let is_other = word(&path.join("scope")).as_deref() == Some("Device");
        let file = path.join("energy_now");
        if !is_battery || is_other || !file.exists() {
            continue;
        }
        let (mut meter, counter) = meter(format!("battery:{name}"), file, None);
        meter.step = 3600;
        meter.status = Some(ProcFile::new(path.join("status")));
        found.push((meter, counter));
    }
    found
}

/// Returns the sorted names and paths of a directory's entries.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let mut all: Vec<_> = named.collect();
    all.sort();
    all
}

fn word(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|word| !word.is_empty())
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_root_may_read_says_how_to_allow_it() {
        let (meter, _) = meter("rapl:package-0".to_owned(), PathBuf::from("/sys/energy_uj"), None);
        let denied = std::io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(
            meter.told(&denied),
            "/sys/energy_uj: Permission denied; only root may read it, unless somebody allows it: sudo chmod a+r \
             /sys/energy_uj"
        );
    }
}
