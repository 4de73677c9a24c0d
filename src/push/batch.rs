//! Batches of events.

use runlore_core::record::Id;
use runlore_events::events::{Invalid, Target, TelemetryEvent};

/// A request body that is being built.
#[derive(Debug)]
pub(super) struct Batch {
    body: Vec<u8>,
    count: usize,
}

/// A finished request body, identical on every retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) key: String,
    pub(super) count: u64,
    pub(super) body: Vec<u8>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self { body: br#"{"events":["#.to_vec(), count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, event: &TelemetryEvent, target: Target) -> Result<(), Invalid> {
        let record = event.to_record(target)?;
        if self.count > 0 {
            self.body.push(b',');
        }
        // A record can always be converted to JSON.
        _ = serde_json::to_writer(&mut self.body, &record);
        self.count += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Parcel {
        self.body.extend_from_slice(b"]}");
        Parcel { key: Id::new().to_string(), count: self.count as u64, body: self.body }
    }
}
