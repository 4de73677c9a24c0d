//! Finds the cgroup of this process.
//!
//! `/proc/self/cgroup` has the path of the cgroup in each hierarchy, and `/proc/self/mountinfo` has
//! the mount points of the hierarchies. Both are relative to the cgroup namespace of the process,
//! and a mount may expose only a part of a hierarchy. Together they give the directory.

use std::path::{Path, PathBuf};

use crate::root::Root;

/// The cgroups of this process, one per hierarchy.
#[derive(Debug)]
pub(super) struct Groups {
    memberships: Vec<Membership>,
    mounts: Vec<Mount>,
}

/// A line of `/proc/self/cgroup`.
#[derive(Debug)]
struct Membership {
    /// Empty for version 2, which has a single hierarchy for all controllers.
    controllers: Vec<String>,
    path: String,
}

/// A mounted hierarchy.
#[derive(Debug)]
struct Mount {
    version: u8,
    /// The cgroup that the mount point exposes.
    root: String,
    point: String,
    controllers: Vec<String>,
}

/// The cgroup of this process for one controller.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) version: u8,
    pub(super) path: String,
    /// The directories of the cgroup and its visible ancestors, innermost first. The root of the
    /// hierarchy is left out, because its numbers are those of the machine.
    pub(super) levels: Vec<PathBuf>,
    /// The directory of the cgroup itself, even if that is the root.
    pub(super) own: PathBuf,
}

impl Groups {
    pub(super) fn of_this_process(root: &Root) -> Result<Self, String> {
        let memberships: Vec<_> =
            root.read("/proc/self/cgroup")?.lines().filter_map(membership).collect();
        if memberships.is_empty() {
            return Err("/proc/self/cgroup names no control group".to_owned());
        }
        let mounts = root.read("/proc/self/mountinfo")?.lines().filter_map(mount).collect();
        Ok(Self { memberships, mounts })
    }

    /// Returns the paths of the cgroups in all hierarchies.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.memberships.iter().map(|membership| membership.path.as_str())
    }

    /// Finds the cgroup for a controller, or returns why there is none.
    pub(super) fn of(&self, controller: &str, root: &Root) -> Result<Group, String> {
        // A controller belongs to one hierarchy: one of version 1, or else that of version 2.
        let named = |m: &&Membership| m.controllers.iter().any(|name| name == controller);
        let unified = |m: &&Membership| m.controllers.is_empty();
        let of_v1 = self.memberships.iter().find(named).map(|membership| (1, membership));
        let of_v2 = || self.memberships.iter().find(unified).map(|membership| (2, membership));
        let (version, Membership { path, .. }) = of_v1
            .or_else(of_v2)
            .ok_or_else(|| format!("no control group has the controller `{controller}`"))?;

        let serves = |mount: &&Mount| {
            mount.version == version
                && (version == 2 || mount.controllers.iter().any(|name| name == controller))
        };
        let mounts = self.mounts.iter().filter(serves);
        // The mount that exposes most ancestors. Of several, the last: it hides those before it.
        let shown = mounts
            .filter_map(|mount| Some((mount, below(path, &mount.root)?)))
            .max_by_key(|(_, inside)| inside.len());
        let hidden = || format!("the control group `{path}` is not mounted where it can be seen");
        let (mount, inside) = shown.ok_or_else(hidden)?;

        let point = root.at(&mount.point);
        let own = point.join(inside);
        if !own.is_dir() {
            return Err(hidden());
        }
        let folders = own.ancestors().take_while(|folder| folder.starts_with(&point));
        let levels: Vec<PathBuf> = folders
            .filter(|folder| !is_root_of_hierarchy(folder, version))
            .map(Path::to_owned)
            .collect();
        Ok(Group { version, path: path.clone(), levels, own })
    }
}

/// Returns the path relative to `root`: `b` for `/a/b` below `/a`.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let root = root.trim_end_matches('/');
    let inside = path.strip_prefix(root)?;
    // A path with `..` is outside the cgroup namespace and would lead to another directory.
    let is_named = !path.split('/').any(|part| part == "..");
    (is_named && (inside.is_empty() || inside.starts_with('/')))
        .then(|| inside.trim_start_matches('/'))
}

/// In version 1, only the root has `cgroup.sane_behavior`. In version 2, only the root lacks
/// `cgroup.events`.
fn is_root_of_hierarchy(folder: &Path, version: u8) -> bool {
    match version {
        1 => folder.join("cgroup.sane_behavior").exists(),
        _ => !folder.join("cgroup.events").exists(),
    }
}

fn membership(line: &str) -> Option<Membership> {
    let mut fields = line.splitn(3, ':');
    fields.next()?.parse::<u32>().ok()?;
    let controllers = fields.next()?.split(',').filter(|name| !name.is_empty());
    let controllers = controllers.map(str::to_owned).collect();
    let path = fields.next().filter(|path| path.starts_with('/'))?;
    // The kernel appends this to the path of a cgroup that was removed.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
    Some(Membership { controllers, path })
}

fn mount(line: &str) -> Option<Mount> {
    let (mounted, system) = line.split_once(" - ")?;
    let mut mounted = mounted.split(' ').skip(3);
    let (root, point) = (unescape(mounted.next()?), unescape(mounted.next()?));
    let mut system = system.split(' ');
    let version = match system.next()? {
        "cgroup2" => 2,
        "cgroup" => 1,
        _ => return None,
    };
    let controllers = system.nth(1).unwrap_or("").split(',').map(str::to_owned).collect();
    Some(Mount { version, root, point, controllers })
}

/// Decodes the octal escapes of blanks, tabs, line ends and backslashes, such as `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut clean = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                clean.push(char::from(byte));
                clean.push_str(&part[3..]);
            }
            None => {
                clean.push('\\');
                clean.push_str(part);
            }
        }
    }
    clean
}
