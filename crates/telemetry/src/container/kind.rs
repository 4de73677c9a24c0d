//! Detects the container manager from the cgroup's path or from files that the manager left.

use super::ContainerKind;
use crate::root::Root;

/// Words in cgroup paths that identify a manager. Kubernetes comes first, because it uses the
/// runtimes below it.
const PATHS: &[(&str, ContainerKind)] = &[
    ("kubepods", ContainerKind::Kubernetes),
    ("slurm", ContainerKind::Slurm),
    ("libpod", ContainerKind::Podman),
    ("docker", ContainerKind::Docker),
    ("lxc", ContainerKind::Lxc),
    ("nspawn", ContainerKind::SystemdNspawn),
];

/// Returns the kind of the container. `None` if nothing indicates that this is a container.
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
    // Container managers agreed on this file.
    match root.value::<String>("/run/systemd/container")?.as_str() {
        "docker" => Some(ContainerKind::Docker),
        "podman" => Some(ContainerKind::Podman),
        "lxc" | "lxc-libvirt" => Some(ContainerKind::Lxc),
        "systemd-nspawn" => Some(ContainerKind::SystemdNspawn),
        _ => Some(ContainerKind::Unknown),
    }
}

/// Whether a component of the path, or a piece of one, starts with the word:
/// `/machine.slice/libpod-1f.scope` does for `libpod`, but `/undocked` does not for `dock`.
fn begins_a_name(path: &str, word: &str) -> bool {
    path.split(['/', '-', '.', ':', '_']).any(|part| part.starts_with(word))
        // The Docker daemon itself does not run in a container.
        && !path.ends_with("/docker.service")
}
