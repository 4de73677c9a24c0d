//! A capture as bytes: what a task carries until it is stored.
//!
//! Bytes and not a structure, because they travel through a ring that another process may have to read. They are complete in
//! themselves: a version, the types that were asked for, where the process's part begins, then the fields of [`Telemetry`] in
//! the order of their declaration. Whole numbers take as few bytes as they need, and names stand where they are used.
//!
//! Of a dead process's bytes nothing is trusted: what makes no sense gives nothing.

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

/// Changes with the layout.
const VERSION: u8 = 3;

/// Bytes before the fields.
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
    /// The structure; none where the bytes are damaged.
    pub fn decode(&self) -> Option<Telemetry> {
        let mut from = self.body()?;
        let telemetry = Telemetry::take(&mut from)?;
        from.is_at_end().then_some(telemetry)
    }

    /// Appends the JSON of the structure, without making one; appends nothing and says so where the bytes are damaged.
    pub fn write_json(&self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_written = self.append_json(out).is_some();
        if !is_written {
            out.truncate(start);
        }
        is_written
    }

    /// `None` if the bytes are damaged. A part of the JSON may have been appended then.
    fn append_json(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut from = self.body()?;
        Telemetry::write_json(&mut from, out)?;
        from.is_at_end().then_some(())
    }

    /// The same without its largest part, with the reason for that; none where no part is left. What tasks used is told
    /// from the process and the energy, so that these go last.
    pub fn without_largest(&self, reason: &str) -> Option<Vec<u8>> {
        let types = Types::from_bits(u16::from_le_bytes([*self.0.get(1)?, *self.0.get(2)?]));
        let mut telemetry = self.decode()?;
        let part = telemetry.take_largest()?;
        telemetry.unavailable.push(part, reason.to_owned());
        let mut smaller = Vec::new();
        put(types, &telemetry, &mut smaller);
        Some(smaller)
    }

    /// What the process had used, where its part was captured.
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

    /// What the meters said, where they were read.
    pub fn energy(&self) -> Option<Energy> {
        // Most captures hold none, and each part on the way to it would have to be passed over.
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

/// As the structure; damaged bytes as nothing. For JSON text, [`Snapshot::write_json`] is the faster way.
impl Serialize for Snapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.decode().serialize(serializer)
    }
}

/// A snapshot that is being written.
pub(super) struct Begun {
    start: usize,
}

/// Begins a snapshot.
pub(super) fn begin(types: Types, out: &mut Vec<u8>) -> Begun {
    let start = out.len();
    out.push(VERSION);
    out.extend_from_slice(&types.bits().to_le_bytes());
    out.resize(start + HEAD, 0);
    Begun { start }
}

impl Begun {
    /// Notes that the part of the process follows: what a task used is told from it, and all that stands before it would have to
    /// be passed over to find it.
    pub(super) fn process_follows(&self, out: &mut [u8]) {
        let at = (out.len() - self.start) as u32;
        out[self.start + 3..self.start + HEAD].copy_from_slice(&at.to_le_bytes());
    }
}

/// Writes a whole structure.
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
