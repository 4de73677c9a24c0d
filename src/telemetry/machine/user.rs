//! Who runs the program.

use super::facts::Reasons;
use super::system;
use crate::host;
use crate::telemetry::root::Root;

/// The name of the user. A directory server is not asked: that could take seconds.
pub(super) fn name(root: &Root, reasons: &mut Reasons) -> Option<String> {
    let id = if root.is_live() { system::user_id() } else { Some(0) };
    let said = root.is_live().then(host::user).flatten().filter(|name| !name.is_empty());
    let name = said.or_else(|| in_passwd(root, id?));
    if name.is_none() {
        reasons.note("login_name", "neither the environment nor /etc/passwd names the user");
    }
    name
}

fn in_passwd(root: &Root, id: u32) -> Option<String> {
    let text = root.read("/etc/passwd").ok()?;
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    };
    text.lines().find_map(name)
}
