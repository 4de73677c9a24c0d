//! What made a container: its path tells, or what it left in the file system.

use super::ContainerKind;
use crate::root::Root;

/// What names of groups say, the most telling first: Kubernetes uses the runtimes below it.
const PATHS: &[(&str, ContainerKind)] = &[
    ("kubepods", ContainerKind::Kubernetes),
    ("slurm", ContainerKind::Slurm),
    ("libpod", ContainerKind::Podman),
    ("docker", ContainerKind::Docker),
    ("lxc", ContainerKind::Lxc),
    ("nspawn", ContainerKind::SystemdNspawn),
];

/// The kind, if anything says that this is a container at all.
pub(super) fn of<'a>(root: &Root, paths: impl Iterator<Item = &'a str>) -> Option<ContainerKind> {
    let paths: Vec<&str> = paths.collect();
    let by_path = PATHS.iter().find(|(word, _)| paths.iter().any(|path| begins_a_name(path, word)));
    if let Some((_, kind)) = by_path {
        return Some(*kind);
    }
    let exists = |path: &str| root.at(path).exists();
    if (root.is_live() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some())
        || exists("/var/run/secrets/kubernetes.io")
    {
        return Some(ContainerKind::Kubernetes);
    }
    if exists("/run/.containerenv") {
        return Some(ContainerKind::Podman);
    }
    if exists("/.dockerenv") {
        return Some(ContainerKind::Docker);
    }
    // What container managers agreed upon to write.
    match root.value::<String>("/run/systemd/container")?.as_str() {
        "docker" => Some(ContainerKind::Docker),
        "podman" => Some(ContainerKind::Podman),
        "lxc" | "lxc-libvirt" => Some(ContainerKind::Lxc),
        "systemd-nspawn" => Some(ContainerKind::SystemdNspawn),
        _ => Some(ContainerKind::Unknown),
    }
}

/// Whether a name in the path has a part that begins with the word: `/machine.slice/libpod-1f.scope` for `libpod`, but
/// not `/undocked` for `dock`.
fn begins_a_name(path: &str, word: &str) -> bool {
    path.split(['/', '-', '.', ':', '_']).any(|part| part.starts_with(word))
        // The daemon itself is in no container.
        && !path.ends_with("/docker.service")
}
