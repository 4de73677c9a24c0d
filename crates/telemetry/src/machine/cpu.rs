//! The CPUs, under the names that py-cpuinfo uses.

use super::caches::Cache;
use super::cpuid;
use super::cpuinfo::CpuInfo;
use super::facts::{Reasons, facts};
use super::system::{self, cpus_in_list};
use crate::root::Root;

facts! {
    /// The CPUs. Names, units and formats are py-cpuinfo's for the fields that it has.
    pub struct Cpu {
        /// The architecture: `X86_64`, `ARM_8`, …
        pub arch: String,
        /// The architecture, as the system calls it.
        pub arch_string_raw: String,
        /// Address width in bits.
        pub bits: u32,
        /// CPUs that are online.
        pub count: u64,
        /// CPUs that this process may use at once. Its affinity and its container's quota may make
        /// this fewer than `count`.
        pub usable: u64,
        /// Cores. A core may have several CPUs (hardware threads).
        pub cores: u64,
        /// Sockets.
        pub sockets: u64,
        /// The vendor: `GenuineIntel`, `AuthenticAMD`, `ARM`, …
        pub vendor_id_raw: String,
        /// The product name.
        pub brand_raw: String,
        /// The advertised clock frequency, formatted for people.
        pub hz_advertised_friendly: String,
        /// The current clock frequency of the first CPU, formatted for people.
        pub hz_actual_friendly: String,
        /// The advertised clock frequency: whole hertz, and a fraction that is always 0.
        pub hz_advertised: [u64; 2],
        /// The current clock frequency of the first CPU, in the same form.
        pub hz_actual: [u64; 2],
        /// The CPU family.
        pub family: u32,
        /// The model within the family.
        pub model: u32,
        /// The stepping of the model.
        pub stepping: u32,
        /// Features of the CPU, sorted, under the kernel's names.
        pub flags: Vec<String>,
        /// Size of all level 1 data caches together, in bytes.
        pub l1_data_cache_size: u64,
        /// Size of all level 1 instruction caches together, in bytes.
        pub l1_instruction_cache_size: u64,
        /// Size of all level 2 caches together, in bytes.
        pub l2_cache_size: u64,
        /// Size of a line of a level 2 cache, in bytes.
        pub l2_cache_line_size: u64,
        /// Associativity of a level 2 cache.
        pub l2_cache_associativity: u64,
        /// Size of all level 3 caches together, in bytes.
        pub l3_cache_size: u64,
        /// The hypervisor, if the machine is virtual.
        pub hypervisor: String,
        /// ARM: the number of the implementer.
        pub implementer: String,
        /// ARM: the number of the design.
        pub part: String,
        /// ARM: the major revision.
        pub variant: String,
        /// ARM: the minor revision.
        pub revision: String,
    }
}

pub(super) fn read(root: &Root, caches: &[Cache], reasons: &mut Reasons) -> Cpu {
    let info = match root.read("/proc/cpuinfo") {
        Ok(text) => CpuInfo::parse(&text),
        Err(why) => {
            reasons.note("cpu.flags", why);
            CpuInfo::default()
        }
    };
    let told = if root.is_live() { cpuid::ask() } else { cpuid::CpuIdFacts::default() };
    let machine = system::machine(root);
    let known = machine.as_deref().and_then(architecture);
    let field = |names: &[&str]| info.get(names).map(str::to_owned);
    let words = |text: &str| -> Vec<String> {
        let mut words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
        words.sort_unstable();
        words.dedup();
        words
    };

    let implementer = field(&["CPU implementer"]);
    let part = field(&["CPU part"]);
    let design = implementer.as_deref().and_then(|maker| arm_design(maker, part.as_deref()?));
    let mut cpu = Cpu {
        arch: known.map(|(name, _)| name.to_owned()),
        bits: known.map(|(_, bits)| bits),
        arch_string_raw: machine,
        count: count(root, &info),
        usable: usable(root),
        cores: info.cores(),
        sockets: info.sockets(),
        vendor_id_raw: told
            .vendor
            .or_else(|| field(&["vendor_id", "vendor"]))
            .or_else(|| implementer.as_deref().and_then(arm_maker).map(str::to_owned)),
        brand_raw: told
            .brand
            .or_else(|| field(&["model name", "cpu", "Processor", "uarch"]))
            .or_else(|| design.map(str::to_owned)),
        family: told.family.or_else(|| info.number(&["cpu family"])),
        model: told.model.or_else(|| info.number(&["model"])),
        stepping: told.stepping.or_else(|| info.number(&["stepping"])),
        flags: info.get(&["flags", "Features", "features", "isa"]).map(words),
        hypervisor: told.hypervisor,
        variant: field(&["CPU variant"]),
        revision: field(&["CPU revision"]),
        implementer,
        part,
        ..Cpu::default()
    };
    clock(&mut cpu, root, &info, told.base_hz);
    sizes(&mut cpu, caches);
    explain(&cpu, reasons);
    cpu
}

/// Records why fields are absent. Existing reasons stay.
fn explain(cpu: &Cpu, reasons: &mut Reasons) {
    let arm = cpu.arch.as_deref().is_some_and(|arch| arch.starts_with("ARM"));
    cpu.explain("cpu", reasons, |field| match field {
        "implementer" | "part" | "variant" | "revision" if !arm => "only ARM processors have it",
        "family" | "model" | "stepping" if arm => {
            "ARM processors have a part and a revision instead"
        }
        "hypervisor" => "the processor names none",
        _ => "neither the processor nor the kernel tells it",
    });
}

fn count(root: &Root, info: &CpuInfo) -> Option<u64> {
    let online = root.value::<String>("/sys/devices/system/cpu/online");
    let online = online.map(|list| cpus_in_list(&list).len()).filter(|count| *count > 0);
    let count = online.or(Some(info.processors).filter(|count| *count > 0));
    count.map(|count| count as u64).or_else(|| usable(root))
}

fn usable(root: &Root) -> Option<u64> {
    let usable = root.is_live().then(std::thread::available_parallelism)?;
    Some(usize::from(usable.ok()?) as u64)
}

fn clock(cpu: &mut Cpu, root: &Root, info: &CpuInfo, base_hz: Option<u64>) {
    const CPUFREQ: &str = "/sys/devices/system/cpu/cpu0/cpufreq";
    let from_kernel = |name: &str| {
        root.value::<u64>(&format!("{CPUFREQ}/{name}")).and_then(|khz| khz.checked_mul(1000))
    };
    let said = info.get(&["cpu MHz", "cpu MHz dynamic", "clock"]);
    let said = said.and_then(|mhz| mhz.trim_end_matches("MHz").parse::<f64>().ok());
    let said = said.filter(|mhz| *mhz > 0.0).map(|mhz| (mhz * 1e6).round() as u64);
    // If the frequency is fixed, the kernel's number is the advertised one.
    let changes = root.at(CPUFREQ).exists()
        || cpu.flags.as_ref().is_some_and(|flags| flags.iter().any(|flag| flag == "aperfmperf"));
    let advertised = cpu.brand_raw.as_deref().and_then(hz_in_brand).or(base_hz);
    let advertised =
        advertised.or_else(|| from_kernel("base_frequency")).or_else(|| said.filter(|_| !changes));
    let actual = from_kernel("scaling_cur_freq").or(said);
    let friendly = |hz: u64| format!("{:.4} GHz", hz as f64 / 1e9);
    cpu.hz_advertised = advertised.map(|hz| [hz, 0]);
    cpu.hz_advertised_friendly = advertised.map(friendly);
    cpu.hz_actual = actual.map(|hz| [hz, 0]);
    cpu.hz_actual_friendly = actual.map(friendly);
}

/// Parses the frequency in a product name: `Intel(R) Xeon(R) CPU @ 2.20GHz`.
fn hz_in_brand(brand: &str) -> Option<u64> {
    let clock = brand.rsplit_once('@')?.1.trim();
    let (number, unit) = clock.split_at_checked(clock.len().checked_sub(3)?)?;
    let unit = match unit {
        "GHz" => 1e9,
        "MHz" => 1e6,
        _ => return None,
    };
    let hz = number.trim().parse::<f64>().ok()? * unit;
    (hz > 0.0).then_some(hz.round() as u64)
}

fn sizes(cpu: &mut Cpu, caches: &[Cache]) {
    let of = |level: u8, kinds: &[&str]| {
        let mut sum = None;
        for cache in caches {
            if cache.level == level && kinds.contains(&cache.kind.as_str()) {
                sum =
                    Some(cache.size?.checked_mul(cache.instances)?.checked_add(sum.unwrap_or(0))?);
            }
        }
        sum
    };
    cpu.l1_data_cache_size = of(1, &["data", "unified"]);
    cpu.l1_instruction_cache_size = of(1, &["instruction"]);
    cpu.l2_cache_size = of(2, &["data", "unified"]);
    cpu.l3_cache_size = of(3, &["data", "unified"]);
    let second = caches.iter().find(|cache| cache.level == 2);
    cpu.l2_cache_line_size = second.and_then(|cache| cache.line_size);
    cpu.l2_cache_associativity = second.and_then(|cache| cache.ways);
}

/// Returns py-cpuinfo's name of an architecture, and its address width.
fn architecture(machine: &str) -> Option<(&'static str, u32)> {
    Some(match machine {
        "x86_64" | "amd64" => ("X86_64", 64),
        "i386" | "i486" | "i586" | "i686" | "x86" => ("X86_32", 32),
        "aarch64" | "arm64" => ("ARM_8", 64),
        _ if machine.starts_with("armv8") => ("ARM_8", 32),
        _ if machine.starts_with("armv7") => ("ARM_7", 32),
        "ppc64" | "ppc64le" | "powerpc64" => ("PPC_64", 64),
        "s390x" => ("S390X", 64),
        "riscv64" => ("RISCV_64", 64),
        "loongarch64" => ("LOONG_64", 64),
        "mips64" => ("MIPS_64", 64),
        "sparc64" => ("SPARC_64", 64),
        _ => return None,
    })
}

/// Returns the implementer with this number, as ARM assigns them.
fn arm_maker(number: &str) -> Option<&'static str> {
    Some(match number {
        "0x41" => "ARM",
        "0x42" => "Broadcom",
        "0x43" => "Cavium",
        "0x46" => "Fujitsu",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x50" => "APM",
        "0x51" => "Qualcomm",
        "0x53" => "Samsung",
        "0x61" => "Apple",
        "0x6d" => "Microsoft",
        "0xc0" => "Ampere",
        _ => return None,
    })
}

/// Returns the name of an ARM design. Only designs that programs are likely to run on are listed.
fn arm_design(maker: &str, part: &str) -> Option<&'static str> {
    Some(match (maker, part) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd05") => "Cortex-A55",
        ("0x41", "0xd07") => "Cortex-A57",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd41") => "Cortex-A78",
        ("0x41", "0xd42") => "Cortex-A78AE",
        ("0x41", "0xd0c") => "Neoverse-N1",
        ("0x41", "0xd49") => "Neoverse-N2",
        ("0x41", "0xd8e") => "Neoverse-N3",
        ("0x41", "0xd40") => "Neoverse-V1",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x41", "0xd83") => "Neoverse-V3",
        ("0x43", "0x0af") => "ThunderX2-99xx",
        ("0x46", "0x001") => "A64FX",
        ("0x48", "0xd01") => "TaiShan-v110",
        ("0x4e", "0x004") => "Carmel",
        ("0xc0", "0xac3") => "Ampere-1",
        ("0xc0", "0xac4") => "Ampere-1a",
        _ => return None,
    })
}
