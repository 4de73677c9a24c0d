//! Clock frequency of the CPUs.
//!
//! It is read from sysfs if the kernel scales frequencies, and otherwise from `/proc/cpuinfo`,
//! which is by far the most expensive file. That file is read only once, unless the CPUs count
//! their cycles (the flag `aperfmperf`): without these counts the kernel always reports the same
//! number.

use std::fs;
use std::path::Path;

use super::Host;
use super::proc_file::ProcFile;
use crate::reasons::told;
use crate::scan::Scan;

/// Maximum number of policies whose files stay open, because descriptors are scarce. The files of
/// further policies are opened for each reading.
const MOST_OPEN: usize = 32;

#[derive(Debug)]
pub(super) enum Frequency {
    /// One file per group of CPUs.
    Scaled(Vec<ProcFile>),
    /// `/proc/cpuinfo`, read each time.
    Measured(ProcFile),
    /// A fixed frequency, in MHz.
    Constant(f64),
    Unknown(String),
}

impl Host {
    #[inline]
    pub(super) fn frequency(&self) -> &Frequency {
        self.frequency.get_or_init(|| Frequency::find(&self.root))
    }
}

impl Frequency {
    fn find(root: &Path) -> Self {
        let scaled = policies(root);
        if !scaled.is_empty() {
            return Self::Scaled(scaled);
        }
        let file = ProcFile::of_lines(root.join("proc/cpuinfo"));
        let mut buffer = vec![0; 16 * 1024];
        let mut is_measured = false;
        let read = file.read(&mut buffer, |text| {
            is_measured = has_flag(text, b"aperfmperf");
            Some(mean_mhz(text))
        });
        match read {
            Ok(Some(_)) if is_measured => Self::Measured(file),
            Ok(Some(mhz)) => Self::Constant(mhz),
            Ok(None) => {
                let path = file.path().display();
                Self::Unknown(format!("the kernel scales no frequency, and {path} tells none"))
            }
            Err(error) => Self::Unknown(told(file.path().display(), &error)),
        }
    }

    /// Returns the mean frequency in MHz, or why it is not known.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<f64, String> {
        match self {
            Self::Constant(mhz) => Ok(*mhz),
            Self::Unknown(reason) => Err(reason.clone()),
            Self::Measured(file) => {
                file.read(buffer, mean_mhz).map_err(|error| told(file.path().display(), &error))
            }
            Self::Scaled(policies) => scaled(policies, buffer),
        }
    }

    /// Returns the file that the frequency is read from.
    pub(super) fn source(&self) -> &'static str {
        match self {
            Self::Scaled(_) => "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
            Self::Constant(_) => "/proc/cpuinfo, once",
            Self::Measured(_) | Self::Unknown(_) => "/proc/cpuinfo",
        }
    }

    pub(super) fn files(&self) -> &[ProcFile] {
        match self {
            Self::Scaled(policies) => policies,
            Self::Measured(file) => std::slice::from_ref(file),
            Self::Constant(_) | Self::Unknown(_) => &[],
        }
    }
}

fn policies(root: &Path) -> Vec<ProcFile> {
    let Ok(entries) = fs::read_dir(root.join("sys/devices/system/cpu/cpufreq")) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("policy"))
        .map(|entry| entry.path().join("scaling_cur_freq"))
        .filter(|path| path.exists())
        .collect();
    paths.sort();
    paths.into_iter().map(ProcFile::new).collect()
}

fn scaled(policies: &[ProcFile], buffer: &mut Vec<u8>) -> Result<f64, String> {
    let (mut sum, mut count) = (0, 0);
    let mut trouble = None;
    for (at, policy) in policies.iter().enumerate() {
        let read = policy.read_checked(buffer, |text| Scan::new(text).number());
        if at >= MOST_OPEN {
            policy.release();
        }
        match read {
            Ok(khz) => {
                sum += khz;
                count += 1;
            }
            // Not fatal, because the CPUs of this policy may be offline.
            Err(error) => trouble = Some(told(policy.path().display(), &error)),
        }
    }
    match (count, trouble) {
        (0, trouble) => Err(trouble.unwrap_or_default()),
        (count, _) => Ok(sum as f64 / f64::from(count) / 1000.0),
    }
}

/// Returns the mean of all `cpu MHz` lines.
fn mean_mhz(text: &[u8]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for line in text.split(|byte| *byte == b'\n') {
        if line.starts_with(b"cpu MHz") {
            let value = line.rsplit(|byte| *byte == b':').next()?.trim_ascii();
            sum += str::from_utf8(value).ok()?.parse::<f64>().ok()?;
            count += 1;
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

fn has_flag(text: &[u8], flag: &[u8]) -> bool {
    let flags = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"flags"));
    flags.is_some_and(|line| line.split(|byte| *byte == b' ').any(|word| word == flag))
}
