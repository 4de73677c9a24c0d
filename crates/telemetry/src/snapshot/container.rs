//! Encoding of the container. Its description, which surrounds its numbers, is encoded once and
//! reused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

use super::bytes::{Reader, put_bytes, put_integer};
use super::code::{Code, Float, Integer, Maybe, Reasons, Text};
use super::json;
use super::part::coded;
#[cfg(target_os = "linux")]
use crate::container::ContainerNumbers;
use crate::container::{Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerPids};

coded!(Container {
    version: Version,
    path: Text,
    kind: Kind,
    memory: ContainerMemory,
    cpu: ContainerCpu,
    pids: ContainerPids,
    cpuset: Maybe<Text>,
    unavailable: SortedReasons,
});

/// The encoded description of a container: the bytes before and after its numbers.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
pub(crate) struct Description {
    before: Vec<u8>,
    after: Vec<u8>,
}

#[cfg(target_os = "linux")]
impl Description {
    pub(crate) fn of(container: &Container) -> Self {
        let mut before = Vec::new();
        Version::put(&container.version, &mut before);
        Text::put(&container.path, &mut before);
        Kind::put(&container.kind, &mut before);
        let mut after = Vec::new();
        Maybe::<Text>::put(&container.cpuset, &mut after);
        SortedReasons::put(&container.unavailable, &mut after);
        Self { before, after }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty()
    }
}

/// Appends a container, reusing its encoded description.
#[cfg(target_os = "linux")]
pub(crate) fn put_container(
    numbers: &ContainerNumbers,
    description: &Description,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&description.before);
    ContainerMemory::put(&numbers.memory, out);
    ContainerCpu::put(&numbers.cpu, out);
    ContainerPids::put(&numbers.pids, out);
    out.extend_from_slice(&description.after);
}

/// The cgroup version.
struct Version;

impl Code for Version {
    type Value = u8;

    fn put(value: &u8, out: &mut Vec<u8>) {
        put_integer(u64::from(*value), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<u8> {
        u8::try_from(from.integer()?).ok()
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::integer(u64::from(Self::take(from)?), out);
        Some(())
    }
}

/// The kind of a container, encoded as its name.
struct Kind;

impl Code for Kind {
    type Value = ContainerKind;

    fn put(value: &ContainerKind, out: &mut Vec<u8>) {
        let kind = serde_json::to_value(value).unwrap_or_default();
        put_bytes(kind.as_str().unwrap_or_default().as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<ContainerKind> {
        kind(from.bytes()?)
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        let name = from.bytes()?;
        match kind(name)? {
            // Any other name decodes to `Unknown`.
            ContainerKind::Unknown => json::text(b"unknown", out),
            _ => json::text(name, out),
        }
        Some(())
    }
}

fn kind(name: &[u8]) -> Option<ContainerKind> {
    let name: serde::de::value::StrDeserializer<'_, Error> =
        str::from_utf8(name).ok()?.into_deserializer();
    ContainerKind::deserialize(name).ok()
}

/// Like [`Reasons`], but decoded to a sorted map.
struct SortedReasons;

impl Code for SortedReasons {
    type Value = BTreeMap<String, String>;

    fn put(value: &BTreeMap<String, String>, out: &mut Vec<u8>) {
        let reasons = value.iter().map(|(name, why)| (name.clone(), why.clone()));
        Reasons::put(&reasons.collect(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<BTreeMap<String, String>> {
        let reasons = Reasons::take(from)?;
        Some(reasons.iter().map(|(name, why)| (name.to_owned(), why.clone())).collect())
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        Reasons::write_json(from, out)
    }

    fn write_field(key: &str, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        Reasons::write_field(key, from, out)
    }
}

/// A boolean.
struct Bool;

impl Code for Bool {
    type Value = bool;

    fn put(value: &bool, out: &mut Vec<u8>) {
        out.push(u8::from(*value));
    }

    fn take(from: &mut Reader<'_>) -> Option<bool> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::any(&Self::take(from)?, out)
    }
}

coded!(ContainerMemory {
    current: Maybe<Integer>,
    max: Maybe<Integer>,
    high: Maybe<Integer>,
    peak: Maybe<Integer>,
    oom_kills: Maybe<Integer>,
    limit_is_host: Maybe<Bool>,
});

coded!(ContainerCpu {
    quota_us: Maybe<Integer>,
    period_us: Maybe<Integer>,
    quota_cpus: Maybe<Float>,
    throttled_periods: Maybe<Integer>,
    periods: Maybe<Integer>,
    throttled_us: Maybe<Integer>,
    usage_us: Maybe<Integer>,
});

coded!(ContainerPids {
    current: Maybe<Integer>,
    max: Maybe<Integer>,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_comes_back_equal() {
        let text = r#"{"version":1,"path":"/a","kind":"docker","memory":{"current":1,"max":2,"limit_is_host":false},
            "cpu":{"quota_us":5,"period_us":10,"quota_cpus":0.5,"usage_us":7},"pids":{"max":9},"cpuset":"0-1",
            "unavailable":{"memory.high":"not told"}}"#;
        let container: Container = serde_json::from_str(text).unwrap();
        let mut bytes = Vec::new();
        Container::put(&container, &mut bytes);
        assert_eq!(Container::take(&mut Reader::new(&bytes)), Some(container.clone()));
        let mut json = Vec::new();
        Container::write_json(&mut Reader::new(&bytes), &mut json).unwrap();
        assert_eq!(json, serde_json::to_vec(&container).unwrap());
        for cut in 0..bytes.len() {
            assert_eq!(Container::take(&mut Reader::new(&bytes[..cut])), None);
        }
    }
}
