//! Reads the records of a JSON file: an array, an object that contains one, or a single record.

use std::io;

use super::fast::Repeated;
use super::problem::What;
use super::record::Options;
use super::scan::{Ended, Scanner};
use super::source::{Input, Source};
use super::text::{self, Read, Wrong};

/// An object with at least one of these keys is a record itself.
const RECORD_KEYS: [&str; 7] = [
    "schema_version",
    "event_type",
    "type",
    "memory_allocated",
    "memory_mb",
    "timestamp",
    "timestamp_ns",
];

/// The line of a record, its index in the array, and the result of parsing it.
pub(super) type ParsedRecord = (u64, Option<u64>, Result<Read, What>);

/// Reads the records of a file one at a time.
pub(super) struct Records {
    scanner: Scanner<Input>,
    buffer: Vec<u8>,
    repeated: Repeated,
    index: u64,
    state: State,
}

#[derive(PartialEq)]
enum State {
    /// Before a value of an array, or after one if `after_another`.
    InArray {
        after_another: bool,
        at_top: bool,
    },
    /// Before the only record.
    Alone,
    Done,
}

/// The content of an opened file.
pub(super) struct Opened {
    pub(super) records: Records,
    /// The text of `session_summary`, which exports have beside `telemetry_events`.
    pub(super) summary: Option<Vec<u8>>,
}

/// The position of a value.
#[derive(Clone, Copy)]
struct Position {
    offset: u64,
    line: u64,
    is_array: bool,
}

/// The relevant keys of an object. If a key occurs twice, the last one counts.
#[derive(Default)]
struct Shape {
    events: Option<Position>,
    telemetry_events: Option<Position>,
    chosen: Option<Position>,
    summary: Option<Vec<u8>>,
    is_record: bool,
}

impl Records {
    /// Opens a file and finds its records. The outer error is an I/O error, the inner one describes
    /// what is wrong with the file.
    pub(super) fn open(source: &Source, key: Option<&str>) -> io::Result<Result<Opened, String>> {
        let mut scanner = Scanner::new(source.open()?)?;
        let at_top = State::InArray { after_another: false, at_top: true };
        match scanner.peek()? {
            None => return Ok(Err("the file is empty: JSON is expected".to_owned())),
            Some(b'[') => {
                scanner.pass();
                let records = Self::new(scanner, at_top);
                return Ok(Ok(Opened { records, summary: None }));
            }
            Some(b'{') => {}
            Some(_) => {
                let what = match text_of(&mut scanner)? {
                    Ok(_) => "Telemetry payload must be a JSON object or array".to_owned(),
                    Err(wrong) => wrong.to_string(),
                };
                return Ok(Err(what));
            }
        }
        let (shape, broken) = Shape::of(&mut scanner, key)?;
        let array = |place: Option<Position>| place.filter(|place| place.is_array);
        let (place, with_summary) = if let Some(key) = key {
            let Some(place) = array(shape.chosen) else {
                return Ok(Err(broken.unwrap_or_else(|| {
                    format!("Top-level key '{key}' must contain a list of events")
                })));
            };
            (place, key == "telemetry_events")
        } else if let Some(place) = array(shape.events) {
            (place, false)
        } else if let Some(place) = array(shape.telemetry_events) {
            (place, true)
        } else if shape.is_record {
            let records = Self::new(Scanner::new(source.open()?)?, State::Alone);
            return Ok(Ok(Opened { records, summary: None }));
        } else {
            let what = "JSON payload does not contain telemetry events";
            return Ok(Err(broken.unwrap_or_else(|| what.to_owned())));
        };
        let mut scanner = Scanner::new(source.open()?)?;
        scanner.go_to(place.offset, place.line)?;
        scanner.pass();
        let state = State::InArray { after_another: false, at_top: false };
        let summary = shape.summary.filter(|_| with_summary);
        Ok(Ok(Opened { records: Self::new(scanner, state), summary }))
    }

    fn new(scanner: Scanner<Input>, state: State) -> Self {
        Self { scanner, buffer: Vec::new(), repeated: Repeated::default(), index: 0, state }
    }

    /// Returns the next record with its line and its index in the array.
    pub(super) fn next(&mut self, options: &Options) -> io::Result<Option<ParsedRecord>> {
        let next = self.scanner.peek()?;
        let line = self.scanner.line;
        let broken = |what: &str| Ok(Some((line, None, Err(What::Cut(what.to_owned())))));
        match (&mut self.state, next) {
            (State::Done, _) => Ok(None),
            (State::InArray { .. }, None) => {
                self.state = State::Done;
                broken("the file ends in the middle of its events")
            }
            (State::InArray { at_top, .. }, Some(b']')) => {
                let at_top = *at_top;
                self.state = State::Done;
                self.scanner.pass();
                match at_top && self.scanner.peek()?.is_some() {
                    true => broken("something comes after the end of the JSON array"),
                    false => Ok(None),
                }
            }
            (State::InArray { after_another: after @ true, .. }, Some(next)) => {
                if next != b',' {
                    self.state = State::Done;
                    return broken("a comma is missing between two events; the rest is left out");
                }
                *after = false;
                self.scanner.pass();
                self.next(options)
            }
            (State::InArray { after_another, .. }, Some(b',' | b'}' | b':')) => {
                *after_another = false;
                self.state = State::Done;
                broken("an event is missing between two commas; the rest is left out")
            }
            (State::InArray { after_another, .. }, Some(_)) => {
                *after_another = true;
                let ended = self.scanner.value(Some(&mut self.buffer))?;
                let index = self.index;
                self.index += 1;
                if ended == Ended::Torn {
                    self.state = State::Done;
                }
                Ok(Some((line, Some(index), self.read(&ended, options))))
            }
            (State::Alone, _) => {
                let ended = self.scanner.value(Some(&mut self.buffer))?;
                self.state = State::Done;
                Ok(Some((line, Some(0), self.read(&ended, options))))
            }
        }
    }

    fn read(&mut self, ended: &Ended, options: &Options) -> Result<Read, What> {
        match ended {
            Ended::TooLong => Err(What::TooLong),
            Ended::Torn => Err(What::Cut("the file ends in the middle of an event".to_owned())),
            Ended::Whole => {
                text::parse(&self.buffer, options, &mut self.repeated).map_err(What::Record)
            }
        }
    }
}

fn text_of(scanner: &mut Scanner<Input>) -> io::Result<Result<(), Wrong>> {
    let mut text = Vec::new();
    scanner.value(Some(&mut text))?;
    Ok(text::value(&text).map(|_| ()))
}

impl Shape {
    /// Scans an object. Also returns a description of the first syntax error and its line.
    fn of(scanner: &mut Scanner<Input>, key: Option<&str>) -> io::Result<(Self, Option<String>)> {
        let mut shape = Shape::default();
        scanner.pass();
        let mut text = Vec::new();
        loop {
            let line = scanner.line;
            let broken = |what: &str| Some(format!("not JSON at line {line} ({what})"));
            match scanner.peek()? {
                Some(b'"') => {}
                Some(b'}') => return Ok((shape, None)),
                None => return Ok((shape, broken("the file ends in the middle of it"))),
                Some(_) => return Ok((shape, broken("a key is expected"))),
            }
            scanner.value(Some(&mut text))?;
            let name: String = text::value(&text)
                .ok()
                .and_then(|(name, _)| name.as_str().map(str::to_owned))
                .unwrap_or_default();
            if scanner.peek()? != Some(b':') {
                return Ok((shape, broken("a colon is expected")));
            }
            scanner.pass();
            let first = scanner.peek()?;
            let is_array = first == Some(b'[');
            let place = Some(Position { offset: scanner.offset, line: scanner.line, is_array });
            match name.as_str() {
                "events" => shape.events = place,
                "telemetry_events" => shape.telemetry_events = place,
                _ => {}
            }
            if Some(name.as_str()) == key {
                shape.chosen = place;
            }
            shape.is_record |= RECORD_KEYS.contains(&name.as_str());
            let is_summary = name == "session_summary" && first == Some(b'{');
            let ended = scanner.value(is_summary.then_some(&mut text))?;
            if is_summary {
                shape.summary = Some(text.clone());
            }
            if ended == Ended::Torn {
                return Ok((shape, broken("the file ends in the middle of it")));
            }
            match scanner.peek()? {
                Some(b',') => scanner.pass(),
                Some(b'}') => return Ok((shape, None)),
                _ => return Ok((shape, broken("a comma or the end is expected"))),
            }
        }
    }
}
