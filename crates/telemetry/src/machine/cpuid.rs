//! The CPUID instruction of x86 processors. Other processors do not have it.

use super::caches::Cache;

/// Values from CPUID.
#[derive(Debug, Default)]
pub(super) struct CpuIdFacts {
    pub(super) vendor: Option<String>,
    pub(super) brand: Option<String>,
    pub(super) family: Option<u32>,
    pub(super) model: Option<u32>,
    pub(super) stepping: Option<u32>,
    pub(super) hypervisor: Option<String>,
    pub(super) base_hz: Option<u64>,
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
pub(super) fn ask() -> CpuIdFacts {
    use raw_cpuid::{CpuId, Hypervisor};

    let cpuid = CpuId::new();
    let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let features = cpuid.get_feature_info();
    let frequency = cpuid.get_processor_frequency_info();
    let base_mhz = frequency.map(|info| u64::from(info.processor_base_frequency()));
    CpuIdFacts {
        vendor: cpuid.get_vendor_info().and_then(|info| text(info.as_str())),
        brand: cpuid.get_processor_brand_string().and_then(|brand| text(brand.as_str())),
        family: features.as_ref().map(|info| u32::from(info.family_id())),
        model: features.as_ref().map(|info| u32::from(info.model_id())),
        stepping: features.as_ref().map(|info| u32::from(info.stepping_id())),
        hypervisor: cpuid.get_hypervisor_info().map(|info| match info.identify() {
            Hypervisor::Unknown(..) => "unknown".to_owned(),
            known => format!("{known:?}"),
        }),
        base_hz: base_mhz.filter(|mhz| *mhz > 0).map(|mhz| mhz * 1_000_000),
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
pub(super) fn caches() -> Vec<Cache> {
    use raw_cpuid::{CacheType, CpuId};

    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let caches = CpuId::new().get_cache_parameters().into_iter().flatten();
    let cache = |cache: raw_cpuid::CacheParameter| {
        let kind = match cache.cache_type() {
            CacheType::Data => "data",
            CacheType::Instruction => "instruction",
            CacheType::Unified => "unified",
            CacheType::Null | CacheType::Reserved => return None,
        };
        let (ways, line) = (cache.associativity(), cache.coherency_line_size());
        let size = ways * line * cache.physical_line_partitions() * cache.sets();
        Some(Cache {
            level: cache.level(),
            kind: kind.to_owned(),
            size: Some(size as u64),
            line_size: Some(line as u64),
            ways: Some(ways as u64),
            instances: cpus.div_ceil(cache.max_cores_for_cache().max(1)) as u64,
            shared_cpus: Vec::new(),
        })
    };
    caches.filter_map(cache).collect()
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
pub(super) fn ask() -> CpuIdFacts {
    CpuIdFacts::default()
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
pub(super) fn caches() -> Vec<Cache> {
    Vec::new()
}
