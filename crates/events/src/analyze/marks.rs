//! Detects events of note: alerts, memory that ran out, phases and collective operations.

use serde_json::Value;

use super::finding::Severity;
use super::series::MarkKind;
use crate::events::TelemetryEvent;

/// Names of collective operations and their libraries, without separators.
const COLLECTIVES: [&str; 12] = [
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "broadcast",
    "barrier",
    "collective",
    "nccl",
    "rccl",
    "gloo",
    "oneccl",
    "mpi",
];

/// Metadata keys that may name the operation or phase of an event.
const TELLING: [&str; 6] = ["phase", "stage", "operation", "op", "marker", "collective"];

/// Returns the kind of mark that an event makes. `None` for ordinary events.
pub(super) fn kind_of(event: &TelemetryEvent) -> Option<MarkKind> {
    let kind = &*event.event_type;
    let is_alert = matches!(kind, "warning" | "critical" | "error");
    if kind.contains("oom") || (is_alert && tells_of_no_memory(event)) {
        return Some(MarkKind::OutOfMemory);
    }
    if is_collective(event) {
        return Some(MarkKind::Collective);
    }
    Some(match kind {
        "warning" => MarkKind::Alert(Severity::Warning),
        "critical" | "error" => MarkKind::Alert(Severity::Critical),
        "phase_enter" | "phase_exit" => MarkKind::Phase,
        "collector_degraded" => MarkKind::Degraded,
        _ => return None,
    })
}

fn tells_of_no_memory(event: &TelemetryEvent) -> bool {
    let text = event.context.as_deref().unwrap_or_default().to_lowercase();
    ["out of memory", "outofmemory", "resource exhausted", "allocation failed"]
        .iter()
        .any(|words| text.contains(words))
}

fn is_collective(event: &TelemetryEvent) -> bool {
    let told = TELLING.iter().filter_map(|name| event.metadata.get(*name)?.as_str());
    let phase = event.metadata.get("phase_scope").and_then(|scope| scope.get("name"));
    let mut texts = told.chain(phase.and_then(Value::as_str)).chain(event.context.as_deref());
    texts.any(names_collective)
}

/// Whether a text contains the name of a collective operation as whole words: `nccl all_reduce`,
/// `AllReduce`, `all-gather`.
fn names_collective(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let begins = |at: usize| {
        // Names such as `all_reduce` and `all to all` consist of up to three words.
        let mut joined = String::new();
        words[at..].iter().take(3).any(|word| {
            joined.push_str(word);
            COLLECTIVES.contains(&&*joined)
        })
    };
    (0..words.len()).any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_are_known_by_whole_words() {
        for text in ["nccl all_reduce", "AllReduce", "ddp.all-gather", "All to All", "barrier"] {
            assert!(names_collective(text), "{text}");
        }
        for text in ["", "compile", "small reducer", "mpirun", "barriers are off", "all of it"] {
            assert!(!names_collective(text), "{text}");
        }
    }

    #[test]
    fn alerts_that_tell_of_no_memory_are_more_than_alerts() {
        let event = |kind: &str, context: &str| TelemetryEvent {
            event_type: kind.into(),
            context: Some(context.into()),
            ..TelemetryEvent::default()
        };
        for (kind, context, expected) in [
            ("error", "CUDA out of memory. Tried to allocate 2 GiB", Some(MarkKind::OutOfMemory)),
            ("oom", "", Some(MarkKind::OutOfMemory)),
            ("sample", "out of memory", None),
            ("warning", "memory at 91 %", Some(MarkKind::Alert(Severity::Warning))),
            ("phase_enter", "epoch 3", Some(MarkKind::Phase)),
            ("sample", "nccl", Some(MarkKind::Collective)),
        ] {
            assert_eq!(kind_of(&event(kind, context)), expected, "{kind} {context}");
        }
    }
}
