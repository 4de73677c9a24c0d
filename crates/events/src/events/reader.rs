//! Streams events from files, in constant memory.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::bundle::{self, Bundle};
use super::csv::Rows;
use super::event::{Schema, TelemetryEvent};
use super::fast::Repeated;
use super::json::Records;
use super::problem::{Problem, What};
use super::record::Options;
use super::session::SessionSummary;
use super::session_id;
use super::shared::Text;
use super::sink::{self, Sink};
use super::source::{Input, Source};
use super::text::{self, Read};
use runlore_core::store::jsonl::{LIMIT, Line, Lines};
use runlore_core::{Error, ErrorKind, Result};

/// The format of a file of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// An array of records, or an object that contains one.
    Json,
    /// One record per line.
    JsonLines,
    /// One record per row, with the field names as the header.
    Csv,
}

impl Format {
    /// Returns the format by the file name: `.json`, `.jsonl` (or `.ndjson`) or `.csv`, optionally
    /// followed by `.gz` or `.zst`. `None` for any other name.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_lowercase();
        let name = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Options for reading a file of events.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// How to complete records that lack fields.
    pub records: Options,
    /// The format, if the file name does not determine it.
    pub format: Option<Format>,
    /// The key of the array of events in a JSON object, if it is neither `events` nor
    /// `telemetry_events`.
    pub events_key: Option<String>,
}

/// An iterator over the events of a file or a sink, created by [`read`]. An invalid record is
/// returned as a [`Problem`]; the records after it are still read.
pub struct Reader {
    path: PathBuf,
    options: ReadOptions,
    sources: VecDeque<(Source, Option<String>)>,
    all: Vec<Source>,
    size: u64,
    current: Option<Current>,
    problems: VecDeque<Problem>,
    summaries: Vec<SessionSummary>,
    /// Whether `summaries` holds the summary of an export, and all events so far match it.
    claimed: bool,
    made_up: Option<Text>,
    rewritten: u64,
    schema: Option<Schema>,
    /// The events of a bundle, which are all loaded when it is opened.
    bundled: Option<VecDeque<TelemetryEvent>>,
}

struct Current {
    path: PathBuf,
    /// The session of records that name none.
    session: Option<Text>,
    records: Kind,
}

enum Kind {
    Lines(Lines<Input>, Repeated),
    Json(Box<Records>),
    Csv(Box<Rows>),
    Bundled(VecDeque<TelemetryEvent>),
    Done,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Streams the events of a file, of a sink's folder, or of the folder of a diagnose bundle. A file
/// is JSON, JSON lines or CSV, and may be compressed with gzip or zstd.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("runlore-doc-events-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("run.jsonl");
/// std::fs::write(&path, "{\"timestamp\": 1, \"memory_allocated\": 5}\n{\"timestamp\": true}\n")?;
/// let mut events = runlore::events::read(&path)?;
/// assert_eq!(events.next().unwrap()?.allocator_allocated_bytes, Some(5));
/// let problem = events.next().unwrap().unwrap_err();
/// assert_eq!(problem.line(), Some(2));
/// assert_eq!(problem.reason(), "Legacy record is missing a valid timestamp");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the path cannot be read, or is a folder without telemetry. Problems inside the files are
/// returned by the [`Reader`].
pub fn read(path: impl AsRef<Path>) -> Result<Reader> {
    read_with(path, &ReadOptions::default())
}

/// Streams events as [`read`] does, with options.
///
/// # Errors
///
/// As [`read`].
pub fn read_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Reader> {
    let path = path.as_ref();
    let mut reader = Reader {
        path: path.to_owned(),
        options: options.clone(),
        sources: VecDeque::new(),
        all: Vec::new(),
        size: 0,
        current: None,
        problems: VecDeque::new(),
        summaries: Vec::new(),
        claimed: false,
        made_up: None,
        rewritten: 0,
        schema: None,
        bundled: None,
    };
    let failed = |error: io::Error| cannot_read(path, &error);
    let by_key = options.events_key.is_some();
    match (bundle::folder_of(path), sink::folder_of(path)) {
        (Some(folder), _) if !by_key => {
            let bundle = Bundle::open(folder).map_err(failed)?;
            reader.problems = bundle.problems.into();
            reader.summaries = bundle.summary.into_iter().collect();
            reader.bundled = Some(bundle.events);
            let source = Source { plain: true, ..Source::new(&bundle.timeline) };
            reader.sources.push_back((source, None));
        }
        (None, Some(folder)) if !by_key => {
            let sink = Sink::open(folder).map_err(failed)?;
            let sink = sink.map_err(|what| Error::new(ErrorKind::Record, what))?;
            reader.problems = sink.problems.into();
            reader.summaries = sink.summaries;
            for (path, session) in sink.segments {
                let source = Source { plain: true, ..Source::new(&path) };
                reader.sources.push_back((source, session));
            }
        }
        _ => reader.sources.push_back((Source::new(path), None)),
    }
    reader.all = reader.sources.iter().map(|(source, _)| source.clone()).collect();
    for source in &reader.all {
        reader.size += source.size().map_err(failed)?;
    }
    reader.open_next().map_err(failed)?;
    Ok(reader)
}

fn cannot_read(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot read {}: {error}", path.display()))
}

impl Reader {
    /// Returns the number of bytes read and the total number of bytes, both before decompression.
    pub fn progress(&self) -> (u64, u64) {
        let read = self.all.iter().map(|source| source.read.load(Ordering::Relaxed)).sum();
        (read, self.size)
    }

    /// Returns the number of values that were changed while reading: `NaN` and `Infinity` became
    /// null, whole numbers of more than 64 bits became text, and unpaired surrogates became U+FFFD.
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// Returns the newest schema of the records read so far. `None` before the first. Records
    /// without a version count as schema 3.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("run.jsonl");
    /// std::fs::write(&path, "{\"timestamp\": 1, \"memory_allocated\": 5}\n")?;
    /// let mut events = runlore::events::read(&path)?;
    /// assert_eq!(events.schema(), None);
    /// events.next();
    /// assert_eq!(events.schema(), Some(runlore::events::Schema::V3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schema(&self) -> Option<Schema> {
        self.schema
    }

    /// Returns the session summaries of the manifest or the export. The summary of an export is
    /// removed when an event does not match it, so it is certain only after all events were read.
    pub fn summaries(&self) -> &[SessionSummary] {
        &self.summaries
    }

    /// Returns the index of the file that the last event came from.
    pub(super) fn current_file(&self) -> usize {
        self.all.len() - self.sources.len() - 1
    }

    /// Returns the path of the file with this index.
    pub(super) fn path_of(&self, file: usize) -> &Path {
        &self.all[file].path
    }

    /// Returns the `source` of session summaries that are inferred from events.
    pub(super) fn source_name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        format!("artifact:{}", name.to_string_lossy())
    }

    fn open_next(&mut self) -> io::Result<bool> {
        let Some((source, session)) = self.sources.pop_front() else { return Ok(false) };
        let path = source.path.clone();
        if let Some(events) = self.bundled.take() {
            self.current = Some(Current {
                path,
                session: session.map(Into::into),
                records: Kind::Bundled(events),
            });
            return Ok(true);
        }
        let format = match self.options.format.or_else(|| Format::of_name(&path)) {
            _ if source.plain => Format::JsonLines,
            Some(format) => format,
            None => sniff(source.open()?)?,
        };
        let records = match format {
            Format::JsonLines => {
                Kind::Lines(Lines::new(source.open()?, LIMIT), Repeated::default())
            }
            Format::Csv => Kind::Csv(Box::new(Rows::new(source.open()?)?)),
            Format::Json => match Records::open(&source, self.options.events_key.as_deref())? {
                Ok(opened) => {
                    if let Some(text) = opened.summary {
                        self.take_summary(&path, &text);
                    }
                    Kind::Json(Box::new(opened.records))
                }
                Err(what) => {
                    self.problems.push_back(Problem::of_file(&path, what));
                    Kind::Done
                }
            },
        };
        let session = session.map(Text::from);
        self.current = Some(Current { path, session, records });
        Ok(true)
    }

    fn take_summary(&mut self, path: &Path, text: &[u8]) {
        let summary = text::value(text).map_err(Error::from);
        match summary.and_then(|(value, _)| SessionSummary::from_value(&value)) {
            Ok(summary) => {
                self.summaries = vec![summary];
                self.claimed = true;
            }
            Err(error) => {
                let what = format!("the session's summary is left out: {error}");
                self.problems.push_back(Problem::of_file(path, what));
            }
        }
    }

    /// Fills in the session that the record does not name, and compares it with the summary of the
    /// export.
    fn complete(&mut self, read: Read, hint: Option<Text>) -> TelemetryEvent {
        let Read { mut event, schema, rewritten } = read;
        self.schema = self.schema.max(Some(schema));
        self.rewritten += rewritten as u64;
        if event.session_id.is_empty() {
            let known = || self.options.records.default_session_id.as_deref().map(Text::from);
            event.session_id = hint.or_else(known).unwrap_or_else(|| {
                self.made_up.get_or_insert_with(|| session_id::of_file(&event).into()).clone()
            });
        }
        if self.claimed && event.session_id != *self.summaries[0].session_id {
            self.claimed = false;
            self.summaries.clear();
            let what =
                "Tracker session summary does not match telemetry event identity; it is left out";
            self.problems.push_back(Problem::of_file(&self.path, what));
        }
        event
    }
}

/// Detects the format of a file by its first bytes.
fn sniff(input: Input) -> io::Result<Format> {
    let mut scanner = super::scan::Scanner::new(input)?;
    Ok(match scanner.peek()? {
        Some(b'[') => Format::Json,
        // A complete object that is followed by anything else is the first of several lines.
        Some(b'{') => {
            scanner.value(None)?;
            if scanner.peek()?.is_some() { Format::JsonLines } else { Format::Json }
        }
        Some(_) => Format::Csv,
        None => Format::JsonLines,
    })
}

impl Current {
    fn next(&mut self, options: &Options) -> Option<Result<Read, Problem>> {
        let path = &self.path;
        let found = match &mut self.records {
            Kind::Done => return None,
            Kind::Bundled(events) => {
                let read = |event| Read { event, schema: Schema::V3, rewritten: 0 };
                return events.pop_front().map(|event| Ok(read(event)));
            }
            Kind::Csv(rows) => {
                let (line, read) = rows.next(options)?;
                return Some(read.map_err(|what| Problem::new(path, Some(line), None, what)));
            }
            Kind::Lines(lines, repeated) => next_line(lines, options, repeated)
                .map(|found| found.map(|(line, read)| (line, None, read))),
            Kind::Json(records) => records.next(options),
        };
        match found {
            Ok(None) => None,
            Ok(Some((line, index, read))) => {
                Some(read.map_err(|what| Problem::new(path, Some(line), index, what)))
            }
            Err(error) => {
                let what = What::Cut(format!("cannot read on: {error}"));
                let problem = Problem::new(path, None, None, what);
                self.records = Kind::Done;
                Some(Err(problem))
            }
        }
    }
}

fn next_line(
    lines: &mut Lines<Input>,
    options: &Options,
    repeated: &mut Repeated,
) -> io::Result<Option<(u64, Result<Read, What>)>> {
    let Some((number, line)) = lines.next_line()? else { return Ok(None) };
    let read = match line {
        Line::TooLong => Err(What::TooLong),
        Line::Text(text) => text::parse(text, options, repeated).map_err(What::Record),
        Line::Unended(text) => text::parse(text, options, repeated).map_err(|wrong| match wrong {
            text::Wrong::Invalid(_) => What::Record(wrong),
            _ => What::Torn,
        }),
    };
    Ok(Some((number, read)))
}

impl Iterator for Reader {
    type Item = Result<TelemetryEvent, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(problem) = self.problems.pop_front() {
                return Some(Err(problem));
            }
            let Some(current) = &mut self.current else {
                match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => {
                        let what = What::Cut(format!("cannot read: {error}"));
                        return Some(Err(Problem::new(&self.path, None, None, what)));
                    }
                }
            };
            match current.next(&self.options.records) {
                Some(Ok(read)) => {
                    let session = current.session.clone();
                    return Some(Ok(self.complete(read, session)));
                }
                Some(Err(problem)) => return Some(Err(problem)),
                None => self.current = None,
            }
        }
    }
}
