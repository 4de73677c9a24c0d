//! The driver's own list of devices, in whose order `ROCR_VISIBLE_DEVICES` counts.

use crate::root::Root;

const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

/// A GPU in the driver's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    /// Domain, bus, device and function, in AMD SMI's encoding.
    pub(super) address: u64,
    pub(super) unique_id: Option<u64>,
}

/// Returns the GPUs that this process may use, in the driver's order.
pub(super) fn nodes(root: &Root) -> Vec<Node> {
    let numbers = root.numbered(NODES, "");
    numbers.into_iter().filter_map(|number| node(root, number)).collect()
}

fn node(root: &Root, number: u32) -> Option<Node> {
    // The file of a device that the process may not use is empty or cannot be read.
    let text = root.read(&format!("{NODES}/{number}/properties")).ok()?;
    let property =
        |name: &str| -> Option<u64> {
            let mut words = text.lines().map(str::split_whitespace);
            words.find_map(|mut words| {
                if words.next() == Some(name) { words.next()?.parse().ok() } else { None }
            })
        };
    // CPUs are nodes too, but have no SIMD units.
    property("simd_count").filter(|count| *count > 0)?;
    let address = property("domain").unwrap_or(0) << 16 | property("location_id")? & 0xffff;
    Some(Node { address, unique_id: property("unique_id").filter(|id| *id > 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fixture;

    #[test]
    fn nodes_are_in_the_driver_s_order() {
        let gpu = |location: u64, id: u64| {
            format!(
                "cpu_cores_count 0\nsimd_count 256\nlocation_id {location}\ndomain 1\nunique_id {id}\n"
            )
        };
        let path = |node: u32| format!("{NODES}/{node}/properties");
        let files = [
            (path(0), "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\n".to_owned()),
            (path(10), gpu(0x4300, 0)),
            (path(2), gpu(0x8300, 0xab)),
            (path(3), String::new()),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let folder = fixture(&files);
        let expected = [
            Node { address: 0x1_8300, unique_id: Some(0xab) },
            Node { address: 0x1_4300, unique_id: None },
        ];
        assert_eq!(nodes(&Root::folder(folder.path())), expected);
        assert!(nodes(&Root::folder(&folder.path().join("elsewhere"))).is_empty());
    }
}
