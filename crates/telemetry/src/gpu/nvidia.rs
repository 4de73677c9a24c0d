//! NVIDIA GPUs, read through NVML.

use std::env;

use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde_json::{Value, json};

use super::info::{GpuDevice, GpuInfo};
use super::reading::{Devices, Draft, told};
use super::visible::{self, MigInstance, NvidiaDevice};
use runlore_core::settings::GpuVendor;

pub(super) struct Nvidia {
    nvml: Nvml,
    /// Number of all devices.
    count: usize,
    visible: Vec<VisibleDevice>,
    /// Why the program may use no device.
    nothing: Option<String>,
    /// Why the numbers of the devices may differ from those that the program uses.
    doubt: Option<String>,
}

/// A device that the program may use.
struct VisibleDevice {
    /// `gpu_0`, with NVML's index; `gpu_0_mig_1` for a MIG instance.
    name: String,
    /// `gpu_0`, also for a MIG instance: energy is counted for the whole device.
    device: String,
    uuid: String,
    /// The UUID of the MIG instance, if the program may use only that.
    part: Option<String>,
}

/// Memory of a device, in bytes.
struct Memory {
    total: u64,
    free: u64,
    /// `None` with drivers before 510.
    reserved: Option<u64>,
}

impl Nvidia {
    pub(super) fn open() -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(error) => {
                format!("NVIDIA: libnvidia-ml.so.1 cannot be loaded: {error}")
            }
            error => told("NVIDIA: NVML", error),
        })?;
        let count = nvml.device_count().map_err(|error| told("NVIDIA: NVML", error))?;
        let mut devices = Vec::new();
        let mut names = Vec::new();
        for index in 0..count {
            // A lost device keeps its index.
            let device = nvml.device_by_index(index);
            names.push(device.as_ref().ok().and_then(|device| device.name().ok()));
            devices.push(device.map_or_else(|_| NvidiaDevice::default(), |device| named(&device)));
        }
        let variable = |name| env::var(name).ok();
        let left = visible::in_container(variable("NVIDIA_VISIBLE_DEVICES").as_deref(), &devices);
        let devices_left: Vec<_> = left.iter().map(|index| devices[*index].clone()).collect();
        let by_cuda = variable("CUDA_VISIBLE_DEVICES");
        let chosen = visible::by_cuda(by_cuda.as_deref(), &devices_left);
        let is_ordered = env::var("CUDA_DEVICE_ORDER").is_ok_and(|order| order == "PCI_BUS_ID");
        let are_alike = names.windows(2).all(|two| two[0] == two[1]);
        let is_doubtful = visible::is_by_number(by_cuda.as_deref()) && !is_ordered && !are_alike;
        let doubt = is_doubtful.then(|| {
            "CUDA_VISIBLE_DEVICES counts the fastest device first, NVML by the bus: set \
             CUDA_DEVICE_ORDER=PCI_BUS_ID, or name devices by their UUIDs"
                .to_owned()
        });
        let visible = chosen.into_iter().map(|visible| {
            let index = left[visible.index];
            let device = format!("gpu_{index}");
            VisibleDevice {
                name: match &visible.part {
                    Some(part) => format!("{device}_mig_{}", part.index),
                    None => device.clone(),
                },
                device,
                uuid: devices[index].uuid.clone(),
                part: visible.part.map(|part| part.uuid),
            }
        });
        let visible: Vec<VisibleDevice> = visible.collect();
        let nothing = visible.is_empty().then(|| match &by_cuda {
            Some(value) if count > 0 => {
                visible::hidden("CUDA_VISIBLE_DEVICES", value, devices.len())
            }
            _ => "NVML lists no devices".to_owned(),
        });
        Ok(Self { nvml, count: count as usize, visible, nothing, doubt })
    }
}

/// Returns the names by which environment variables may select a device.
fn named(device: &Device<'_>) -> NvidiaDevice {
    let count = device.mig_device_count().unwrap_or(0);
    let uuid = device.uuid().unwrap_or_default();
    let parts = (0..count).filter_map(|index| {
        let part = device.mig_device_by_index(index).ok()?;
        let numbers = raw::instances(&part).ok();
        let old_name = numbers.map(|(gpu, compute)| format!("MIG-{uuid}/{gpu}/{compute}"));
        Some(MigInstance { index, uuid: part.uuid().ok()?, old_name })
    });
    let parts = parts.collect();
    NvidiaDevice { uuid, parts }
}

impl Devices for Nvidia {
    fn vendor(&self) -> GpuVendor {
        GpuVendor::Nvidia
    }

    fn count(&self) -> usize {
        self.count
    }

    fn nothing(&self) -> Option<&str> {
        self.nothing.as_deref()
    }

    fn info(&self) -> GpuInfo {
        let mut info =
            GpuInfo { vendor: "nvidia".to_owned(), count: self.count as u64, ..GpuInfo::default() };
        let nvml = |error| told("NVML", error);
        let driver = self.nvml.sys_driver_version().map_err(nvml);
        info.driver_version = info.known("driver_version", driver);
        let library = self.nvml.sys_nvml_version().map_err(nvml);
        info.library_version = info.known("library_version", library);
        for place in &self.visible {
            let device = self.nvml.device_by_uuid(&*place.uuid).map_err(nvml);
            let Some(device) = info.known(&place.name, device) else { continue };
            let part = place.part.as_ref().and_then(|part| self.nvml.device_by_uuid(&**part).ok());
            let part = part.as_ref().unwrap_or(&device);
            let name = |what: &str| format!("{}.{what}", place.name);
            let about = GpuDevice {
                name: info.known(&name("name"), part.name().map_err(nvml)),
                uuid: info.known(&name("uuid"), part.uuid().map_err(nvml)),
                memory_total: info
                    .known(&name("memory_total"), memory(part).map_err(nvml))
                    .map(|memory| memory.total),
                pci_bus_id: info
                    .known(&name("pci_bus_id"), device.pci_info().map_err(nvml))
                    .map(|pci| pci.bus_id),
            };
            info.devices.insert(place.name.clone(), about);
        }
        info
    }

    fn read(&mut self, draft: &mut Draft<'_>) {
        if let Some(doubt) = self.doubt.as_ref().filter(|_| draft.wanted.metrics) {
            draft.missing("gpu.order".to_owned(), doubt.clone());
        }
        for (at, place) in self.visible.iter().enumerate() {
            // MIG instances of one device share its energy counter.
            let is_first = self.visible[..at].iter().all(|other| other.device != place.device);
            let wants_energy = draft.wanted.energy && is_first;
            // By UUID, because the indices change when a device falls off the bus.
            let device = match self.nvml.device_by_uuid(&*place.uuid) {
                Ok(device) => device,
                Err(error) => {
                    let reason = told("NVML", error);
                    if draft.wanted.metrics {
                        draft.missing(format!("gpu.{}", place.name), reason.clone());
                    }
                    if wants_energy {
                        draft.missing(format!("energy.nvml:{}", place.device), reason);
                    }
                    continue;
                }
            };
            let part = place.part.as_ref().and_then(|part| self.nvml.device_by_uuid(&**part).ok());
            draft.device(&place.name, |metric| {
                value(metric, &device, part.as_ref().unwrap_or(&device))
                    .map_err(|error| told("NVML", error))
            });
            if wants_energy {
                let millijoules = device.total_energy_consumption();
                let microjoules = millijoules.map(|millijoules| millijoules.saturating_mul(1000));
                draft.energy(
                    format!("nvml:{}", place.device),
                    microjoules.map_err(|error| told("NVML", error)),
                );
            }
        }
    }
}

/// Reads a metric. Memory and identity are those of `part`, the MIG instance that the program may
/// use, or the device itself.
fn value(metric: &str, device: &Device<'_>, part: &Device<'_>) -> Result<Value, String> {
    let said = |error: NvmlError| error.to_string();
    Ok(match metric {
        "used" => memory(part).map(|memory| json!(memory.total - memory.free)).map_err(said)?,
        "memory.total" => json!(memory(part).map_err(said)?.total),
        "memory.free" => json!(memory(part).map_err(said)?.free),
        "memory.reserved" => {
            let reserved = memory(part).map_err(said)?.reserved;
            json!(reserved.ok_or("this driver does not tell it: 510 is the first that does")?)
        }
        "temperature" => json!(device.temperature(TemperatureSensor::Gpu).map_err(said)?),
        "power" => json!(device.power_usage().map_err(said)?),
        "name" => json!(part.name().map_err(said)?),
        "id" => json!(part.uuid().map_err(said)?),
        "utilization.gpu" => json!(device.utilization_rates().map_err(said)?.gpu),
        "utilization.memory" => json!(device.utilization_rates().map_err(said)?.memory),
        "clocks.graphics" => json!(device.clock_info(Clock::Graphics).map_err(said)?),
        "clocks.sm" => json!(device.clock_info(Clock::SM).map_err(said)?),
        "clocks.memory" => json!(device.clock_info(Clock::Memory).map_err(said)?),
        "clocks.video" => json!(device.clock_info(Clock::Video).map_err(said)?),
        "fan" => {
            let count = device.num_fans().map_err(said)?;
            let each: Result<Vec<_>, _> = (0..count).map(|fan| device.fan_speed(fan)).collect();
            json!(each.map_err(said)?)
        }
        "energy" => json!(device.total_energy_consumption().map_err(said)?),
        "pcie.tx" => json!(device.pcie_throughput(PcieUtilCounter::Send).map_err(said)?),
        "pcie.rx" => json!(device.pcie_throughput(PcieUtilCounter::Receive).map_err(said)?),
        "throttle" => {
            let reasons = device.current_throttle_reasons().map_err(said)?;
            let names = reasons.iter_names().map(|(name, _)| name.to_lowercase());
            json!(names.collect::<Vec<_>>())
        }
        "ecc.corrected" => json!(ecc(device, MemoryError::Corrected).map_err(said)?),
        "ecc.uncorrected" => json!(ecc(device, MemoryError::Uncorrected).map_err(said)?),
        "mig.enabled" => json!(device.mig_mode().map_err(said)?.current != 0),
        "mig.devices" => {
            let most = device.mig_device_count().map_err(said)?;
            json!((0..most).filter(|index| device.mig_device_by_index(*index).is_ok()).count())
        }
        "process_memory" => json!(process_memory(part)?),
        _ => return Err("this version does not read it".to_owned()),
    })
}

/// Returns the ECC errors since the driver was loaded.
fn ecc(device: &Device<'_>, kind: MemoryError) -> Result<u64, NvmlError> {
    device.total_ecc_errors(kind, EccCounter::Volatile)
}

fn memory(device: &Device<'_>) -> Result<Memory, NvmlError> {
    match device.memory_info() {
        Ok(info) => {
            Ok(Memory { total: info.total, free: info.free, reserved: Some(info.reserved) })
        }
        Err(NvmlError::FailedToLoadSymbol(_)) => raw::memory(device),
        Err(error) => Err(error),
    }
}

/// Returns the memory of the device that this process uses, in bytes.
fn process_memory(device: &Device<'_>) -> Result<u64, String> {
    let driver = device.nvml().sys_driver_version().map_err(|error| error.to_string())?;
    if lists_processes_otherwise(&driver) {
        return Err(format!(
            "the driver {driver} lists processes in a form of its own: 535.98 and others do not"
        ));
    }
    let mut known = device.running_compute_processes().map_err(|error| error.to_string())?;
    known.extend(device.running_graphics_processes().unwrap_or_default());
    let own = std::process::id();
    match known.iter().find(|process| process.pid == own).map(|own| &own.used_gpu_memory) {
        Some(UsedGpuMemory::Used(bytes)) => Ok(*bytes),
        Some(UsedGpuMemory::Unavailable) => Err("it does not tell it".to_owned()),
        None => Err(
            "it does not list this process: it uses no memory there, or is in a container that has numbers of its own"
                .to_owned(),
        ),
    }
}

/// Whether this driver's list of processes has longer entries than that of all other drivers, under
/// the same function name.
fn lists_processes_otherwise(driver: &str) -> bool {
    let mut numbers = driver.split('.').map(|number| number.parse::<u32>().unwrap_or(u32::MAX));
    numbers.next() == Some(535) && numbers.next().is_some_and(|minor| minor < 98)
}

/// Functions of NVML that the crate does not wrap.
#[allow(unsafe_code)]
mod raw {
    use nvml_wrapper::Device;
    use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};

    use super::Memory;

    /// Reads the memory with the function that drivers before 510 have.
    pub(super) fn memory(device: &Device<'_>) -> Result<Memory, NvmlError> {
        let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
        let mut info = [0_u64; 3];
        // SAFETY: the handle is that of a device of this library, and what it writes are three
        // numbers of this size.
        nvml_try(unsafe { call(device.handle(), info.as_mut_ptr().cast()) })?;
        let [total, free, _] = info;
        Ok(Memory { total, free, reserved: None })
    }

    /// Returns the numbers of a MIG instance: its GPU instance ID and its compute instance ID.
    pub(super) fn instances(part: &Device<'_>) -> Result<(u32, u32), NvmlError> {
        let of_gpu = nvml_sym(part.nvml().lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
        let of_compute = nvml_sym(part.nvml().lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
        let (mut gpu, mut compute) = (0, 0);
        // SAFETY: the handle is that of a part of a device of this library, and each writes one
        // number of this size.
        unsafe {
            nvml_try(of_gpu(part.handle(), &raw mut gpu))?;
            nvml_try(of_compute(part.handle(), &raw mut compute))?;
        }
        Ok((gpu, compute))
    }
}
