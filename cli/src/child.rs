//! Waits for a command to end, and reads its resource usage.

use std::io;
use std::process::{Child, ExitStatus};

use runlore::telemetry::usage::ChildUsage;

/// A command that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// `None` if the system does not report it.
    pub(crate) used: Option<ChildUsage>,
}

/// Waits for a command to end, regardless of signals. Calls `forget` just before the system may
/// reuse the process id.
#[cfg(not(unix))]
pub(crate) fn wait(child: &mut Child, forget: impl FnOnce()) -> io::Result<Ended> {
    let status = child.wait();
    forget();
    Ok(Ended { status: status?, used: None })
}

#[cfg(unix)]
pub(crate) use unix::wait;

#[cfg(unix)]
#[allow(unsafe_code)]
mod unix {
    use std::mem::MaybeUninit;
    use std::os::unix::process::ExitStatusExt as _;
    use std::time::Duration;

    use super::{Child, ChildUsage, Ended, ExitStatus, io};

    /// The kernel's counters of a process's memory may lag by this many bytes.
    const INEXACT: u64 = 1 << 20;

    /// Waits for a command to end, regardless of signals. Calls `forget` just before the system may
    /// reuse the process id.
    pub(crate) fn wait(child: &mut Child, forget: impl FnOnce()) -> io::Result<Ended> {
        let pid = child.id() as libc::pid_t;
        let inherited = peak_of_this_program();
        let ended = retried(|| {
            let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: the pointer is valid for the value written through it.
            unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, about.as_mut_ptr(), flags) }
        });
        // The command has ended, but its process id and its files in `/proc` stay until `wait4`
        // reaps it.
        let transfers = transfers(pid);
        forget();
        ended?;

        let mut status = 0;
        let mut used = MaybeUninit::<libc::rusage>::zeroed();
        retried(|| {
            // SAFETY: both pointers are valid for the values written through them.
            unsafe { libc::wait4(pid, &raw mut status, 0, used.as_mut_ptr()) }
        })?;
        // SAFETY: all zeros are a valid `rusage`, and `wait4` has filled it.
        let used = unsafe { used.assume_init() };
        let used = told(&used, inherited, transfers);
        Ok(Ended { status: ExitStatus::from_raw(status), used: Some(used) })
    }

    /// Repeats a call that returns -1 on error while signals interrupt it.
    fn retried(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
        loop {
            if call() != -1 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns the peak memory of this program. The command starts as a copy of it, and the system
    /// counts this memory as the command's own.
    #[cfg(target_os = "linux")]
    fn peak_of_this_program() -> u64 {
        // `getrusage` would include the peak of the process that started us, for the same reason.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
        kibibytes.map_or_else(peak_by_rusage, |kibibytes: u64| kibibytes * 1024)
    }

    #[cfg(not(target_os = "linux"))]
    fn peak_of_this_program() -> u64 {
        peak_by_rusage()
    }

    fn peak_by_rusage() -> u64 {
        let mut used = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for the value written through it, and all zeros are a valid
        // `rusage`.
        let used = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr());
            used.assume_init()
        };
        peak_rss(&used)
    }

    fn peak_rss(used: &libc::rusage) -> u64 {
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        used.ru_maxrss as u64 * unit
    }

    fn nanoseconds(time: libc::timeval) -> u64 {
        let time =
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
        time.as_nanos() as u64
    }

    fn told(
        used: &libc::rusage,
        inherited: u64,
        transfers: Result<Transfers, String>,
    ) -> ChildUsage {
        let mut told = ChildUsage::default();
        told.user_ns = nanoseconds(used.ru_utime);
        told.system_ns = nanoseconds(used.ru_stime);
        told.minor_faults = used.ru_minflt as u64;
        told.major_faults = used.ru_majflt as u64;
        told.voluntary_switches = used.ru_nvcsw as u64;
        told.involuntary_switches = used.ru_nivcsw as u64;
        told.read_blocks = used.ru_inblock as u64;
        told.write_blocks = used.ru_oublock as u64;
        let peak = peak_rss(used);
        if peak > inherited + INEXACT {
            told.peak_rss_bytes = Some(peak);
        } else {
            let reason = format!(
                "the system reports no peak below that of runlore itself, {inherited} bytes"
            );
            told.unavailable.insert("peak_rss_bytes".to_owned(), reason);
        }
        match transfers {
            Ok(Transfers { read_bytes, write_bytes, read_chars, write_chars }) => {
                (told.read_bytes, told.write_bytes) = (Some(read_bytes), Some(write_bytes));
                (told.read_chars, told.write_chars) = (Some(read_chars), Some(write_chars));
            }
            Err(reason) => {
                for field in ["read_bytes", "write_bytes", "read_chars", "write_chars"] {
                    told.unavailable.insert(field.to_owned(), reason.clone());
                }
            }
        }
        told
    }

    struct Transfers {
        read_bytes: u64,
        write_bytes: u64,
        read_chars: u64,
        write_chars: u64,
    }

    /// Returns the bytes read and written by a process and by the children that it waited for.
    #[cfg(target_os = "linux")]
    fn transfers(pid: libc::pid_t) -> Result<Transfers, String> {
        let path = format!("/proc/{pid}/io");
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let error = error.to_string();
            format!("{path}: {}", error.split(" (os error").next().unwrap_or(&error))
        })?;
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let number = line.and_then(|number| number.parse().ok());
            number.ok_or_else(|| format!("{path} has no {name}"))
        };
        Ok(Transfers {
            read_bytes: number("read_bytes")?,
            write_bytes: number("write_bytes")?,
            read_chars: number("rchar")?,
            write_chars: number("wchar")?,
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn transfers(_: libc::pid_t) -> Result<Transfers, String> {
        Err("this system does not report the transfers of a process".to_owned())
    }
}
