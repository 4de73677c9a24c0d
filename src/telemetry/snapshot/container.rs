//! The container in a snapshot: its numbers, and everything else as JSON that need not be made anew each time.

use super::bytes::{Reader, put_bytes};
use super::code::{Code, Float, Integer, Json, Maybe};
use super::json;
use crate::telemetry::container::{Container, ContainerNumbers};

impl Code for Container {
    type Value = Self;

    fn put(value: &Self, out: &mut Vec<u8>) {
        let Self { memory, cpu, pids, .. } = *value;
        put_container(&ContainerNumbers { memory, cpu, pids }, &description(value), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let numbers = take_numbers(from)?;
        let mut container = Json::<Self>::take(from)?;
        container.memory = numbers.memory;
        container.cpu = numbers.cpu;
        container.pids = numbers.pids;
        Some(container)
    }

    fn json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        json::by_serde(&Self::take(from)?, out)
    }
}

/// What does not change from capture to capture.
pub(in crate::telemetry) fn description(container: &Container) -> Vec<u8> {
    let mut container = container.clone();
    let numbers = ContainerNumbers::default();
    (container.memory, container.cpu, container.pids) = (numbers.memory, numbers.cpu, numbers.pids);
    serde_json::to_vec(&container).unwrap_or_default()
}

/// Writes a container of which the description is known.
pub(in crate::telemetry) fn put_container(
    numbers: &ContainerNumbers,
    description: &[u8],
    out: &mut Vec<u8>,
) {
    let ContainerNumbers { memory, cpu, pids } = numbers;
    for number in [
        memory.current,
        memory.max,
        memory.high,
        memory.peak,
        memory.oom_kills,
        memory.limit_is_host.map(u64::from),
        cpu.quota_us,
        cpu.period_us,
        cpu.throttled_periods,
        cpu.periods,
        cpu.throttled_us,
        cpu.usage_us,
        pids.current,
        pids.max,
    ] {
        Maybe::<Integer>::put(&number, out);
    }
    Maybe::<Float>::put(&cpu.quota_cpus, out);
    put_bytes(description, out);
}

fn take_numbers(from: &mut Reader<'_>) -> Option<ContainerNumbers> {
    let mut numbers = ContainerNumbers::default();
    let mut next = || Maybe::<Integer>::take(from);
    let memory = &mut numbers.memory;
    memory.current = next()?;
    memory.max = next()?;
    memory.high = next()?;
    memory.peak = next()?;
    memory.oom_kills = next()?;
    memory.limit_is_host = next()?.map(|is_host| is_host != 0);
    let cpu = &mut numbers.cpu;
    cpu.quota_us = next()?;
    cpu.period_us = next()?;
    cpu.throttled_periods = next()?;
    cpu.periods = next()?;
    cpu.throttled_us = next()?;
    cpu.usage_us = next()?;
    numbers.pids.current = next()?;
    numbers.pids.max = next()?;
    numbers.cpu.quota_cpus = Maybe::<Float>::take(from)?;
    Some(numbers)
}

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
