//! The names of the machine, the user and the program.

/// Returns the name of this machine.
#[allow(unsafe_code)]
pub fn name() -> String {
    #[cfg(unix)]
    {
        let mut buffer = [0_u8; 256];
        // SAFETY: the buffer is at least as long as the given length; the last byte stays zero.
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

/// Returns the user's name, if the environment has one.
pub fn user() -> Option<String> {
    let named = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(named)
}

/// Returns the login name of the process's user, from `/etc/passwd`. Does not query a directory
/// server, which could take seconds.
pub fn login_name() -> Option<String> {
    login_name_in(&std::fs::read_to_string("/etc/passwd").ok()?, user_id()?)
}

/// Returns the login name of a user, given the text of `/etc/passwd`.
pub fn login_name_in(passwd: &str, user_id: u32) -> Option<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(user_id)).then(|| name.to_owned())
    };
    passwd.lines().find_map(name)
}

/// Returns the id of the user that the process belongs to.
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn user_id() -> Option<u32> {
    // SAFETY: the call has no conditions and always succeeds.
    Some(unsafe { libc::getuid() })
}

#[cfg(not(unix))]
pub(crate) fn user_id() -> Option<u32> {
    None
}

/// Returns the name of this program.
pub fn program() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "program".to_owned())
}

#[cfg(test)]
mod tests {
    use super::login_name_in;

    #[test]
    fn the_login_name_is_that_of_the_number() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nbroken\n:x:7:7::/:\nann:x:1000:50:Ann:/home/ann:/bin/sh\n";
        assert_eq!(login_name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(login_name_in(passwd, 0).as_deref(), Some("root"));
        assert_eq!(login_name_in(passwd, 50), None, "it is a group's number");
        assert_eq!(login_name_in(passwd, 7), None);
    }
}
