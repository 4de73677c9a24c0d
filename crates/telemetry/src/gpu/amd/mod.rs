//! AMD GPUs, read through AMD SMI.
//!
//! The crate `amdsmi` reads some metrics, and [`library`] reads the others from the same library.
//! Both know the library's structures only as certain versions define them. With another version,
//! values in structures are not read, because they would be wrong.

mod find;
mod kfd;
mod library;

use std::cell::OnceCell;
use std::env;
use std::mem::ManuallyDrop;

use amdsmi::{AmdSmi, Processor};
use serde_json::{Value, json};

use self::library::{Handle, Library, Metrics};
use super::info::{GpuDevice, GpuInfo};
use super::reading::{Devices, Draft, told};
use super::visible;
use crate::root::Root;
use runlore_core::settings::GpuVendor;

/// Versions whose functions on plain numbers have the signatures that are used here.
const NUMBERS: std::ops::RangeInclusive<u32> = 24..=27;
/// Versions whose structures are those of the crate.
const STRUCTURES: std::ops::RangeInclusive<u32> = 25..=27;

pub(super) struct Amd {
    library: Library,
    version: u32,
    library_version: String,
    all: Vec<DeviceEntry>,
    /// Indices in `all`.
    visible: Vec<usize>,
    /// Why the program may use no device.
    nothing: Option<String>,
    doubt: Option<String>,
    /// Never dropped: the library does not count its users, so dropping it would shut it down for
    /// the whole program.
    _session: ManuallyDrop<AmdSmi>,
}

struct DeviceEntry {
    /// Such as `gpu_0`.
    name: String,
    processor: Processor,
    /// The handle of the same device, for what the crate does not read.
    handle: Result<Handle, String>,
}

impl Amd {
    pub(super) fn open() -> Result<Self, String> {
        Self::try_open().map_err(|reason| told("AMD", reason))
    }

    fn try_open() -> Result<Self, String> {
        let path = find::library()?;
        let library = Library::open(&path)?;
        // The crate panics if a function is missing.
        for function in [
            "amdsmi_init",
            "amdsmi_shut_down",
            "amdsmi_get_lib_version",
            "amdsmi_get_socket_handles",
            "amdsmi_get_processor_handles",
        ] {
            library.need(function)?;
        }
        let [version, minor, patch] = library.version()?;
        if !NUMBERS.contains(&version) {
            return Err(format!(
                "{} is of version {version}; those from {} to {} are understood",
                path.display(),
                NUMBERS.start(),
                NUMBERS.end()
            ));
        }
        let said = |error: amdsmi::error::AmdSmiError| told("AMD SMI", error);
        let session = ManuallyDrop::new(AmdSmi::init().map_err(said)?);
        let mut processors = Vec::new();
        for socket in session.get_socket_handles().map_err(said)? {
            processors.extend(socket.get_processor_handles().map_err(said)?);
        }
        let handles = library.handles()?;
        let all: Vec<DeviceEntry> = processors
            .into_iter()
            .enumerate()
            .map(|(index, processor)| {
                let handle = same(&library, &handles, &processor);
                DeviceEntry { name: format!("gpu_{index}"), processor, handle }
            })
            .collect();
        let Chosen { visible, nothing, doubt } = Chosen::by_variables(&library, &all);
        let library_version = format!("{version}.{minor}.{patch}");
        let _session = session;
        Ok(Self { library, version, library_version, all, visible, nothing, doubt, _session })
    }
}

/// Finds the handle of the device with the processor's UUID.
fn same(library: &Library, handles: &[Handle], processor: &Processor) -> Result<Handle, String> {
    library.need("amdsmi_get_gpu_device_uuid")?;
    let uuid = processor.get_uuid().map_err(|error| told("AMD SMI", error))?;
    let found = handles.iter().find(|handle| library.uuid(**handle).as_ref() == Ok(&uuid));
    found.copied().ok_or_else(|| format!("AMD SMI lists {uuid} once and then not any more"))
}

/// The devices that the program may use.
struct Chosen {
    /// Their indices in the list of all devices.
    visible: Vec<usize>,
    /// Why no device is visible.
    nothing: Option<String>,
    /// Why this choice may be wrong.
    doubt: Option<String>,
}

impl Chosen {
    fn by_variables(library: &Library, all: &[DeviceEntry]) -> Self {
        let variable = |name| Some((name, env::var(name).ok()?));
        let rocr = variable("ROCR_VISIBLE_DEVICES");
        let hip = variable("HIP_VISIBLE_DEVICES").or_else(|| variable("CUDA_VISIBLE_DEVICES"));
        if all.is_empty() {
            let nothing = Some("AMD SMI lists no devices".to_owned());
            return Self { visible: Vec::new(), nothing, doubt: None };
        }
        if rocr.is_none() && hip.is_none() {
            return Self { visible: (0..all.len()).collect(), nothing: None, doubt: None };
        }
        let addresses: Vec<Option<u64>> =
            all.iter().map(|place| library.address(*place.handle.as_ref().ok()?).ok()).collect();
        let nodes = kfd::nodes(&Root::live());
        let ordered: Vec<(usize, Option<u64>)> = nodes
            .iter()
            .filter_map(|node| {
                let index = addresses.iter().position(|one| *one == Some(node.address))?;
                Some((index, node.unique_id))
            })
            .collect();
        let is_known = !ordered.is_empty();
        let ordered =
            if is_known { ordered } else { (0..all.len()).map(|at| (at, None)).collect() };
        let doubt = (!is_known).then(|| {
            "the variables count devices as the driver does, whose list in /sys/class/kfd does not tell them: AMD \
             SMI's order is used instead"
                .to_owned()
        });
        let ids =
            |places: &[(usize, Option<u64>)]| places.iter().map(|(_, id)| *id).collect::<Vec<_>>();
        let value =
            |variable: &Option<(_, String)>| variable.as_ref().map(|(_, value)| value.clone());
        let left: Vec<_> = visible::by_rocr(value(&rocr).as_deref(), &ids(&ordered))
            .into_iter()
            .map(|at| ordered[at])
            .collect();
        let chosen = visible::by_hip(value(&hip).as_deref(), &ids(&left));
        let visible: Vec<usize> = chosen.into_iter().map(|at| left[at].0).collect();
        let cause = if left.is_empty() { rocr } else { hip };
        let nothing = cause
            .filter(|_| visible.is_empty())
            .map(|(name, value)| visible::hidden(name, &value, all.len()));
        Self { visible, nothing, doubt }
    }
}

impl Devices for Amd {
    fn vendor(&self) -> GpuVendor {
        GpuVendor::Amd
    }

    fn count(&self) -> usize {
        self.all.len()
    }

    fn nothing(&self) -> Option<&str> {
        self.nothing.as_deref()
    }

    fn info(&self) -> GpuInfo {
        let mut info = GpuInfo {
            vendor: "amd".to_owned(),
            library_version: Some(self.library_version.clone()),
            count: self.all.len() as u64,
            ..GpuInfo::default()
        };
        info.driver_version = info.known("driver_version", driver_version());
        for index in &self.visible {
            let place = &self.all[*index];
            let device = Device { place, index: *index, of: self, metrics: OnceCell::new() };
            let name = |what: &str| format!("{}.{what}", place.name);
            let handle = || place.handle.clone();
            let memory = handle().and_then(|handle| self.library.memory_total(handle));
            let address = handle().and_then(|handle| self.library.address(handle));
            let about = GpuDevice {
                name: info.known(&name("name"), device.product_name()),
                uuid: info.known(&name("uuid"), device.uuid()),
                memory_total: info.known(&name("memory_total"), memory),
                pci_bus_id: info.known(&name("pci_bus_id"), address).map(pci_bus_id),
            };
            info.devices.insert(place.name.clone(), about);
        }
        info
    }

    fn read(&mut self, draft: &mut Draft<'_>) {
        if let Some(doubt) = self.doubt.as_ref().filter(|_| draft.wanted.metrics) {
            draft.missing("gpu.order".to_owned(), doubt.clone());
        }
        for index in &self.visible {
            let place = &self.all[*index];
            let device = Device { place, index: *index, of: self, metrics: OnceCell::new() };
            draft.device(&place.name, |metric| device.value(metric));
            if draft.wanted.energy {
                draft.energy(format!("amdsmi:{}", place.name), device.microjoules());
            }
        }
    }
}

/// A device during one reading.
struct Device<'a> {
    place: &'a DeviceEntry,
    index: usize,
    of: &'a Amd,
    metrics: OnceCell<Result<Metrics, String>>,
}

impl Device<'_> {
    fn value(&self, metric: &str) -> Result<Value, String> {
        let processor = &self.place.processor;
        Ok(match metric {
            "gpu_ix" => json!(self.index),
            "id" => json!(self.uuid()?),
            "used" => {
                json!(self.by_crate("amdsmi_get_gpu_memory_usage", || processor.get_vram_usage())?)
            }
            "power.average_socket_power" => {
                self.is_of(STRUCTURES)?;
                json!(self.by_crate("amdsmi_get_power_info", || processor.get_power())?)
            }
            "power.energy_accumulator" => json!(self.energy()?.0),
            "activity.gfx_activity" | "activity.umc_activity" => {
                self.is_of(STRUCTURES)?;
                let usage =
                    self.by_crate("amdsmi_get_gpu_activity", || processor.get_gpu_activity())?;
                let is_gfx = metric.ends_with("gfx_activity");
                let percent = if is_gfx { usage.gpu_usage } else { usage.mem_usage };
                json!(told_at_all(percent, u32::from(u16::MAX))?)
            }
            "temperature.hbm" => {
                self.is_of(STRUCTURES)?;
                let handle = self.place.handle.clone()?;
                json!(self.of.library.memory_temperatures(handle)?)
            }
            _ => {
                let offset = offset(metric).ok_or("this version does not read it")?;
                let metrics = self.metrics.get_or_init(|| {
                    let handle = self.place.handle.clone()?;
                    self.of.library.metrics(handle)
                });
                json!(told_at_all(metrics.as_ref()?.at(offset), u16::MAX)?)
            }
        })
    }

    fn uuid(&self) -> Result<String, String> {
        self.by_crate("amdsmi_get_gpu_device_uuid", || self.place.processor.get_uuid())
    }

    fn product_name(&self) -> Result<String, String> {
        self.is_of(STRUCTURES)?;
        let processor = &self.place.processor;
        let name = self.by_crate("amdsmi_get_gpu_board_info", || processor.get_board_info())?;
        if name.is_empty() { Err(UNTOLD.to_owned()) } else { Ok(name) }
    }

    /// Returns the energy counter, and the microjoules per unit of it.
    fn energy(&self) -> Result<(u64, f64), String> {
        let processor = &self.place.processor;
        let count = self.by_crate("amdsmi_get_energy_count", || processor.get_energy_count())?;
        told_at_all(count.energy_accumulator, u64::MAX)?;
        Ok((count.energy_accumulator, f64::from(count.counter_resolution)))
    }

    fn microjoules(&self) -> Result<u64, String> {
        let (count, each) = self.energy()?;
        if each > 0.0 { Ok((count as f64 * each) as u64) } else { Err(UNTOLD.to_owned()) }
    }

    /// Calls the crate, after checking that the library has the function: without it, the crate
    /// would panic.
    fn by_crate<T>(
        &self,
        function: &str,
        call: impl FnOnce() -> Result<T, amdsmi::error::AmdSmiError>,
    ) -> Result<T, String> {
        self.of.library.need(function)?;
        call().map_err(|error| told("AMD SMI", error))
    }

    fn is_of(&self, versions: std::ops::RangeInclusive<u32>) -> Result<(), String> {
        let version = self.of.version;
        if versions.contains(&version) {
            return Ok(());
        }
        Err(format!(
            "AMD SMI {version} lays it out differently; versions {} to {} (from ROCm 6.4) are understood",
            versions.start(),
            versions.end()
        ))
    }
}

/// Returns the version of the driver. The driver that comes with the kernel has none.
fn driver_version() -> Result<String, String> {
    let text = Root::live().read("/sys/module/amdgpu/version");
    let text =
        text.map_err(|_| "the driver that comes with the kernel has no version of its own")?;
    Ok(text.trim().to_owned())
}

/// Formats a PCI address as `0000:c1:00.0`. From the lowest bits on, the number has 3 bits for the
/// function, 5 for the device, 8 for the bus, and the rest for the domain.
fn pci_bus_id(address: u64) -> String {
    let (domain, bus) = (address >> 16, address >> 8 & 0xff);
    format!("{domain:04x}:{bus:02x}:{:02x}.{:x}", address >> 3 & 0x1f, address & 7)
}

const UNTOLD: &str = "AMD SMI: the device does not tell it";

/// Returns an error if the value is `nothing`. AMD SMI sets all bits of a value that the device
/// does not report.
fn told_at_all<T: PartialEq + Copy>(value: T, nothing: T) -> Result<T, String> {
    if value == nothing { Err(UNTOLD.to_owned()) } else { Ok(value) }
}

/// Returns the offset of a metric in the table of metrics. The beginning of that table is the same
/// in all supported versions.
fn offset(metric: &str) -> Option<usize> {
    Some(match metric {
        "temperature.edge" => 4,
        "temperature.hotspot" => 6,
        "temperature.mem" => 8,
        "temperature.vrgfx" => 10,
        "temperature.vrmem" => 14,
        "activity.mm_activity" => 20,
        "others.current_gfxclk" => 54,
        "others.current_socclk" => 56,
        "others.current_uclk" => 58,
        "others.current_vclk0" => 60,
        "others.current_dclk0" => 62,
        "temperature.fan_speed" => 72,
        _ => return None,
    })
}
