//! The user who runs the program.

use super::facts::Reasons;
use crate::root::Root;
use runlore_core::host;

/// Returns the user's name from the environment, or else the login name.
pub(super) fn name(root: &Root, reasons: &mut Reasons) -> Option<String> {
    let id = if root.is_live() { host::user_id() } else { Some(0) };
    let named = root.is_live().then(host::user).flatten();
    let name = named.or_else(|| host::login_name_in(&root.read("/etc/passwd").ok()?, id?));
    if name.is_none() {
        reasons.note("login_name", "neither the environment nor /etc/passwd names the user");
    }
    name
}
