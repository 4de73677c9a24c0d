//! The container in a snapshot: its numbers, between what it is, which need not be made anew each time.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

use super::bytes::{Reader, put_bytes, put_integer};
use super::code::{ByName, Code, Float, Integer, Maybe, Reasons, Text};
use super::{json, key_of};
use crate::telemetry::container::{
    Container, ContainerCpu, ContainerKind, ContainerMemory, ContainerNumbers, ContainerPids,
};

impl Code for Container {
    type Value = Self;

    fn put(value: &Self, out: &mut Vec<u8>) {
        let Self { memory, cpu, pids, .. } = *value;
        put_container(&ContainerNumbers { memory, cpu, pids }, &Description::of(value), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            version: u8::try_from(from.integer()?).ok()?,
            path: Text::take(from)?,
            kind: kind(from.bytes()?)?,
            memory: ContainerMemory::take(from)?,
            cpu: ContainerCpu::take(from)?,
            pids: ContainerPids::take(from)?,
            cpuset: Maybe::<Text>::take(from)?,
            unavailable: {
                let reasons = ByName::<Text>::take(from)?;
                reasons.iter().map(|(name, why)| (name.to_owned(), why.clone())).collect()
            },
        })
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(b"{\"version\":");
        json::integer(u8::try_from(from.integer()?).ok()?.into(), out);
        Text::entry("path\":", from, out)?;
        json::key("kind\":", out);
        let name = from.bytes()?;
        kind(name)?;
        json::text(name, out)?;
        ContainerMemory::entry("memory\":", from, out)?;
        ContainerCpu::entry("cpu\":", from, out)?;
        ContainerPids::entry("pids\":", from, out)?;
        Maybe::<Text>::entry("cpuset\":", from, out)?;
        Reasons::entry("unavailable\":", from, out)?;
        out.push(b'}');
        Some(())
    }
}

/// What a container is, as it stands before and after its numbers.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct Description {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Description {
    pub(in crate::telemetry) fn of(container: &Container) -> Self {
        let mut before = Vec::new();
        put_integer(u64::from(container.version), &mut before);
        Text::put(&container.path, &mut before);
        let kind = serde_json::to_value(container.kind).unwrap_or_default();
        put_bytes(kind.as_str().unwrap_or_default().as_bytes(), &mut before);
        let mut after = Vec::new();
        Maybe::<Text>::put(&container.cpuset, &mut after);
        let reasons: &BTreeMap<_, _> = &container.unavailable;
        let reasons = reasons.iter().map(|(name, why)| (name.clone(), why.clone()));
        ByName::<Text>::put(&reasons.collect(), &mut after);
        Self { before, after }
    }

    #[cfg(target_os = "linux")]
    pub(in crate::telemetry) fn is_empty(&self) -> bool {
        self.before.is_empty()
    }
}

/// Writes a container of which the description is known.
pub(in crate::telemetry) fn put_container(
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

fn kind(name: &[u8]) -> Option<ContainerKind> {
    let name: serde::de::value::StrDeserializer<'_, Error> =
        str::from_utf8(name).ok()?.into_deserializer();
    ContainerKind::deserialize(name).ok()
}

/// Yes or no.
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

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(if Self::take(from)? { b"true" } else { b"false" });
        Some(())
    }
}

/// The codes of fields that are declared elsewhere, all of which may be missing; in the order of their declaration.
macro_rules! coded {
    ($name:ident { $($field:ident: $code:ty),* $(,)? }) => {
        impl Code for $name {
            type Value = Self;

            fn put(value: &Self, out: &mut Vec<u8>) {
                $(Maybe::<$code>::put(&value.$field, out);)*
            }

            fn take(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self { $($field: Maybe::<$code>::take(from)?,)* })
            }

            fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
                out.push(b'{');
                $(Maybe::<$code>::entry(key_of(concat!(stringify!($field), "\":")), from, out)?;)*
                out.push(b'}');
                Some(())
            }
        }
    };
}

coded!(ContainerMemory {
    current: Integer,
    max: Integer,
    high: Integer,
    peak: Integer,
    oom_kills: Integer,
    limit_is_host: Bool,
});

coded!(ContainerCpu {
    quota_us: Integer,
    period_us: Integer,
    quota_cpus: Float,
    throttled_periods: Integer,
    periods: Integer,
    throttled_us: Integer,
    usage_us: Integer,
});

coded!(ContainerPids { current: Integer, max: Integer });

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
        Container::json(&mut Reader::new(&bytes), &mut json).unwrap();
        assert_eq!(json, serde_json::to_vec(&container).unwrap());
        for cut in 0..bytes.len() {
            assert_eq!(Container::take(&mut Reader::new(&bytes[..cut])), None);
        }
    }
}
