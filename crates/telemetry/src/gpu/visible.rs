//! The devices that the program may use, by the vendors' rules for their environment variables. The
//! management libraries ignore these variables and list every device.

/// An NVIDIA device, with the names by which environment variables may select it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NvidiaDevice {
    /// `GPU-…`.
    pub(super) uuid: String,
    pub(super) parts: Vec<MigInstance>,
}

/// A MIG instance of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MigInstance {
    /// Its index among the device's instances. Indices may have gaps.
    pub(super) index: u32,
    /// `MIG-…`, by which NVML finds it.
    pub(super) uuid: String,
    /// `MIG-GPU-…/1/0`: the device and two numbers. Drivers before 470 use this name, and later
    /// ones still accept it.
    pub(super) old_name: Option<String>,
}

impl MigInstance {
    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.uuid).chain(&self.old_name)
    }
}

/// A visible device, or a visible MIG instance of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visible {
    /// Its index in the vendor's list.
    pub(super) index: usize,
    /// The MIG instance that the program may use. `None` for the whole device.
    pub(super) part: Option<MigInstance>,
}

impl Visible {
    fn whole(index: usize) -> Self {
        Self { index, part: None }
    }
}

/// Formats the reason why `variable` leaves the program none of `count` devices.
pub(super) fn hidden(variable: &str, value: &str, count: usize) -> String {
    format!("{variable}={value:?} hides all {count} devices of this machine from the program")
}

/// Returns the indices of the devices that `NVIDIA_VISIBLE_DEVICES` leaves to a container.
///
/// Usually the container runtime has applied the variable before the program started. Then a list
/// of indices no longer fits, because it counts the devices of the host. The list is applied here
/// only if there are more devices than entries, which shows that nobody has applied it. `all`,
/// `none`, `void` and an empty or missing value change nothing: all devices that the library lists
/// are visible.
pub(super) fn in_container(value: Option<&str>, devices: &[NvidiaDevice]) -> Vec<usize> {
    let all = || (0..devices.len()).collect();
    let Some(value) = value.map(str::trim) else { return all() };
    if matches!(value, "" | "all" | "none" | "void") {
        return all();
    }
    let entries: Vec<&str> = value.split(',').map(str::trim).collect();
    if devices.len() <= entries.len() {
        return all();
    }
    let mut chosen = Vec::new();
    for entry in entries {
        // A MIG instance can be given by indices, such as `0:1`.
        let number = entry.split(':').next().and_then(|number| number.parse::<usize>().ok());
        let found = match number {
            Some(index) => Some(index).filter(|index| *index < devices.len()),
            None => devices.iter().position(|device| {
                device.uuid == entry
                    || device.parts.iter().flat_map(MigInstance::names).any(|name| name == entry)
            }),
        };
        if let Some(index) = found
            && !chosen.contains(&index)
        {
            chosen.push(index);
        }
    }
    if chosen.is_empty() { all() } else { chosen }
}

/// Returns the devices that `CUDA_VISIBLE_DEVICES` leaves, in its order.
pub(super) fn by_cuda(value: Option<&str>, devices: &[NvidiaDevice]) -> Vec<Visible> {
    let Some(value) = value else { return (0..devices.len()).map(Visible::whole).collect() };
    let entries = value.split(',').map(str::trim);
    let value = value.trim();
    for prefix in ["GPU-", "MIG-"] {
        if value.starts_with(prefix) {
            return by_uuid(entries.take_while(|entry| entry.starts_with(prefix)), devices);
        }
    }
    let mut numbers = Vec::new();
    for entry in entries {
        let Some(number) = leading_number(entry) else { break };
        // A repeated entry makes the whole list invalid.
        if numbers.contains(&number) {
            return Vec::new();
        }
        numbers.push(number);
    }
    let valid = numbers.into_iter().take_while(|number| *number < devices.len());
    valid.map(Visible::whole).collect()
}

/// Whether `value` of `CUDA_VISIBLE_DEVICES` contains indices, which CUDA counts in its own order.
pub(super) fn is_by_number(value: Option<&str>) -> bool {
    value.is_some_and(|value| leading_number(value.trim()).is_some())
}

fn by_uuid<'a>(entries: impl Iterator<Item = &'a str>, devices: &[NvidiaDevice]) -> Vec<Visible> {
    let mut chosen: Vec<Visible> = Vec::new();
    for entry in entries {
        // An unknown or ambiguous entry ends the list.
        let Some(found) = the_one(entry, devices) else { break };
        if chosen.contains(&found) {
            return Vec::new();
        }
        chosen.push(found);
    }
    chosen
}

/// Returns the only device or MIG instance with a name that starts with `entry`.
fn the_one(entry: &str, devices: &[NvidiaDevice]) -> Option<Visible> {
    let named = devices.iter().enumerate().flat_map(|(index, device)| {
        let parts = device.parts.iter().flat_map(move |part| {
            let visible = Visible { index, part: Some(part.clone()) };
            part.names().map(move |name| (name, visible.clone()))
        });
        std::iter::once((&device.uuid, Visible::whole(index))).chain(parts)
    });
    let is_meant = |name: &str| name.starts_with(entry);
    let mut meant = named.filter(|(name, _)| is_meant(name));
    let (name, first) = meant.next()?;
    // Two names of the same instance are not ambiguous.
    (name == entry || meant.all(|(_, other)| other == first)).then_some(first)
}

/// Parses the number at the start, as C does: `1gpu2` is 1. `None` if there is none or it is
/// negative.
fn leading_number(text: &str) -> Option<usize> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the indices of the devices that `ROCR_VISIBLE_DEVICES` leaves in the list of AMD's
/// runtime. `ids` are the unique IDs of the devices, if they are known.
pub(super) fn by_rocr(value: Option<&str>, ids: &[Option<u64>]) -> Vec<usize> {
    let Some(value) = value else { return (0..ids.len()).collect() };
    let mut chosen = Vec::new();
    for entry in value.split(',') {
        let entry = entry.trim().to_ascii_uppercase();
        let found = match entry.strip_prefix("GPU-") {
            Some(digits) => by_unique_id(digits, ids),
            None => whole_number(&entry).filter(|index| *index < ids.len()),
        };
        // An invalid or repeated entry ends the list. The entries before it are valid.
        match found {
            Some(index) if !chosen.contains(&index) => chosen.push(index),
            _ => break,
        }
    }
    chosen
}

/// Returns the indices of the devices that `HIP_VISIBLE_DEVICES`, or else `CUDA_VISIBLE_DEVICES`,
/// leaves of those that the runtime left.
pub(super) fn by_hip(value: Option<&str>, ids: &[Option<u64>]) -> Vec<usize> {
    let Some(value) = value else { return (0..ids.len()).collect() };
    let mut chosen = Vec::new();
    for entry in value.split(',') {
        let entry = entry.trim().to_ascii_uppercase();
        let found = match entry.strip_prefix("GPU-") {
            Some(digits) => by_unique_id(digits, ids),
            None => leading_number(&entry).filter(|index| *index < ids.len()),
        };
        match found {
            Some(index) if !chosen.contains(&index) => chosen.push(index),
            _ => break,
        }
    }
    chosen
}

/// Returns the only device whose unique ID starts with these digits.
fn by_unique_id(digits: &str, ids: &[Option<u64>]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let is_meant = |id: &Option<u64>| id.is_some_and(|id| format!("{id:016X}").starts_with(digits));
    let mut meant = ids.iter().enumerate().filter(|(_, id)| is_meant(id));
    let (index, _) = meant.next()?;
    meant.next().is_none().then_some(index)
}

/// Parses a text that is a number and nothing else, in any base that C accepts: `0x1`, `010`, `1`.
fn whole_number(text: &str) -> Option<usize> {
    let text = text.strip_prefix('+').unwrap_or(text);
    match text.strip_prefix("0X") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => usize::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<NvidiaDevice> {
        let part = |index: u32, uuid: &str, old_name: &str| MigInstance {
            index,
            uuid: uuid.to_owned(),
            old_name: Some(format!("MIG-GPU-1111bbbb/{old_name}")),
        };
        let device = |uuid: &str, parts| NvidiaDevice { uuid: uuid.to_owned(), parts };
        vec![
            device("GPU-1111aaaa", Vec::new()),
            device("GPU-1111bbbb", vec![part(0, "MIG-p0", "1/0"), part(1, "MIG-p1", "2/0")]),
            device("GPU-2222cccc", Vec::new()),
        ]
    }

    fn cuda(value: &str) -> Vec<usize> {
        by_cuda(Some(value), &three()).into_iter().map(|visible| visible.index).collect()
    }

    fn parts(value: &str) -> Vec<Option<String>> {
        let visible = by_cuda(Some(value), &three()).into_iter();
        visible.map(|visible| visible.part.map(|part| part.uuid)).collect()
    }

    #[test]
    fn cuda_without_the_variable_sees_all() {
        assert_eq!(by_cuda(None, &three()).len(), 3);
    }

    #[test]
    fn cuda_with_nothing_in_it_sees_none() {
        assert!(cuda("").is_empty());
        assert!(cuda(" ").is_empty());
    }

    #[test]
    fn cuda_keeps_the_order() {
        assert_eq!(cuda("2,1"), [2, 1]);
        assert_eq!(cuda(" 2 , 0"), [2, 0]);
    }

    #[test]
    fn cuda_ends_at_the_first_invalid_entry() {
        assert_eq!(cuda("0,2,-1,1"), [0, 2]);
        assert!(cuda("-1").is_empty());
        assert_eq!(cuda("0,7,1"), [0]);
        assert_eq!(cuda("0,,1"), [0]);
        assert!(cuda("NoDevFiles").is_empty());
    }

    #[test]
    fn cuda_takes_a_repeated_entry_for_none() {
        assert!(cuda("0,1,0").is_empty());
        assert!(cuda("GPU-1111a,GPU-1111aaaa").is_empty());
        assert!(cuda("MIG-p0,MIG-p0").is_empty());
    }

    #[test]
    fn cuda_reads_numbers_as_c_does() {
        assert_eq!(cuda("1gpu2,2x"), [1, 2]);
        assert_eq!(cuda("+1"), [1]);
    }

    #[test]
    fn cuda_takes_uuids_and_their_unique_beginnings() {
        assert_eq!(cuda("GPU-2222cccc,GPU-1111b"), [2, 1]);
        assert!(cuda("GPU-1111").is_empty(), "it could be two");
        assert_eq!(cuda("GPU-2,GPU-9,GPU-1111a"), [2], "an unknown one ends the list");
        assert_eq!(cuda("GPU-2,0,GPU-1111a"), [2], "so does another kind");
    }

    #[test]
    fn cuda_takes_parts_by_both_their_names() {
        assert_eq!(cuda("MIG-p1"), [1]);
        assert_eq!(parts("MIG-p1"), [Some("MIG-p1".to_owned())]);
        assert_eq!(parts("MIG-GPU-1111bbbb/2/0"), [Some("MIG-p1".to_owned())]);
        assert_eq!(parts("MIG-GPU-1111bbbb/1"), [Some("MIG-p0".to_owned())]);
        assert!(cuda("MIG-GPU-1111bbbb").is_empty(), "it could be two");
        assert!(cuda("MIG-p0,MIG-GPU-1111bbbb/1/0").is_empty(), "the same one twice");
        assert!(cuda("MIG-p").is_empty(), "it could be two");
        assert_eq!(cuda("MIG-p0,GPU-1111a"), [1], "another kind ends the list");
    }

    #[test]
    fn numbers_are_told_from_names() {
        assert!(is_by_number(Some("1,0")));
        assert!(!is_by_number(Some("GPU-1")) && !is_by_number(Some("")) && !is_by_number(None));
    }

    #[test]
    fn a_container_s_variable_is_not_applied_twice() {
        let devices = three();
        let all = [0, 1, 2];
        for nothing in [None, Some("all"), Some("none"), Some("void"), Some("")] {
            assert_eq!(in_container(nothing, &devices), all, "{nothing:?}");
        }
        assert_eq!(in_container(Some("2,0"), &devices), [2, 0], "nobody has applied it");
        assert_eq!(in_container(Some("4,5,6"), &devices), all, "the runtime has");
        assert_eq!(in_container(Some("GPU-2222cccc"), &devices), [2]);
        assert_eq!(in_container(Some("MIG-p1"), &devices), [1]);
        assert_eq!(in_container(Some("MIG-GPU-1111bbbb/2/0"), &devices), [1]);
        assert_eq!(in_container(Some("1:0,1:1"), &devices), [1]);
        assert_eq!(in_container(Some("GPU-of-another-host"), &devices), all);
    }

    const IDS: [Option<u64>; 3] = [Some(0xab00_0000_0000_0001), Some(0xab11_0000_0000_0002), None];

    fn rocr(value: &str) -> Vec<usize> {
        by_rocr(Some(value), &IDS)
    }

    #[test]
    fn rocr_without_the_variable_sees_all_and_with_nothing_in_it_none() {
        assert_eq!(by_rocr(None, &IDS), [0, 1, 2]);
        assert!(rocr("").is_empty());
    }

    #[test]
    fn rocr_keeps_the_order_and_trims() {
        assert_eq!(rocr(" 2 , 0"), [2, 0]);
    }

    #[test]
    fn rocr_reads_numbers_of_any_base_and_nothing_after_them() {
        assert_eq!(rocr("0x1"), [1]);
        assert_eq!(rocr("02,1"), [2, 1]);
        assert_eq!(rocr("0,1x,2"), [0]);
    }

    #[test]
    fn rocr_ends_at_the_first_invalid_entry() {
        assert_eq!(rocr("1,-1,0"), [1]);
        assert_eq!(rocr("1,3,0"), [1]);
        assert!(rocr("-1").is_empty());
    }

    #[test]
    fn rocr_ends_at_a_repeated_entry_and_keeps_those_before() {
        assert_eq!(rocr("0,1,0"), [0, 1]);
    }

    #[test]
    fn rocr_takes_unique_beginnings_of_unique_ids() {
        assert_eq!(rocr("GPU-ab11,0"), [1, 0]);
        assert_eq!(rocr("gpu-AB00000000000001"), [0]);
        assert!(rocr("GPU-ab").is_empty(), "it could be two");
        assert_eq!(rocr("1,GPU-cd,0"), [1], "an unknown one ends the list");
        assert!(rocr("GPU-").is_empty());
    }

    #[test]
    fn rocr_takes_between_one_and_sixteen_digits_of_a_unique_id() {
        assert_eq!(by_rocr(Some("GPU-a"), &IDS[..1]), [0]);
        assert!(rocr("GPU-AB000000000000010").is_empty());
        assert!(rocr("GAB00").is_empty(), "a letter is no number");
    }

    #[test]
    fn hip_counts_among_what_the_runtime_left() {
        let left: Vec<_> = rocr("2,1").into_iter().map(|index| IDS[index]).collect();
        assert_eq!(by_hip(Some("1"), &left), [1]);
        assert_eq!(by_hip(Some("GPU-AB11"), &left), [1]);
        assert_eq!(by_hip(None, &left), [0, 1]);
        assert!(by_hip(Some(""), &left).is_empty());
        assert!(by_hip(Some("-1"), &left).is_empty());
        assert_eq!(by_hip(Some("0,2,1"), &left), [0]);
        assert_eq!(by_hip(Some("1,0,1"), &left), [1, 0]);
    }
}
