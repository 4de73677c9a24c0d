//! A parser for `/proc/cpuinfo`, whose field names differ between architectures.

use std::collections::BTreeSet;

/// The fields of the first processor, and the number of processors.
#[derive(Debug, Default)]
pub(super) struct CpuInfo {
    fields: Vec<(String, String)>,
    pub(super) processors: usize,
    /// Socket and core of each processor, if the file contains both.
    cores: BTreeSet<(String, String)>,
}

impl CpuInfo {
    pub(super) fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut socket = String::new();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim(), value.trim());
            match name {
                "processor" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                    info.processors += 1;
                }
                "physical id" => value.clone_into(&mut socket),
                "core id" if !socket.is_empty() => {
                    info.cores.insert((socket.clone(), value.to_owned()));
                }
                _ => {}
            }
            // The first value counts: later ones belong to other processors or repeat it.
            if !value.is_empty() && info.get(&[name]).is_none() {
                info.fields.push((name.to_owned(), value.to_owned()));
            }
        }
        info
    }

    /// Returns the value of the first of these names that the file contains.
    pub(super) fn get(&self, names: &[&str]) -> Option<&str> {
        let of = |name: &&str| self.fields.iter().find(|(field, _)| field == name);
        names.iter().find_map(of).map(|(_, value)| value.as_str())
    }

    /// Returns the first of these fields as a number.
    pub(super) fn number(&self, names: &[&str]) -> Option<u32> {
        self.get(names)?.parse().ok()
    }

    pub(super) fn cores(&self) -> Option<u64> {
        (!self.cores.is_empty()).then_some(self.cores.len() as u64)
    }

    pub(super) fn sockets(&self) -> Option<u64> {
        let sockets: BTreeSet<_> = self.cores.iter().map(|(socket, _)| socket).collect();
        (!sockets.is_empty()).then_some(sockets.len() as u64)
    }
}
