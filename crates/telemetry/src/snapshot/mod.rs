//! The encoded form of a capture, which a task carries until it is stored.
//!
//! A capture travels as bytes rather than as a structure, because it passes through a ring that
//! another process may have to read. The bytes are self-contained: a version, the types that were
//! captured, the offset of the process part, then the fields of [`Telemetry`] in the order of their
//! declaration. Integers have a variable length, and names are stored inline.
//!
//! The bytes may come from a process that has died, so the decoder trusts nothing: it returns
//! `None` for invalid bytes.

mod bytes;
mod code;
mod container;
mod json;
mod named;
mod part;

pub(super) use bytes::Reader;
#[cfg(target_os = "linux")]
pub(super) use bytes::{OpenList, put_bytes, put_float, put_integer};
pub(super) use code::{
    Absent, ByName, Code, Float, Hundredths, Integer, Json, List, Maybe, Millionths, Reasons,
    Tenths, Text,
};
#[cfg(target_os = "linux")]
pub(super) use container::{Description, put_container};
pub use named::Named;
pub(crate) use part::{coded, key_of, part};

use serde::{Serialize, Serializer};

use super::TelemetryType;
use super::parts::{Energy, IoCounters, Process, ProcessMemory, Telemetry};
use super::types::Types;
use super::usage::ProcessUsage;

/// Version of the layout. Increment it when the layout changes.
const VERSION: u8 = 3;

/// Length of the header before the fields.
const HEAD: usize = 7;

/// A view of the bytes that [`TelemetryCapture::capture_into`](super::TelemetryCapture::capture_into) wrote.
///
/// ```
/// use runlore::telemetry::{Snapshot, TelemetryCapture, Types};
///
/// let capture = TelemetryCapture::new(Types::host());
/// let mut bytes = Vec::new();
/// capture.capture_into(Types::host(), &mut bytes);
///
/// let mut text = Vec::new();
/// assert!(Snapshot(&bytes).write_json(&mut text));
/// let telemetry = Snapshot(&bytes).decode().unwrap();
/// assert_eq!(String::from_utf8(text)?, serde_json::to_string(&telemetry)?);
///
/// assert_eq!(Snapshot(b"damaged").decode(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a>(pub &'a [u8]);

impl Snapshot<'_> {
    /// Decodes the capture. `None` if the bytes are damaged.
    pub fn decode(&self) -> Option<Telemetry> {
        let mut from = self.body()?;
        let telemetry = Telemetry::take(&mut from)?;
        from.is_at_end().then_some(telemetry)
    }

    /// Appends the JSON of the capture without decoding it to a structure. If the bytes are
    /// damaged, it appends nothing and returns `false`.
    pub fn write_json(&self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_written = self.append_json(out).is_some();
        if !is_written {
            out.truncate(start);
        }
        is_written
    }

    /// Like [`Self::write_json`], but returns `None` if the bytes are damaged. A part of the JSON
    /// may then have been appended.
    fn append_json(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut from = self.body()?;
        Telemetry::write_json(&mut from, out)?;
        from.is_at_end().then_some(())
    }

    /// Returns a copy without the largest part, with `reason` as the reason for the missing part.
    /// `None` if no part is left.
    ///
    /// The process and the energy are removed last, because the resource usage of tasks is computed
    /// from them.
    pub fn without_largest(&self, reason: &str) -> Option<Vec<u8>> {
        let types = Types::from_bits(u16::from_le_bytes([*self.0.get(1)?, *self.0.get(2)?]));
        let mut telemetry = self.decode()?;
        let part = telemetry.take_largest()?;
        telemetry.unavailable.push(part, reason.to_owned());
        let mut smaller = Vec::new();
        put(types, &telemetry, &mut smaller);
        Some(smaller)
    }

    /// Returns the resource usage of the process. `None` if the process part was not captured.
    pub fn process_usage(&self) -> Option<ProcessUsage> {
        let at = u32::from_le_bytes(self.0.get(3..HEAD)?.try_into().ok()?);
        let mut from = Reader::new(self.0.get(usize::try_from(at).ok()?..)?);
        if at == 0 || from.byte()? == 0 {
            return None;
        }
        let mut memory = from.clone();
        Process::skip_to("memory", &mut memory)?;
        let memory = Maybe::<ProcessMemory>::take(&mut memory)?;
        Process::skip_to("io_counters", &mut from)?;
        let io = Maybe::<IoCounters>::take(&mut from)?.unwrap_or_default();
        Some(ProcessUsage {
            read_bytes: io.read_bytes,
            write_bytes: io.write_bytes,
            rss: memory.map(|memory| memory.rss),
            peak_rss: None,
        })
    }

    /// Returns the readings of the energy meters. `None` if they were not captured.
    pub fn energy(&self) -> Option<Energy> {
        // Most captures have no energy, and finding that out would mean decoding all other parts.
        let types = Types::from_bits(u16::from_le_bytes([*self.0.get(1)?, *self.0.get(2)?]));
        if !types.contains(TelemetryType::Energy) {
            return None;
        }
        let mut from = self.body()?;
        Telemetry::skip_to("energy", &mut from)?;
        Maybe::<Energy>::take(&mut from)?
    }

    fn body(&self) -> Option<Reader<'_>> {
        match self.0 {
            [VERSION, ..] => self.0.get(HEAD..).map(Reader::new),
            _ => None,
        }
    }
}

/// Serializes like [`Telemetry`], and damaged bytes as `None`. For JSON text,
/// [`Snapshot::write_json`] is faster.
impl Serialize for Snapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.decode().serialize(serializer)
    }
}

/// A snapshot that is being written.
pub(super) struct OpenSnapshot {
    start: usize,
}

/// Writes the header of a snapshot.
pub(super) fn begin(types: Types, out: &mut Vec<u8>) -> OpenSnapshot {
    let start = out.len();
    out.push(VERSION);
    out.extend_from_slice(&types.bits().to_le_bytes());
    out.resize(start + HEAD, 0);
    OpenSnapshot { start }
}

impl OpenSnapshot {
    /// Stores the offset of the process part, which follows, in the header. With it, the usage of a
    /// task is found without skipping everything before it.
    pub(super) fn process_follows(&self, out: &mut [u8]) {
        let at = (out.len() - self.start) as u32;
        out[self.start + 3..self.start + HEAD].copy_from_slice(&at.to_le_bytes());
    }
}

/// Encodes a capture.
pub(super) fn put(types: Types, telemetry: &Telemetry, out: &mut Vec<u8>) {
    let begun = begin(types, out);
    let body = out.len();
    Telemetry::put(telemetry, out);
    let mut rest = Reader::new(&out[body..]);
    if Telemetry::skip_to("process", &mut rest).is_some() {
        let end = out.len() - rest.len();
        begun.process_follows(&mut out[..end]);
    }
}

#[cfg(test)]
mod tests;
