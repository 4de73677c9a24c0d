//! Captures into BSON, straight from their bytes: what they become is what their JSON becomes.

use serde::Serialize;

use super::bytes::{Open, Writer, decimal, kind};
use super::scan::Scanner;
use crate::telemetry::Form;

/// The value of an element, being written.
#[derive(Debug)]
pub(super) struct Capture<'w> {
    writer: &'w mut Writer,
    /// Where the kind of the next value belongs.
    at: usize,
    /// How many documents and arrays are open around it.
    depth: usize,
}

impl<'w> Capture<'w> {
    /// The value of a field of the record, which begins there.
    pub(super) fn new(writer: &'w mut Writer, at: usize) -> Self {
        Self { writer, at, depth: 1 }
    }

    #[inline]
    fn is(&mut self, kind: u8) {
        self.writer.bytes[self.at] = kind;
    }

    fn begin(&mut self, kind: u8) -> Open {
        self.is(kind);
        self.depth += 1;
        self.writer.open()
    }

    #[inline]
    fn double(&mut self, value: f64) {
        self.is(kind::DOUBLE);
        self.writer.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

impl Form for Capture<'_> {
    const IS_SORTED: bool = true;

    type Open = Open;

    fn open(&mut self) -> Open {
        self.begin(kind::DOCUMENT)
    }

    // The key is known when this is compiled: so are the bytes.
    #[inline(always)]
    fn key(&mut self, key: &'static str) {
        self.at = self.writer.sorted_element(&key[..key.len() - 2]);
    }

    fn close(&mut self, open: Open) {
        self.depth -= 1;
        self.writer.close_sorted(open);
    }

    fn open_names(&mut self) -> Open {
        self.begin(kind::DOCUMENT)
    }

    fn name(&mut self, name: &[u8]) {
        self.at = self.writer.any_element(&String::from_utf8_lossy(name));
    }

    fn close_names(&mut self, open: Open) {
        self.depth -= 1;
        self.writer.close(open);
    }

    fn open_list(&mut self) -> Open {
        self.begin(kind::ARRAY)
    }

    fn item(&mut self, index: usize) {
        self.at = self.writer.item(index);
    }

    fn close_list(&mut self, open: Open) {
        self.depth -= 1;
        self.writer.close_sorted(open);
    }

    #[inline]
    fn integer(&mut self, value: u64) {
        let kind = match i64::try_from(value) {
            Ok(value) => self.writer.whole(value),
            Err(_) => {
                self.writer.bytes.extend_from_slice(&decimal(value));
                kind::DECIMAL
            }
        };
        self.is(kind);
    }

    #[inline]
    fn decimal<const DIGITS: u32>(&mut self, value: u64) {
        // Rounded once, as where the digits are read.
        self.double(value as f64 / 10_u64.pow(DIGITS) as f64);
    }

    fn float(&mut self, value: f64) {
        if value.is_finite() { self.double(value) } else { self.null() }
    }

    fn text(&mut self, bytes: &[u8]) {
        self.is(kind::STRING);
        // Nearly all are text, and to find that out is faster than to replace what is not.
        match str::from_utf8(bytes) {
            Ok(text) => self.writer.text(text),
            Err(_) => self.writer.text(&String::from_utf8_lossy(bytes)),
        }
    }

    fn boolean(&mut self, value: bool) {
        self.is(kind::BOOL);
        self.writer.bytes.push(u8::from(value));
    }

    fn null(&mut self) {
        self.is(kind::NULL);
    }

    fn any<T: Serialize>(&mut self, value: &T) -> Option<()> {
        let json = serde_json::to_string(value).ok()?;
        let at = self.at;
        let mut scanner = Scanner::inside(&json, self.depth);
        let kind = scanner.write_value(self.writer)?;
        self.writer.bytes[at] = kind;
        scanner.end()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use mongodb::bson::oid::ObjectId;
    use proptest::prelude::*;

    use crate::store::mongodb::document::{Encoder, Label};
    use crate::store::{Batch, Captured, CapturedRecord, Captures, Store, StoreChoice};
    use crate::telemetry::{
        Snapshot, TelemetryCapture, TelemetryChoice, TelemetryType, Types, snapshots,
    };

    fn label() -> Label<'static> {
        Label { registered: 5, ..Label::new(ObjectId::from_bytes([7; 12])) }
    }

    /// The document of a record with its captures, and the one of its text.
    fn both(record: CapturedRecord<'_>) -> [Vec<u8>; 2] {
        let text = CapturedRecord::from(record.text());
        [record, text].map(|record| {
            // What is remembered of the record before must not matter.
            let mut encoder = Encoder::default();
            encoder.encode(record, &label()).unwrap();
            encoder.encode(record, &label()).unwrap().document.into_bytes()
        })
    }

    /// What comes of a record of which these are the captures, and which has them as this text.
    fn with_captures(
        text: &str,
        captures: [Option<&[u8]>; 2],
        test: impl FnMut(CapturedRecord<'_>),
    ) {
        let before = r#"{"type":"task","task_id":"t","started_at":1.25,"used":{"b":1,"a":[]}"#;
        let after = r#","capture":{"start_ns":1},"pid":4,"code":{"file":"f","crate":"c"}}"#;
        let line = format!("{before}{text}{after}\n");
        let mut kept = Captures::default();
        kept.push(before.len()..before.len() + text.len(), captures);
        let ends = [line.len()];
        let batch = Batch::new(line.as_bytes(), &ends).with_captures(&kept);
        let told: Vec<_> = batch.captures().collect();
        assert_eq!(told[0].map(|it| it.map(|it| it.0)), captures);
        batch.captured().for_each(test);
    }

    fn text_of(captures: [&[u8]; 2]) -> String {
        let mut text = Vec::new();
        for (name, capture) in ["start", "end"].iter().zip(captures) {
            text.extend_from_slice(format!(r#","telemetry_at_{name}":"#).as_bytes());
            assert!(Snapshot(capture).write_json(&mut text));
        }
        String::from_utf8(text).unwrap()
    }

    fn is_by_captures(record: CapturedRecord<'_>) -> bool {
        let captured: Option<Captured<'_>> = record.captured();
        captured.is_some_and(|captured| Encoder::default().of_captured(&captured).is_some())
    }

    proptest! {
        #[test]
        fn a_capture_becomes_what_its_text_becomes(start in snapshots(), end in snapshots()) {
            with_captures(&text_of([&start, &end]), [Some(&start), Some(&end)], |record| {
                assert!(is_by_captures(record));
                let [by_captures, by_text] = both(record);
                assert_eq!(by_captures, by_text);
            });
        }
    }

    #[test]
    fn of_damaged_captures_the_text_tells() {
        let mut capture = Vec::new();
        TelemetryCapture::new(Types::host()).capture_into(Types::host(), &mut capture);
        let text = text_of([&capture, &capture]);
        let cut = &capture[..capture.len() / 2];
        with_captures(&text, [Some(cut), Some(&capture)], |record| {
            assert!(!is_by_captures(record));
            let [by_captures, by_text] = both(record);
            assert_eq!(by_captures, by_text);
        });
    }

    /// Both documents of a record, and whether they were made in two ways.
    type Made = ([Vec<u8>; 2], bool);

    /// Keeps what becomes of what it gets.
    struct Both(Arc<Mutex<Vec<Made>>>);

    impl Store for Both {
        fn write(&mut self, batch: &Batch<'_>) -> crate::Result<()> {
            let made = batch.captured().map(|record| (both(record), is_by_captures(record)));
            self.0.lock().unwrap().extend(made);
            Ok(())
        }

        fn wants_captures(&self) -> bool {
            true
        }
    }

    #[test]
    fn real_tasks_become_what_their_text_becomes() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let store = StoreChoice::custom(Both(Arc::clone(&kept)));
        let run = crate::workflow("captures").store(store).start().unwrap();
        for number in 0..20 {
            let types = TelemetryChoice::Types(&[TelemetryType::Cpu, TelemetryType::ProcessInfo]);
            let task = crate::task("step").telemetry(types).used("number", &number);
            task.run(|| ());
        }
        run.finish().unwrap();
        let kept = kept.lock().unwrap();
        assert_eq!(kept.iter().filter(|(_, is_by_captures)| *is_by_captures).count(), 20);
        for ([by_captures, by_text], _) in &*kept {
            assert_eq!(by_captures, by_text);
        }
    }
}
