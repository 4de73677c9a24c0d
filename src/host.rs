//! The machine and the user, by name.

/// The name of this machine.
#[allow(unsafe_code)]
pub(crate) fn name() -> String {
    #[cfg(unix)]
    {
        let mut buffer = [0_u8; 256];
        // SAFETY: the buffer is as long as said; the last byte stays zero.
        let failed =
            unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) } != 0;
        let length = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        if !failed && length > 0 {
            return String::from_utf8_lossy(&buffer[..length]).into_owned();
        }
    }
    ["HOSTNAME", "COMPUTERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// The user, if the environment names one.
pub(crate) fn user() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok())
}

/// The name of this program.
pub(crate) fn program() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "program".to_owned())
}
